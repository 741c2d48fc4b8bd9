"""Products with a logarithm, where zero times anything is zero, without a comparison.

**What it rewrites.** ``xlogy``, ``xlog1py`` and ``entr`` of float32, of tensors and numbers.

**The identity.** ``x`` is multiplied by the logarithm with infinity as the largest float, which makes zero of a zero
``x``. Where the logarithm is infinite, its sign times that of ``x``, times twice the largest float, makes infinity of
the rest. It is taken of what is not below its domain; where it is, and ``x`` is not zero, zero is divided by zero.
``entr(x) = -x * log(x)``, and negative infinity below zero.

**Why the backend needs it.** XNNPACK has no Booleans, which ``to_edge`` uses for zero and NaN.

**What it leaves alone.** Other types.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._signs import LARGEST, above, bounded, float32, infinite, quotient, signs
from lowerfix.passes.elementwise.log1p_by_clamp import log1p
from lowerfix.passes.elementwise.zero_times_log import XLOG1PY, XLOGY, tensors
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes comparisons and where; ExecuTorch 1.5.1's has no Booleans"


@rewrite(*XLOGY, cost=0.5)
def xlogy(self: Tensor | float, other: Tensor | float) -> Tensor:
    """``self * log(other)``."""
    x, y = _tensors(self, other)
    return _product(x, torch.log(torch.clamp(y, min=0.0))) + _undefined(x, -y)


@rewrite(*XLOG1PY, cost=0.5)
def xlog1py(self: Tensor | float, other: Tensor | float) -> Tensor:
    """``self * log1p(other)``."""
    x, y = _tensors(self, other)
    return _product(x, log1p(torch.clamp(y, min=-1.0))) + _undefined(x, -1.0 - y)


@rewrite(aten.special_entr.default, cost=0.5)
def entr(x: Tensor) -> Tensor:
    """``-x * log(x)``."""
    float32(x)
    half = above(-x) * -LARGEST
    return (half + half) - _product(x, torch.log(torch.clamp(x, min=0.0)))


def _product(x: Tensor, logarithm: Tensor) -> Tensor:
    half = infinite(logarithm) * signs(logarithm) * signs(x) * LARGEST
    return x * bounded(logarithm) + (half + half)


def _undefined(x: Tensor, beyond: Tensor) -> Tensor:
    """NaN where it is above zero and ``x`` is not zero, else zero."""
    return quotient(0.0, 1.0 - above(beyond) * above(x.abs()))


def _tensors(x: Tensor | float, y: Tensor | float) -> tuple[Tensor, Tensor]:
    """Both as tensors; one of them is one."""
    if isinstance(x, complex) or isinstance(y, complex):
        raise Decline("complex numbers are not served")
    x, y = tensors(x, y)
    float32(x, y)
    return x, y
