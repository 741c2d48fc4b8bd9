"""NaN and infinity: found, and replaced.

**What it rewrites.** ``isnan``, ``isinf`` and ``nan_to_num``.

**The identity.** Only NaN differs from itself, and only infinities are as large as infinity. ``nan_to_num`` without
numbers for the infinities is a clamp to the type's largest and smallest number. In int8 infinity would take up all of
the range, so an infinite number is told by ``x - x``, which is NaN.

**Why the backend needs it.** Arm does not take ``isnan`` and ``isinf``, to which ExecuTorch decomposes these ops.

**What it leaves alone.** Complex numbers.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import constant_like
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes isnan and isinf; they are not in its lists in ExecuTorch 1.5.1"


@rewrite(aten.isnan.default)
def isnan(x: Tensor) -> Tensor:
    """What differs from itself."""
    return x != x


@rewrite(aten.isinf.default)
def isinf(x: Tensor) -> Tensor:
    """What is as large as infinity."""
    _check(x)
    if not x.is_floating_point():
        return x != x
    return torch.logical_and(x == x, _gap(x)) if in_int8() else x.abs() == float("inf")


@rewrite(aten.nan_to_num.default)
def nan_to_num(x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """The infinities first, NaN last: its number may be infinite."""
    _check(x)
    if not x.is_floating_point():
        return x.clone()
    y = x
    if posinf is not None:
        high = torch.logical_and(_gap(x), x > 0) if in_int8() else x == float("inf")
        y = torch.where(high, constant_like(x, float(posinf)), y)
    if neginf is not None:
        low = torch.logical_and(_gap(x), x < 0) if in_int8() else x == -float("inf")
        y = torch.where(low, constant_like(x, float(neginf)), y)
    info = torch.finfo(x.dtype)
    if posinf is None and neginf is None:
        y = torch.clamp(y, info.min, info.max)
    elif posinf is None:
        y = torch.where(x == float("inf"), constant_like(x, info.max), y)
    elif neginf is None:
        y = torch.where(x == -float("inf"), constant_like(x, info.min), y)
    return torch.where(x != x, constant_like(x, 0.0 if nan is None else float(nan)), y)


def _gap(x: Tensor) -> Tensor:
    """Whether a number less itself is NaN."""
    difference = x - x
    return difference != difference


def _check(x: Tensor) -> None:
    if x.is_complex():
        raise Decline("complex numbers are not served")
