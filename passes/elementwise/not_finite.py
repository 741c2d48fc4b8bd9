"""NaN and infinity: found, and replaced.

**What it rewrites.** ``isnan``, ``isinf`` and ``nan_to_num``.

**The identity.** Only NaN differs from itself, and only infinities are as large as infinity. ``nan_to_num`` without
numbers for the infinities is a clamp to the type's largest and smallest number.

**Why the backend needs it.** Arm does not take ``isnan`` and ``isinf``, to which ExecuTorch decomposes these ops.

**What it leaves alone.** Complex numbers. int8, which has no NaN and no infinity: they would be lost before they are
found, and Arm's quantizer fails on NaN in the calibration data.
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
    _check(x)
    return x != x


@rewrite(aten.isinf.default)
def isinf(x: Tensor) -> Tensor:
    """What is as large as infinity."""
    _check(x)
    return x.abs() == float("inf") if x.is_floating_point() else x != x


@rewrite(aten.nan_to_num.default)
def nan_to_num(x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """The infinities first, NaN last: its number may be infinite."""
    _check(x)
    if not x.is_floating_point():
        return x.clone()
    y = x
    if posinf is not None:
        y = torch.where(x == float("inf"), constant_like(x, float(posinf)), y)
    if neginf is not None:
        y = torch.where(x == -float("inf"), constant_like(x, float(neginf)), y)
    info = torch.finfo(x.dtype)
    if posinf is None and neginf is None:
        y = torch.clamp(y, info.min, info.max)
    elif posinf is None:
        y = torch.where(x == float("inf"), constant_like(x, info.max), y)
    elif neginf is None:
        y = torch.where(x == -float("inf"), constant_like(x, info.min), y)
    return torch.where(x != x, constant_like(x, 0.0 if nan is None else float(nan)), y)


def _check(x: Tensor) -> None:
    if x.is_complex():
        raise Decline("complex numbers are not served")
    if in_int8() and x.is_floating_point():
        raise Decline("int8 has no NaN and no infinity: they would be lost before they are found")
