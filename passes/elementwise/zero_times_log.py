"""Products with a logarithm, where zero times anything is zero: xlogy, xlog1py, entr.

**What it rewrites.** ``xlogy(x, y) = x * log(y)`` and ``xlog1py(x, y) = x * log1p(y)``, of tensors and numbers, and
``entr(x) = -x * log(x)``.

**The identity.** Where ``x`` is zero, and ``y`` is not NaN, the logarithm is taken of 1 (of 0 by ``log1p``), which
makes the product zero without an infinity times zero. ``entr`` is negative infinity below zero.

**Why the backend needs it.** ExecuTorch decomposes them into forms with ``isnan``, which Arm does not take.

**What it leaves alone.** float64 and complex numbers. In int8, which has no infinity, ``entr`` is 0 below zero.
"""

import torch
from torch import Tensor

from lowerfix.passes.elementwise._float32 import computed_in_float32, constant_like
from lowerfix.passes.elementwise.log1p import log1p_by_log
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes isnan; it is not in its lists in ExecuTorch 1.5.1"

XLOGY = (
    aten.xlogy.Tensor,
    aten.xlogy.Scalar_Self,
    aten.xlogy.Scalar_Other,
    aten.special_xlogy.default,
    aten.special_xlogy.self_scalar,
    aten.special_xlogy.other_scalar,
)
XLOG1PY = (aten.special_xlog1py.default, aten.special_xlog1py.self_scalar, aten.special_xlog1py.other_scalar)


@rewrite(*XLOGY)
@computed_in_float32
def xlogy(self: Tensor | float, other: Tensor | float) -> Tensor:
    """``self * log(other)``."""
    x, y = tensors(self, other)
    return x * torch.log(_unless_zero(x, y, 1.0))


@rewrite(*XLOG1PY)
@computed_in_float32
def xlog1py(self: Tensor | float, other: Tensor | float) -> Tensor:
    """``self * log1p(other)``."""
    x, y = tensors(self, other)
    return x * log1p_by_log(_unless_zero(x, y, 0.0))


@rewrite(aten.special_entr.default)
@computed_in_float32
def entr(x: Tensor) -> Tensor:
    """``-x * log(x)``."""
    result = -x * torch.log(torch.where(x > 0, x, constant_like(x, 1.0)))
    if in_int8():
        return result
    return torch.where(x < 0, constant_like(x, -float("inf")), result)


def tensors(x: Tensor | float, y: Tensor | float) -> tuple[Tensor, Tensor]:
    """Both as tensors; one of them is one."""
    if not isinstance(x, Tensor):
        assert isinstance(y, Tensor)
        return constant_like(y, float(x)), y
    return x, y if isinstance(y, Tensor) else constant_like(x, float(y))


def _unless_zero(x: Tensor, y: Tensor, neutral: float) -> Tensor:
    # Not by logical_and: Arm gives a comparison with a number one dimension where there is none.
    return torch.where(x == 0, torch.where(y == y, constant_like(y, neutral), y), y)
