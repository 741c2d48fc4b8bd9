"""Find the user's own source line behind a node."""

import re
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path

import torch
from torch.fx import Node

_TOOLS = re.compile(r"(?<!exporters)[/\\](torch|torchao|executorch)[/\\]")  # optimum.exporters.executorch calls models
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

    Where every frame is inside one (a third-party model), it is the last frame outside torch and the tools that
    quantize and lower; where there is none (an ``nn.Sequential``), the path and the class of the module. An empty
    string where nothing is known, as for placeholders.
    """
    trace = str(node.meta.get("stack_trace") or "")
    frames = [(match["file"], match["line"]) for match in _FRAME.finditer(trace) if not match["file"].startswith("<")]
    own = [frame for frame in frames if not frame[0].startswith(_installed())]
    models = [frame for frame in frames if not _TOOLS.search(frame[0])]
    for frame in (own or models)[-1:]:
        return ":".join(frame)
    for path, kind in list((node.meta.get("nn_module_stack") or {}).values())[-1:]:
        return f"module {path or 'itself'} ({str(getattr(kind, '__name__', kind)).rpartition('.')[2]})"
    return ""


def module_path(node: Node) -> str:
    """The path of the module that a node comes from, ``encoder.layers.0``; empty for the model itself."""
    entries = list((node.meta.get("nn_module_stack") or {}).values())
    return re.sub(r"^L\['self'\]\.?|\._modules\['(\w+)'\]", r".\1", str(entries[-1][0])).strip(".") if entries else ""


def origins(node: Node) -> frozenset[str]:
    """The names of the nodes that a node was made of, in this graph and in those that it was lowered from."""
    names = {node.name}
    pending = list(node.meta.get("from_node") or [])
    while pending:
        source = pending.pop()
        names.add(source.name)
        pending += source.from_node or []
    return frozenset(names)


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


def aten_name(node: Node) -> str:
    """The name of a node's ATen op without its overload, ``argmin``; empty for all other nodes."""
    name = op_name(node.target) if node.op == "call_function" else ""
    return name.removeprefix("aten.").rpartition(".")[0] if name.startswith("aten.") else ""
