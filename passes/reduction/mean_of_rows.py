"""Means as means of rows, and sums as products with ones.

**What it rewrites.** ``mean`` and ``sum`` of floats, over any dimensions.

**The identity.** The reduced dimensions become the last one of a view ``[rows, 1, 1, count]``. A sum is the product of
the rows with a vector of ones. It is not the mean times the count: that is no whole number for a sum of whole numbers,
of which some may count on it.

**Why the backend needs it.** XNNPACK takes ``mean`` over the last two of four dimensions, with ``keepdim``, and no sum.
It takes a linear layer.

**What it leaves alone.** Integers, a result in another type, symbolic sizes and empty tensors.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes mean and sum over any dimensions; ExecuTorch 1.5.1's takes one form of mean"


LONGEST = 1 << 12
"""So many ones are stored at most, where the number of elements has a divisor below."""


@rewrite(aten.mean.dim, cost=8)
def mean(x: Tensor, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Over some dimensions."""
    rows, dims = _rows(x, dim, dtype)
    return restored(torch.mean(rows, [2, 3], True), x, dims, keepdim)


@rewrite(aten.mean.default, cost=8)
def mean_of_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Over all dimensions."""
    return mean(x, None, dtype=dtype)


@rewrite(aten.sum.dim_IntList, cost=8)
def sum_(x: Tensor, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Over some dimensions."""
    rows, dims = _rows(x, dim, dtype)
    return restored(_summed(rows.reshape(rows.shape[0], rows.shape[3])), x, dims, keepdim)


@rewrite(aten.sum.default, cost=8)
def sum_of_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Over all dimensions."""
    return sum_(x, None, dtype=dtype)


def _summed(rows: Tensor) -> Tensor:
    """The sum of each row; long ones are cut into equal parts, so that the ones take little memory."""
    count = rows.shape[1]
    part = next(size for size in range(min(count, LONGEST), 0, -1) if count % size == 0)
    part = part if part > 1 else count
    ones = torch.ones([1, part], dtype=rows.dtype)
    if part == count:
        return F.linear(rows, ones)
    return _summed(F.linear(rows.reshape(-1, part), ones).reshape(rows.shape[0], count // part))


def _rows(x: Tensor, dim: list[int] | None, dtype: torch.dtype | None) -> tuple[Tensor, set[int]]:
    if not x.is_floating_point() or dtype not in (None, x.dtype):
        raise Decline("it is of integers, or to be computed in another type")
    return as_rows(x, dim)


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
