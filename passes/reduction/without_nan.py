"""nansum and nanmean, by leaving NaN out.

**What it rewrites.** ``nansum`` and ``nanmean`` of floats, along any dimensions.

**The identity.** Only NaN differs from itself. Its place takes 0 in the sum, and 0 instead of 1 in the count that the
mean divides by; 0 / 0 is NaN where nothing else is left.

**Why the backend needs it.** They are made of ``isnan``, which Arm's partitioner does not take.

**What it leaves alone.** Integers, and results in float64.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes isnan; ExecuTorch 1.5.1 does not"


@rewrite(aten.nansum.default)
def nansum(
    x: Tensor, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """The sum."""
    y = _prepared(x, dtype)
    return _sum(torch.where(y != y, 0.0, y), x, dim, keepdim).to(dtype or x.dtype)


@rewrite(aten.nanmean.default)
def nanmean(
    x: Tensor, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """The sum divided by the count."""
    y = _prepared(x, dtype)
    missing = y != y
    count = torch.where(missing, torch.zeros_like(y), torch.ones_like(y))
    total = torch.where(missing, torch.zeros_like(y), y)
    return (_sum(total, x, dim, keepdim) / _sum(count, x, dim, keepdim)).to(dtype or x.dtype)


def _prepared(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    if not x.is_floating_point():
        raise Decline(f"{x.dtype} has no NaN")
    if torch.float64 in (x.dtype, dtype):
        raise Decline("it is to be computed in float64")
    y = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    return y if x.dim() else y.unsqueeze(0)


def _sum(y: Tensor, x: Tensor, dim: list[int] | None, keepdim: bool) -> Tensor:
    return torch.sum(y, list(dim) if dim else list(range(y.dim())), keepdim and x.dim() > 0)
