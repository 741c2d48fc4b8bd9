"""Counts and sums of booleans and small integers, in int32 or float32.

**What it rewrites.** ``count_nonzero``, and ``sum`` of booleans and of 8- and 16-bit integers, which PyTorch makes
int64.

**The identity.** The sum of ``n`` elements of at most ``m`` each lies within ``n * m``. int32 holds it below 2**31,
and float32 adds exactly up to 2**24, in any order. The result is cast to int64 at the end.

**Why the backend needs it.** TOSA has no int64, and REDUCE_SUM takes no booleans; its float profile adds floats only.

**What it leaves alone.** Sums that may be larger, and those of 32- and 64-bit integers, of which nothing is known.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes sums of booleans and int64 results; TOSA 1.0 has neither"

LARGEST = {
    torch.bool: 1,
    torch.uint8: 255,
    torch.int8: 128,
    torch.int16: 32768,
}
EXACT = {torch.int32: (1 << 31) - 1, torch.float32: 1 << 24}


@rewrite(aten.count_nonzero.default)
def count(x: Tensor, dim: int | None = None) -> Tensor:
    """Of all elements or along one dimension, in int32."""
    return _count(x, None if dim is None else [dim], torch.int32)


@rewrite(aten.count_nonzero.default, cost=2, float_only=True)
def count_in_float32(x: Tensor, dim: int | None = None) -> Tensor:
    """Of all elements or along one dimension, in float32."""
    return _count(x, None if dim is None else [dim], torch.float32)


@rewrite(aten.count_nonzero.dim_IntList)
def count_along_dimensions(x: Tensor, dim: list[int]) -> Tensor:
    """Along several dimensions, in int32."""
    return _count(x, dim, torch.int32)


@rewrite(aten.count_nonzero.dim_IntList, cost=2, float_only=True)
def count_along_dimensions_in_float32(x: Tensor, dim: list[int]) -> Tensor:
    """Along several dimensions, in float32."""
    return _count(x, dim, torch.float32)


@rewrite(aten.sum.default)
def total(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Of all elements, in int32."""
    return _sum(x, None, False, dtype, torch.int32)


@rewrite(aten.sum.default, cost=2, float_only=True)
def total_in_float32(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Of all elements, in float32."""
    return _sum(x, None, False, dtype, torch.float32)


@rewrite(aten.sum.dim_IntList)
def total_along_dimensions(
    x: Tensor, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """Along dimensions, in int32."""
    return _sum(x, dim, keepdim, dtype, torch.int32)


@rewrite(aten.sum.dim_IntList, cost=2, float_only=True)
def total_along_dimensions_in_float32(
    x: Tensor, dim: list[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """Along dimensions, in float32."""
    return _sum(x, dim, keepdim, dtype, torch.float32)


def _count(x: Tensor, dims: list[int] | None, by: torch.dtype) -> Tensor:
    if x.is_complex():
        raise Decline("complex numbers are not compared with zero here")
    return _sum(x if x.dtype == torch.bool else x != 0, dims, False, torch.int64, by)


def _sum(x: Tensor, dims: list[int] | None, keepdim: bool, dtype: torch.dtype | None, by: torch.dtype) -> Tensor:
    result = dtype or torch.int64
    if x.dtype not in LARGEST:
        raise Decline(f"nothing is known of how large a sum of {x.dtype} gets")
    if result not in (torch.int64, torch.int32, torch.float32):
        raise Decline(f"the sum is asked for in {result}, which may wrap or round")
    reduced = list(dims) if dims else list(range(x.dim()))
    largest = LARGEST[x.dtype] * math.prod(x.shape[dim] for dim in reduced if x.dim())
    if largest > min(EXACT[by], EXACT.get(result, EXACT[by])):
        raise Decline(f"the sum may reach {largest}, which {by} does not hold")
    if by == torch.float32 and x.dtype == torch.bool:  # the float profile does not cast booleans
        y = torch.where(x, torch.ones(x.shape), torch.zeros(x.shape))
    else:
        y = x.to(by)
    y = torch.sum(y, reduced, keepdim, dtype=by) if x.dim() else y
    if by == torch.float32 and result == torch.int64:
        y = y.to(torch.int32)  # a cast of what reads it then merges with this one
    return y if result == y.dtype else y.to(result)
