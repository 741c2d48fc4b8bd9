"""Tensors whose elements are all one number, once a mask is known to be true everywhere.

A number is a factor and sizes of tensors to multiply it by, ``(3, ((x, 0),))``: the sum of a mask is how many it has.
"""

import operator
from typing import Any

import torch
from torch.fx import Node

from lowerfix.source import aten_name

Number = tuple[Any, tuple[tuple[Node, int], ...]]

SAME = frozenset(
    [
        "view",
        "reshape",
        "_unsafe_view",
        "flatten",
        "unsqueeze",
        "squeeze",
        "expand",
        "permute",
        "transpose",
        "t",
        "select",
        "slice",
        "clone",
        "contiguous",
        "alias",
        "detach",
        "unbind",
        "split",
        "split_with_sizes",
        "chunk",
        "index_select",
        "repeat",
        "lift_fresh_copy",
        "view_as",
        "reshape_as",
        "expand_as",
    ]
)
CASTS = frozenset(["to", "_to_copy", "type_as"])
BACKWARD = frozenset(
    ["view", "reshape", "_unsafe_view", "flatten", "unsqueeze", "squeeze", "clone", "contiguous", "alias", "detach"]
)
SUMS = frozenset(["sum", "count_nonzero"])
TRUTHS = frozenset(["any", "all"])
COMPARES = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
            "ge": operator.ge}  # fmt: skip


def root(mask: Node) -> Node:
    """The tensor of which a mask is all elements in another shape."""
    while aten_name(mask) in BACKWARD or (aten_name(mask) in CASTS and _is_bool(mask.args[0])):
        source = mask.args[0]
        if not isinstance(source, Node) or not _is_bool(source):
            break
        mask = source
    return mask


def _is_bool(node: Any) -> bool:
    return isinstance(node, Node) and getattr(node.meta.get("val"), "dtype", None) is torch.bool


def follow(node: Node, known: dict[Node, Number]) -> Number | None:
    """The number that all elements of a node's result are, where that is known of its arguments."""
    name = "getitem" if node.target is operator.getitem else aten_name(node)
    if not node.args or not isinstance(node.args[0], Node) or node.args[0] not in known:
        return None
    source = node.args[0]
    value = known[source]
    if name in SAME or name == "getitem":
        return value
    if name in ("item", "_local_scalar_dense"):
        return value if isinstance(node.meta["val"], (int, torch.SymInt)) else None
    if name in CASTS:
        return value if value[1] or not _is_bool(node) else (bool(value[0]), ())
    if name in SUMS:
        return _summed(node, source, value)
    if name in TRUTHS and not value[1] and all(isinstance(size, int) and size for size in source.meta["val"].shape):
        return bool(value[0]), ()
    if name in ("logical_not", "bitwise_not") and _is_bool(source) and not value[1]:
        return not value[0], ()
    if name in COMPARES and not value[1] and isinstance(node.args[1], (bool, int)):
        return COMPARES[name](value[0], node.args[1]), ()
    return None


def _summed(node: Node, source: Node, value: Number) -> Number:
    shape = source.meta["val"].shape
    dims: Any = node.args[1] if len(node.args) > 1 and node.args[1] not in (None, []) else list(range(len(shape)))
    dims = [dims] if isinstance(dims, int) else dims
    total = len(shape)
    factor, sizes = int(value[0]), list(value[1])
    for dim in dims:
        size = shape[dim]
        if isinstance(size, int):
            factor *= size
        else:
            sizes.append((source, dim % total))
    return factor, tuple(sizes)
