"""Which dimension of a result holds the rows of its arguments, for ops that treat each row by itself.

A row of the result may depend on the same row of the arguments, and on nothing else that has rows. What is not known
to be so is declined: rows that a mask would have dropped must not touch those that it keeps.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node

from lowerfix.errors import Decline
from lowerfix.program import given_arguments
from lowerfix.source import aten_name, op_name

aten = torch.ops.aten

Rows = Mapping[Node, int]

ALONG = frozenset(
    [
        "to",
        "_to_copy",
        "clone",
        "contiguous",
        "alias",
        "detach",
        "dropout",
        "type_as",
        "lift_fresh_copy",
        "zeros_like",
        "ones_like",
        "full_like",
        "where",
        "masked_fill",
        "clamp",
        "relu",
        "relu6",
        "hardtanh",
        "gelu",
        "silu",
        "mish",
        "floor_divide",
        "bucketize",
        "softplus",
    ]
)
VIEWS = frozenset(["view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze"])
REDUCTIONS = frozenset(
    [
        "sum",
        "mean",
        "amax",
        "amin",
        "any",
        "all",
        "prod",
        "logsumexp",
        "argmax",
        "argmin",
        "max",
        "min",
        "median",
        "var",
        "std",
        "count_nonzero",
        "norm",
        "linalg_vector_norm",
        "var_mean",
        "std_mean",
    ]
)
ONE_DIM = frozenset(
    [
        "softmax",
        "_softmax",
        "log_softmax",
        "_log_softmax",
        "cumsum",
        "cumprod",
        "logcumsumexp",
        "cummax",
        "cummin",
        "sort",
        "topk",
        "select",
        "slice",
        "narrow",
        "split",
        "split_with_sizes",
        "chunk",
        "unbind",
        "unfold",
        "glu",
    ]
)
FIRST = frozenset(
    [
        "conv1d",
        "conv2d",
        "conv3d",
        "convolution",
        "conv_transpose1d",
        "conv_transpose2d",
        "batch_norm",
        "group_norm",
        "instance_norm",
        "native_group_norm",
        "_native_batch_norm_legit_no_training",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
        "adaptive_max_pool2d",
        "max_pool2d_with_indices",
        "upsample_nearest2d",
        "upsample_bilinear2d",
        "upsample_nearest1d",
        "upsample_linear1d",
        "pixel_shuffle",
    ]
)
FACTORIES = frozenset(["full", "ones", "zeros", "new_full", "new_ones", "new_zeros"])
BY_SIZE = -1
"""The rows are equal to each other, and along the dimension that has as many."""

DIVISIONS = frozenset(["div", "remainder", "floor_divide", "fmod"])


def rows_after(node: Node, rows: Rows) -> int:
    """The dimension of a node's result that holds the rows.

    Raises:
        Decline: where the op mixes rows, or is not known not to.
    """
    name = "getitem" if node.target is operator.getitem else aten_name(node)
    target = node.target
    if not any(source in rows for source in node.all_input_nodes):
        if name in FACTORIES or name == "expand":
            return BY_SIZE
        return _fail(node)
    pointwise = isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags
    rule: Callable[[Node, Rows], int] | None = _RULES.get(name)
    if name in VIEWS:
        rule = _view
    elif name in REDUCTIONS:
        rule = _reduction
    elif name in ONE_DIM:
        rule = _one_dim
    elif name in FIRST:
        rule = _first
    elif rule is None and (pointwise or name in ALONG):
        rule = _aligned
    if rule is None:
        raise Decline(f"{op_name(target)} is not known to treat each row by itself")
    return rule(node, rows)


def _fail(node: Node) -> int:
    raise Decline(f"{op_name(node.target)} mixes rows")


def rank(node: Node) -> int:
    value = node.meta["val"]
    value = value[0] if isinstance(value, (tuple, list)) else value
    return int(value.dim())


def _only_first(node: Node, rows: Rows) -> int:
    """The rows of the first argument, where no other has any."""
    others = [other for other in node.all_input_nodes if other in rows and other is not node.args[0]]
    if others or node.args[0] not in rows:
        return _fail(node)
    return rows[node.args[0]]  # type: ignore[index]


def _aligned(node: Node, rows: Rows) -> int:
    """Element by element with broadcasting: the rows are as far from the end everywhere."""
    name = aten_name(node)
    value = node.meta["val"]
    if name in DIVISIONS and not value.is_floating_point():
        raise Decline(f"{op_name(node.target)} on integers fails where a dropped row holds zero")
    ends = {rank(source) - rows[source] for source in node.all_input_nodes if source in rows}
    if len(ends) != 1:
        return _fail(node)
    [end] = ends
    for source in node.all_input_nodes:
        other = source.meta.get("val")
        if source in rows or not isinstance(other, torch.Tensor) or other.dim() < end:
            continue
        if other.shape[-end] != 1:
            return _fail(node)
    return rank(node) - end


def _view(node: Node, rows: Rows) -> int:
    """As many elements lie before the rows as did."""
    at = _only_first(node, rows)
    source: Any = node.args[0]
    before = _product(source.meta["val"].shape[:at])
    size = _expression(source.meta["val"].shape[at])
    shape = node.meta["val"].shape
    for dim in range(len(shape)):
        if _expression(shape[dim]) == size and _product(shape[:dim]) == before:
            return dim
    return _fail(node)


def _expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _product(sizes: Any) -> Any:
    result: Any = 1
    for size in sizes:
        result = result * _expression(size)
    return result


def reduced(node: Node) -> list[int] | None:
    """The dimensions that a reduction takes together; None where its arguments say nothing of them."""
    dim: Any = given_arguments(node).get("dim")
    total = rank(node.args[0])  # type: ignore[arg-type]
    if dim is None or dim == []:
        return list(range(total))
    return [one % total for one in ([dim] if isinstance(dim, int) else dim)]


def keeps_dims(node: Node) -> bool:
    return bool(given_arguments(node).get("keepdim"))


def _reduction(node: Node, rows: Rows) -> int:
    at = _only_first(node, rows)
    dims = reduced(node)
    if dims is None or at in dims:
        return _fail(node)
    return at if keeps_dims(node) else at - sum(dim < at for dim in dims)


def _one_dim(node: Node, rows: Rows) -> int:
    at = _only_first(node, rows)
    name = aten_name(node)
    given = given_arguments(node)
    dim: Any = given.get("dim", given.get("dimension"))
    if not isinstance(dim, int):
        return _fail(node)
    total = rank(node.args[0])  # type: ignore[arg-type]
    dim = dim % total
    if dim == at:
        whole = name == "slice" and given["start"] in (None, 0) and given["step"] == 1
        return at if whole and given["end"] in (None, (1 << 63) - 1) else _fail(node)
    return at - 1 if name in ("select", "unbind") and dim < at else at


def _first(node: Node, rows: Rows) -> int:
    """A batch of images or signals, one a row."""
    at = _only_first(node, rows)
    name = aten_name(node)
    if name == "batch_norm" and (len(node.args) > 5 and node.args[5]):
        raise Decline("batch_norm in training takes the mean over the rows")
    least = 3 if "1d" in name else 5 if "3d" in name else 4 if "2d" in name else 2
    return at if at == 0 and rank(node.args[0]) >= least else _fail(node)  # type: ignore[arg-type]


def _layer_norm(node: Node, rows: Rows) -> int:
    at = _only_first(node, rows)
    normalized: Any = node.args[1]
    return at if at < rank(node.args[0]) - len(normalized) else _fail(node)  # type: ignore[arg-type]


def _linear(node: Node, rows: Rows) -> int:
    at = _only_first(node, rows)
    return at if at != rank(node.args[0]) - 1 else _fail(node)  # type: ignore[arg-type]


def _matmul(node: Node, rows: Rows) -> int:
    arguments: Any = node.args[1:3] if aten_name(node) in ("addmm", "baddbmm") else node.args[:2]
    left, right = arguments
    if any(source in rows for source in node.all_input_nodes if source not in (left, right)):
        return _fail(node)
    if rank(left) < 2 or rank(right) < 2:
        return _fail(node)
    ends = {name: rank(n) - rows[n] for name, n in (("left", left), ("right", right)) if n in rows}
    if ends.get("left", 2) == 2 and "right" not in ends:
        return rank(node) - 2
    if ends.get("right") == 1 and "left" not in ends:
        return rank(node) - 1
    if len(set(ends.values())) != 1 or next(iter(ends.values())) < 3:
        return _fail(node)
    end = next(iter(ends.values()))
    for other in (left, right):
        if other not in rows and rank(other) >= end and other.meta["val"].shape[-end] != 1:
            return _fail(node)
    return rank(node) - end


def _permute(node: Node, rows: Rows) -> int:
    order: Any = node.args[1]
    total = rank(node)
    return [dim % total for dim in order].index(_only_first(node, rows))


def _transpose(node: Node, rows: Rows) -> int:
    at, total = _only_first(node, rows), rank(node)
    if aten_name(node) == "numpy_T":
        return total - 1 - at
    given: Any = (0, 1) if aten_name(node) == "t" else node.args[1:3]
    first, second = (int(dim) % total for dim in given)
    return {first: second, second: first}.get(at, at)


def _expand(node: Node, rows: Rows) -> int:
    at = _only_first(node, rows)
    return rank(node) - (rank(node.args[0]) - at)  # type: ignore[arg-type]


def _cat(node: Node, rows: Rows) -> int:
    parts: Any = node.args[0]
    total = rank(node)
    dim: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    dim = dim % total
    places = {rows.get(part) for part in parts}
    if len(places) != 1 or None in places:
        return _fail(node)
    at: Any = places.pop()
    if aten_name(node) == "stack":
        return int(at + (dim <= at))
    return int(at) if dim != at else _fail(node)


def _getitem(node: Node, rows: Rows) -> int:
    return rows[node.args[0]]  # type: ignore[index]


def _embedding(node: Node, rows: Rows) -> int:
    return rows[node.args[1]] if node.args[1] in rows and node.args[0] not in rows else _fail(node)  # type: ignore[index]


def _one_hot(node: Node, rows: Rows) -> int:
    if len(node.args) < 2 or node.args[1] == -1:
        raise Decline("one_hot without a number of classes counts them in all rows")
    return _only_first(node, rows)


def _index_select(node: Node, rows: Rows) -> int:
    source, dim, index = node.args[:3]
    dim = dim % rank(source)  # type: ignore[operator, arg-type]
    if index in rows and source not in rows:
        return dim
    return rows[source] if index not in rows and source in rows and rows[source] != dim else _fail(node)  # type: ignore[index]


def _index(node: Node, rows: Rows) -> int:
    source: Any = node.args[0]
    indices: Any = node.args[1]
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if source in rows or any(index.meta["val"].dtype is torch.bool for _, index in given):
        return _fail(node)
    ranks = [rank(index) for _, index in given]
    widest = max(ranks)
    ends = {total - rows[index] for total, (_, index) in zip(ranks, given, strict=True) if index in rows}
    if len(ends) != 1:
        return _fail(node)
    [end] = ends
    for total, (_, index) in zip(ranks, given, strict=True):
        if index not in rows and total >= end and index.meta["val"].shape[-end] != 1:
            return _fail(node)
    dims = [dim for dim, _ in given]
    start = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    return int(start + widest - end)


def _gather(node: Node, rows: Rows) -> int:
    source, dim, index = node.args[:3]
    if source not in rows or index not in rows or rows[source] != rows[index]:  # type: ignore[index]
        return _fail(node)
    return rows[source] if dim % rank(source) != rows[source] else _fail(node)  # type: ignore[operator, arg-type, index]


def _attention(node: Node, rows: Rows) -> int:
    place = _aligned(node, rows)
    return place if rank(node) - place >= 3 else _fail(node)


def _pad(node: Node, rows: Rows) -> int:
    at = _only_first(node, rows)
    padding: Any = node.args[1]
    return at if rank(node) - at > len(padding) // 2 else _fail(node)


_RULES: dict[str, Callable[[Node, Rows], int]] = {
    "layer_norm": _layer_norm, "native_layer_norm": _layer_norm, "rms_norm": _layer_norm,
    "linear": _linear, "matmul": _matmul, "mm": _matmul, "bmm": _matmul, "addmm": _matmul, "baddbmm": _matmul,
    "permute": _permute, "transpose": _transpose, "t": _transpose, "numpy_T": _transpose,
    "expand": _expand, "cat": _cat, "stack": _cat,
    "getitem": _getitem, "embedding": _embedding, "index_select": _index_select, "index": _index, "gather": _gather,
    "scaled_dot_product_attention": _attention, "pad": _pad, "constant_pad_nd": _pad,
    "one_hot": _one_hot,
}  # fmt: skip
