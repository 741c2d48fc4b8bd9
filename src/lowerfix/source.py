"""Find the user's own source line behind a node."""

import re
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path

import torch
from torch.fx import Node

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in .*$', re.MULTILINE)


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    """The folders whose frames are not the user's: the standard library, installed packages and torch itself."""
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.add(str(Path(torch.__file__).parent))
    folders.update(entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages")))
    return tuple(sorted(folders))


def source_line(node: Node) -> str:
    """Return ``file:line`` of the last frame of the node's stack trace that lies outside installed packages.

    The last frame of all is used where every frame is inside one (a third-party model), and an empty string where
    the node carries no stack trace, as placeholders do.
    """
    trace = node.meta.get("stack_trace")
    if not isinstance(trace, str):
        return ""
    frames = [(match["file"], match["line"]) for match in _FRAME.finditer(trace)]
    if not frames:
        return ""
    own = [frame for frame in frames if not frame[0].startswith(_installed())]
    file, line = (own or frames)[-1]
    return f"{file}:{line}"


def describe(node: Node) -> str:
    """Name a node for an error message: its name, its op and the user's source line."""
    place = source_line(node)
    return f"node {node.name!r} ({op_name(node.target)})" + (f" from {place}" if place else "")


def op_name(target: object) -> str:
    """The short name of an op, ``aten.argmin.default``, in both dialects."""
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"
    return getattr(target, "__name__", str(target))
