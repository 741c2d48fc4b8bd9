"""Where a program makes a size that depends on data, and how a user names such a place."""

import linecache
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from lowerfix.errors import LowerfixError
from lowerfix.program import Program, fake_tensors
from lowerfix.source import source_line

aten = torch.ops.aten

PLACES = (aten.nonzero.default, aten.nonzero_numpy.default, aten.where.default, aten.argwhere.default)
NUMBERS = (aten.item.default, aten._local_scalar_dense.default)
MARK = "lowerfix_promise"


@dataclass(frozen=True)
class Site:
    """An op whose result has a size that depends on data.

    Attributes:
        node: the op.
        mask: the mask whose true values it counts; None where it counts none.
        kind: ``rows`` that a mask selects, ``places`` where it is true, a ``number`` read from a tensor, or other
            ``values``.
    """

    node: Node
    mask: Node | None
    kind: str

    @property
    def decides(self) -> Node:
        """What the size hangs on: the mask, or the op itself."""
        return self.mask or self.node


def mask_of(node: Node) -> tuple[int, Node] | None:
    """The dimension along which a node indexes with one Boolean mask and nothing else, and the mask."""
    if node.target not in (aten.index.Tensor, aten.index_put.default):
        return None
    given = [(dim, index) for dim, index in enumerate(node.args[1]) if index is not None]  # type: ignore[arg-type]
    if len(given) != 1:
        return None
    [(dim, index)] = given
    value = index.meta.get("val")
    return (dim, index) if getattr(value, "dtype", None) is torch.bool and value.dim() else None


def sites(program: Program) -> list[Site]:
    """All places of a program where a size comes from data."""
    return [site for node in program.graph.nodes if (site := _site(node)) is not None]


def _site(node: Node) -> Site | None:
    if node.op != "call_function":
        return None
    indexed = mask_of(node)
    if indexed is not None:
        return Site(node, indexed[1], "rows") if node.target is aten.index.Tensor else None
    if node.target in PLACES:
        return Site(node, _argument(node, 0), "places")
    if node.target is aten.masked_select.default:
        return Site(node, _argument(node, 1), "rows")
    if node.target in NUMBERS:
        return Site(node, None, "number") if isinstance(node.meta.get("val"), torch.SymInt) else None
    if node.target is operator.getitem:
        return None
    made = set(symbols_of(node)) - {symbol for source in node.all_input_nodes for symbol in symbols_of(source)}
    return Site(node, None, "values") if made else None


def _argument(node: Node, position: int) -> Node:
    argument = node.args[position]
    assert isinstance(argument, Node)
    return argument


def symbols_of(node: Node) -> Iterator[Any]:
    """The symbols of sizes that depend on data in what a node returns."""
    for value in tree_leaves(node.meta.get("val")):
        if isinstance(value, torch.SymInt):
            yield from free_unbacked_symbols(value)
    for tensor in fake_tensors(node):
        for size in tensor.shape:
            if isinstance(size, torch.SymInt):
                yield from free_unbacked_symbols(size)


def named(site: str, known: Iterable[Site]) -> list[Site]:
    """The sites that a name means: all of them hang on one mask, or are one number.

    Raises:
        LowerfixError: where it names none, or several that hang on different things; lists those that there are.
    """
    known = list(known)
    found = [one for one in known if site in (one.node.name, one.node.meta.get("custom", {}).get(MARK))]
    found = found or [one for one in known if site in _names(one.node)]
    if len({one.decides for one in found}) == 1:
        return found
    listed = "; ".join(f"{one.node.name} at {source_line(one.node)}: {_text(one.node)}" for one in (found or known))
    what = f"fits {len(found)} sizes that depend on data" if found else "fits no size that depends on data"
    raise LowerfixError(f"the promise for {site!r} {what}. Name one of these: {listed or 'the program has none'}")


def _names(node: Node) -> str:
    """What a site may be a piece of: the place, with its folder and without, and the text of the line."""
    file, _, line = source_line(node).rpartition(":")
    return "\n".join([f"{PurePath(file).name}:{line}", f"{file}:{line}", _text(node)])


def _text(node: Node) -> str:
    file, _, line = source_line(node).rpartition(":")
    return linecache.getline(file, int(line)).strip() if line.isdigit() else ""


def depending(nodes: Iterable[Node]) -> set[Node]:
    """All that reads some nodes, directly or not."""
    seen: set[Node] = set()
    pending = list(nodes)
    while pending:
        for user in pending.pop().users:
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return seen


def has_sites(graph: Graph) -> bool:
    """Whether a size of a graph comes from data."""
    return any(_site(node) is not None for node in graph.nodes)
