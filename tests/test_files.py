"""Files are there whole or not at all."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lowerfix import files
from lowerfix.errors import LowerfixError


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_written_with_the_usual_permissions(tmp_path: Path) -> None:
    path = tmp_path / "new" / "model.pte"
    files.check_writable(path)
    files.write(path, b"first")
    assert path.read_bytes() == b"first"
    assert path.stat().st_mode & 0o777 == 0o666 & ~files.umask()
    files.write(path, "second")
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    files.write(path, b"first")
    with room_for(1000), pytest.raises(LowerfixError, match=r"model\.pte' cannot be written"):
        files.write(path, b"second" * 1000)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path / "model.pte", b"first")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, Path("/dev/null"), tmp_path / "file" / "model.pte", Path("/proc/model.pte")):
        with pytest.raises(LowerfixError, match="cannot be written"):
            files.check_writable(path)
        if path != Path("/dev/null"):
            with pytest.raises(LowerfixError, match="cannot be written"):
                files.write(path, b"")
