"""Means and sums as means of rows.

**What it rewrites.** ``mean`` and ``sum`` of floats, over any dimensions.

**The identity.** The reduced dimensions become the last one of a view ``[rows, 1, 1, count]``. A sum is the mean times
the count, which differs from it by rounding.

**Why the backend needs it.** XNNPACK takes ``mean`` over the last two of four dimensions, with ``keepdim``, and no sum.

**What it leaves alone.** Integers, a result in another type, symbolic sizes and empty tensors.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes mean and sum over any dimensions; ExecuTorch 1.5.1's takes one form of mean"


@rewrite(aten.mean.dim, cost=8)
def mean(x: Tensor, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Over some dimensions."""
    return _mean(x, dim, keepdim, dtype)[0]


@rewrite(aten.mean.default, cost=8)
def mean_of_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Over all dimensions."""
    return _mean(x, None, False, dtype)[0]


@rewrite(aten.sum.dim_IntList, cost=8)
def sum_(x: Tensor, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Over some dimensions."""
    result, count = _mean(x, dim, keepdim, dtype)
    return result * float(count)


@rewrite(aten.sum.default, cost=8)
def sum_of_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Over all dimensions."""
    return sum_(x, None, dtype=dtype)


def _mean(x: Tensor, dim: list[int] | None, keepdim: bool, dtype: torch.dtype | None) -> tuple[Tensor, int]:
    if not x.is_floating_point() or dtype not in (None, x.dtype):
        raise Decline("it is of integers, or to be computed in another type")
    rows, dims = as_rows(x, dim)
    return restored(torch.mean(rows, [2, 3], True), x, dims, keepdim), rows.shape[3]


def as_rows(x: Tensor, dim: list[int] | None) -> tuple[Tensor, set[int]]:
    """The view ``[rows, 1, 1, count]`` whose last dimension is all that is reduced, and the dimensions that are."""
    dims = {d % max(x.dim(), 1) for d in dim} if dim else set(range(x.dim()))
    if not constant_sizes(x):
        raise Decline("a size is symbolic")
    if x.numel() == 0:
        raise Decline("it is of no element")
    order = sorted(range(x.dim()), key=lambda d: d in dims)
    y = x if order == sorted(order) else x.permute(order)
    count = math.prod(x.shape[d] for d in dims) if x.dim() else 1
    return y.reshape([x.numel() // count, 1, 1, count]), dims


def restored(reduced: Tensor, x: Tensor, dims: set[int], keepdim: bool) -> Tensor:
    """The result of a reduction of rows in the shape that the reduction of the tensor has."""
    sizes = [1 if d in dims else size for d, size in enumerate(x.shape) if keepdim or d not in dims]
    return reduced.reshape(sizes)
