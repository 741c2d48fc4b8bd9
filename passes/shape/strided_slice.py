"""Every so manieth position, and the reverse order, as plain slices.

**What it rewrites.** ``slice`` with a step, and ``flip`` of up to 64 positions.

**The identity.** Cut into rows as long as the step, the positions wanted are the first of each row. The last row is
filled up where it is short; what it is filled with is cut off again. A flip is the positions one by one, in reverse.

**Why the backend needs it.** XNNPACK takes slices without a step, and no ``flip``.

**What it leaves alone.** Symbolic sizes, empty results, integers and Booleans, and a flip of many positions.
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
RETIRE_WHEN = "XNNPACK takes slices with a step, and flip; ExecuTorch 1.5.1's does not"

MOST = 64
"""A flip takes as many slices as there are positions."""


@rewrite(aten.slice.Tensor, cost=2)
def slice_by_rows(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """The first position of each row."""
    if not isinstance(step, int) or step == 1:
        raise Decline("it has no step")
    _check(x)
    at, size = dim % x.dim(), x.shape[dim]
    first, last, _ = slice(start, end).indices(size)
    count = max(0, -(-(last - first) // step))
    if count == 0 or x.numel() == 0:
        raise Decline("the result is empty")
    before, after = math.prod(x.shape[:at]), math.prod(x.shape[at + 1 :])
    y = x.reshape(before, size, after)
    there = min(size, first + count * step)
    y = aten.slice.Tensor(y, 1, first, there)
    if there - first < count * step:
        y = F.pad(y, (0, 0, 0, count * step - (there - first)))
    firsts: Tensor = aten.slice.Tensor(y.reshape(before, count, step, after), 2, 0, 1)
    return firsts.reshape([*x.shape[:at], count, *x.shape[at + 1 :]])


@rewrite(aten.flip.default, cost=2)
def flip(x: Tensor, dims: list[int]) -> Tensor:
    """The positions in reverse."""
    _check(x)
    if x.dim() == 0 or x.numel() == 0:
        raise Decline("there is nothing to turn round")
    y = x
    for dim in dims:
        size = x.shape[dim]
        if size > MOST:
            raise Decline(f"{size} positions are more slices than the {MOST} that are worth it")
        if size > 1:
            y = torch.cat([aten.slice.Tensor(y, dim, at, at + 1) for at in range(size - 1, -1, -1)], dim)
    return y if y is not x else x.clone()


def _check(x: Tensor) -> None:
    if not x.is_floating_point():
        raise Decline(f"{x.dtype} is served otherwise")
    if not constant_sizes(x):
        raise Decline("a size is symbolic")
