"""Running sums by doubling.

**What it rewrites.** ``cumsum`` of floats.

**The identity.** To each element the one before is added, to each sum of two that of the two before, and so on: after
``k`` steps each is the sum of the last ``2^k``. What is shifted in is zero, so an infinity or NaN reaches later
elements only. The sums are added in another order than PyTorch's.

**Why the backend needs it.** XNNPACK takes slices, padding and sums, and no ``cumsum``.

**What it leaves alone.** Integers, results in another type, symbolic sizes, and more than 4096 elements in a row.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes cumsum; ExecuTorch 1.5.1's does not"

LONGEST = 4096
"""Twelve steps of three ops; beyond, the CPU is faster."""


@rewrite(aten.cumsum.default, cost=8)
def cumsum(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """In steps of one, two, four, ..."""
    if x.dtype not in (torch.float32, torch.float64) or dtype not in (None, x.dtype):
        raise Decline("it is of integers or half precision, or to be computed in another type")
    return in_steps(x, dim, torch.add, 0.0)


def in_steps(x: Tensor, dim: int, add: Callable[[Tensor, Tensor], Tensor], nothing: float) -> Tensor:
    """What adds up along a dimension, where ``add`` takes two neighbours together and ``nothing`` changes no sum."""
    if not constant_sizes(x):
        raise Decline("a size is symbolic")
    if x.dim() == 0 or x.numel() == 0:
        raise Decline("there is nothing to add up")
    size = x.shape[dim]
    if size > LONGEST:
        raise Decline(f"{size} elements in a row are more than the {LONGEST} that are worth it")
    at = dim % x.dim()
    y = x.reshape(math.prod(x.shape[:at]), size, math.prod(x.shape[at + 1 :]))
    step = 1
    while step < size:
        y = add(y, F.pad(aten.slice.Tensor(y, 1, 0, size - step), (0, 0, step, 0), value=nothing))
        step *= 2
    return y.reshape(x.shape) if size > 1 else x.clone()
