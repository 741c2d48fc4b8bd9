"""Dimensions of size one, and single positions, as views and slices.

**What it rewrites.** ``unsqueeze``, ``squeeze`` in every form, ``select`` and ``unbind``.

**The identity.** Adding or dropping dimensions of size one moves no element: it is a view. A single position is the
slice of length one without its dimension.

**Why the backend needs it.** XNNPACK takes views and slices, ``unsqueeze`` at the end only, and none of the others.

**What it leaves alone.** Positions that are computed, and symbolic sizes where a view would have to name two of them.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes unsqueeze, squeeze and select in every form; ExecuTorch 1.5.1's does not"


@rewrite(aten.unsqueeze.default)
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """One more dimension."""
    at = dim % (x.dim() + 1)
    return _view(x, [*x.shape[:at], 1, *x.shape[at:]])


@rewrite(aten.squeeze.default)
def squeeze(x: Tensor) -> Tensor:
    """None of size one."""
    return _without(x, list(range(x.dim())))


@rewrite(aten.squeeze.dim)
def squeeze_one(x: Tensor, dim: int) -> Tensor:
    """One dimension less, where it is of size one."""
    return _without(x, [dim])


@rewrite(aten.squeeze.dims)
def squeeze_some(x: Tensor, dim: list[int]) -> Tensor:
    """Without those of these dimensions that are of size one."""
    return _without(x, list(dim))


@rewrite(aten.select.int)
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """One position."""
    size = x.shape[dim]
    if not isinstance(index, int) or not isinstance(size, int):
        raise Decline("the position or the size is symbolic")
    at = index % size
    return _without(aten.slice.Tensor(x, dim, at, at + 1), [dim])


@rewrite(aten.unbind.int)
def unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    """One piece for each position."""
    if not isinstance(x.shape[dim], int):
        raise Decline("the number of pieces is symbolic")
    return [select(x, dim, position) for position in range(x.shape[dim])]


def _without(x: Tensor, dims: list[int]) -> Tensor:
    if x.dim() == 0:
        raise Decline("it has no dimension to drop")
    dropped = {dim % x.dim() for dim in dims}
    return _view(x, [size for dim, size in enumerate(x.shape) if not (dim in dropped and size == 1)])


def _view(x: Tensor, shape: list[int]) -> Tensor:
    """A view that names at most one symbolic size, and that one by -1."""
    symbolic = [at for at, size in enumerate(shape) if not isinstance(size, int)]
    if len(symbolic) > 1:
        raise Decline("a view of two symbolic sizes is not taken either")
    sizes = [-1 if at in symbolic else size for at, size in enumerate(shape)]
    result: Tensor = aten.reshape.default(x, sizes)
    return result
