"""gather and its like along any dimension, as a gather of rows.

**What it rewrites.** ``gather``, ``take_along_dim`` and ``take``, of any rank and along any dimension.

**The identity.** With the indexed dimension made the last, and the others cut to the index's sizes and flattened,
``gather`` picks in each row by itself. ``take`` indexes the flattened tensor, and counts negative indices from the
end; ``take_along_dim`` broadcasts first, and takes an index modulo the size. An index lies within a dimension's size,
so int32 holds it.

**Why the backend needs it.** Arm's ``gather`` takes int32, dimension 1, and ranks 2 and 3 only, and TOSA's GATHER
does not wrap negative indices. Its FP profile compares no int32, so there negative indices are wrapped in float32.

**What it leaves alone.** A dimension of 2**31 elements or more, or of symbolic size. An index that is out of range is
an error in PyTorch, and undefined on the device.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.scatter._places import wrapped
from lowerfix.passes.selection._ranking import swapped, taken
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes gather of every rank, dimension and index type; not in ExecuTorch 1.5.1"


@rewrite(aten.gather.default)
def gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Row by row, with an int32 index."""
    _check(x, dim)
    if index.numel() == 0:
        raise Decline("it gathers nothing")
    return _gathered(x, dim, index.to(torch.int32)).reshape(index.shape)


@rewrite(aten.take_along_dim.default)
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The same, after broadcasting; without a dimension, of both flattened."""
    return _taken_along(x, indices, dim, torch.int32)


@rewrite(aten.take_along_dim.default, cost=2)
def take_along_dim_float(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The same with index arithmetic in float32, for backends without int32 comparisons."""
    return _taken_along(x, indices, dim, torch.float32)


@rewrite(aten.take.default)
def take(x: Tensor, index: Tensor) -> Tensor:
    """``index_select`` of the flattened tensor."""
    return _taken_flat(x, index, torch.int32)


@rewrite(aten.take.default, cost=2)
def take_float(x: Tensor, index: Tensor) -> Tensor:
    """The same with index arithmetic in float32."""
    return _taken_flat(x, index, torch.float32)


def _taken_along(x: Tensor, indices: Tensor, dim: int | None, kind: torch.dtype) -> Tensor:
    if dim is None:
        x, indices, dim = x.reshape(-1), indices.reshape(-1), 0
    _check(x, dim)
    n = x.shape[dim]
    index = wrapped(indices, n, kind)
    dim = dim % x.dim()
    before = torch.broadcast_shapes(x.shape[:dim], index.shape[:dim])
    after = torch.broadcast_shapes(x.shape[dim + 1 :], index.shape[dim + 1 :])
    x = x.expand(*before, n, *after)
    index = index.expand(*before, index.shape[dim], *after)
    return _gathered(x, dim, index)


def _taken_flat(x: Tensor, index: Tensor, kind: torch.dtype) -> Tensor:
    flat = x.reshape(-1)
    _check(flat, 0)
    return torch.index_select(flat, 0, wrapped(index.reshape(-1), flat.shape[0], kind)).reshape(index.shape)


def _check(x: Tensor, dim: int) -> None:
    size = x.shape[dim] if x.dim() else 1
    if not isinstance(size, int) or size > (1 << 31) - 1:
        raise Decline(f"the indexed dimension has size {size}, which int32 may not hold")


def _gathered(x: Tensor, dim: int, index: Tensor) -> Tensor:
    if x.dim() == 0 or index.dim() == 0:
        x, index, dim = x.reshape(-1), index.reshape(-1), 0
    dim = dim % x.dim()
    for other, size in enumerate(index.shape):
        if other != dim and x.shape[other] != size:
            x = x.narrow(other, 0, size)
    return swapped(taken(swapped(x, dim), swapped(index, dim)), dim)
