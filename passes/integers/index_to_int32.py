"""Indices in int32, and indexing as ``index_select``.

**What it rewrites.** ``embedding`` and ``index_select`` with an int64 index, and indexing with integer tensors (``x[:,
i]``, ``x[i, :, j]``), in all its forms: one index or several, of any rank, negative values, dimensions that are
adjacent or not.

**The identity.** An index lies within a dimension's size, so int32 holds it as long as the size is below 2**31; else
the rewrite declines. Advanced indexing moves the indexed dimensions together, numbers their elements in row-major
order (``i * J + j``, which also broadcasts the indices), selects, and puts the index's shape in the place that NumPy's
rules give it: that of the indexed dimensions where they are adjacent, the front where they are not. Negative values
count from the end: ``where(i < 0, i + n, i)``. A constant run ``a, a+1, ...`` is a slice.

**Why the backend needs it.** TOSA has no int64, and its GATHER does not wrap negative indices; Arm's ``index.Tensor``
refuses any dimension that is not indexed.

**What it leaves alone.** Boolean masks, whose result has a size that depends on data. An index that is out of range is
an error in PyTorch. A constant one is an error here too; a computed one is undefined on the device, and beyond int32
it can be taken for another.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline, LowerfixError
from lowerfix.passes.scatter._places import wrapped
from lowerfix.rewriting import constant, never_negative, rewrite

aten = torch.ops.aten

RETIRE_WHEN = (
    "Arm takes int64 indices and unindexed dimensions, and its GATHER counts negative indices from the end; "
    "none of it in ExecuTorch 1.5.1"
)

LARGEST = (1 << 31) - 1


@rewrite(aten.index.Tensor)
def contiguous_index_as_slice(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """``x[:, [2, 3, 4]]`` is ``x[:, 2:5]``."""
    given = _given(x, indices)
    if len(given) != 1:
        raise Decline("it has several index tensors")
    [(dim, index)] = given
    values = constant(index)
    if values is None or values.ndim != 1 or values.size == 0:
        raise Decline("the index is not a constant list")
    positions = [int(i) + x.shape[dim] if i < 0 else int(i) for i in values]
    first = positions[0]
    if positions != list(range(first, first + len(positions))):
        raise Decline("the index is not a run of consecutive positions")
    run: Tensor = aten.slice.Tensor(x, dim, first, first + len(positions))
    return run.clone()


@rewrite(aten.index.Tensor, cost=2)
def index_as_index_select(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """Select along one flattened dimension with int32 numbers, then lay the result out by NumPy's rules."""
    return _index_select(x, indices, torch.int32)


@rewrite(aten.index.Tensor, cost=3)
def index_as_index_select_float(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """The same with the negative values counted in float32, for backends without int32 comparisons."""
    if all(index is None or never_negative(index) for index in indices):
        raise Decline("no index is negative")
    return _index_select(x, indices, torch.float32)


def _index_select(x: Tensor, indices: list[Tensor | None], kind: torch.dtype) -> Tensor:
    given = _given(x, indices)
    dims = [dim for dim, _ in given]
    sizes = [x.shape[dim] for dim in dims]
    total = math.prod(sizes)
    if total > LARGEST:
        raise Decline(f"the indexed dimensions hold {total} elements, more than int32 can number")
    number: Tensor | None = None
    for (_, index), size in zip(given, sizes, strict=True):
        counted = wrapped(index, size, kind)
        number = counted if number is None else number * size + counted
    assert number is not None
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    at = dims[0] if adjacent else 0
    if not adjacent:
        x = x.permute(*dims, *(d for d in range(x.dim()) if d not in dims))
    before, after = list(x.shape[:at]), list(x.shape[at + len(dims) :])
    if len(dims) > 1:
        x = x.reshape(*before, total, *after)
    selected = torch.index_select(x, at, number.reshape(-1) if number.dim() != 1 else number)
    return selected if number.dim() == 1 else selected.reshape(*before, *number.shape, *after)


@rewrite(aten.index.Tensor, wrong="its GATHER does not count negative indices from the end")
def negative_index(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """The same, where the backend takes the op as it stands and an index may be negative."""
    if all(index is None or never_negative(index) for index in indices):
        raise Decline("no index is negative")
    return index_as_index_select(x, indices)


@rewrite(aten.index_select.default)
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The same selection with an int32 index."""
    _check_range(index, x.shape[dim] if x.dim() else 1, negative=False)
    return torch.index_select(x, dim, _narrow(index, x.shape[dim] if x.dim() else 1))


@rewrite(aten.embedding.default)
def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """The same rows by an int32 index; the other arguments concern gradients only."""
    _check_range(indices, weight.shape[0], negative=False)
    return torch.embedding(weight, _narrow(indices, weight.shape[0]))


def _given(x: Tensor, indices: list[Tensor | None]) -> list[tuple[int, Tensor]]:
    """The indexed dimensions with their index tensors, checked."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    for dim, index in given:
        if index.dtype in (torch.bool, torch.uint8):
            raise Decline("the index is a Boolean mask: the size of the result depends on data")
        if not isinstance(x.shape[dim], int):
            raise Decline(f"dimension {dim} has the symbolic size {x.shape[dim]}; negative indices cannot be wrapped")
        _check_range(index, x.shape[dim], negative=True)
    return given


def _narrow(index: Tensor, size: int) -> Tensor:
    if index.dtype == torch.int32:
        raise Decline("the index is int32 already")
    if not isinstance(size, int) or size > LARGEST:
        raise Decline(f"the dimension has size {size}, which int32 may not hold")
    return index.to(torch.int32)


def _check_range(index: Tensor, size: int, negative: bool) -> None:
    values = constant(index)
    if values is None or values.size == 0:
        return
    low, high = int(values.min()), int(values.max())
    if high >= size or low < (-size if negative else 0):
        worst = high if high >= size else low
        count = "" if negative or worst >= size else "; this op does not count from the end"
        raise LowerfixError(f"the constant index {worst} is out of range for a dimension of size {size}{count}")
