"""Files that are there whole or not at all."""

import os
import tempfile
from pathlib import Path

from lowerfix.errors import LowerfixError


def write(path: Path, content: bytes | str) -> None:
    """Write a file so that it is there whole or not at all.

    Raises:
        LowerfixError: where it cannot be written; what was there before is as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise _failed(path, error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~umask())  # a temporary file is for its owner alone
        os.replace(name, path)
    except OSError as error:
        raise _failed(path, error) from error
    finally:
        Path(name).unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Make sure that a file can be written, before the work that goes into it is done.

    Raises:
        LowerfixError: where it cannot.
    """
    try:
        folder = next(parent for parent in (path.absolute().parent, *path.absolute().parents) if parent.exists())
        if path.exists() and not path.is_file():
            raise LowerfixError(f"{str(path)!r} cannot be written: it is a {'folder' if path.is_dir() else 'device'}")
        descriptor, name = tempfile.mkstemp(dir=folder)
    except OSError as error:
        raise _failed(path, error) from error
    os.close(descriptor)
    Path(name).unlink()


def umask() -> int:
    """The permissions that new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _failed(path: Path, error: OSError) -> LowerfixError:
    return LowerfixError(f"{str(path)!r} cannot be written: {error.strerror or error}")
