"""Truncation towards zero, the fractional part, and the remainder that goes with it.

**What it rewrites.** ``trunc``, ``fix``, ``frac`` and ``fmod`` (by a tensor or a number).

**The identity.** ``trunc`` is ``ceil`` below zero and ``floor`` elsewhere, which keeps the sign of a zero, and ``frac``
is ``x - trunc(x)``. ``fmod(x, y)`` takes the largest multiple of ``|y|`` off ``|x|``, in four steps of 12 bits. A
product ``q * |y|`` would be rounded, so ``|y|`` is split into two halves of 12 bits, with which each product, and each
difference, is exact (T. J. Dekker, A floating-point technique for extending the available precision, 1971). The
quotient can be one off, as it is rounded, which is put right afterwards.

**Why the backend needs it.** They are not in Arm's list.

**What it leaves alone.** float64, complex numbers, and numbers as divisors beyond 2**76 or 2**-100. The remainder is
exact for quotients below 2**48; beyond, neighbours of ``x`` are 2**24 divisors apart, and the result is not that of
PyTorch. In int8 the remainder by a number is made of tables, and that by a tensor is ``x - trunc(x / y) * y``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import constant_like, in_float32, promoted_type
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes trunc and fmod; they are not in its lists in ExecuTorch 1.5.1"

STEP = 4096.0
"""The quotient that one step takes off: with 12 bits, its product with half of a divisor is exact."""

UNITS = (STEP**3, STEP**2, STEP, 1.0)

LARGE = 2.0**76
"""Divisors above are scaled down, since their splitting, and their product with a unit, would overflow."""

SCALE = 2.0**-60
"""What divisors above ``LARGE`` are multiplied by."""


@rewrite(aten.trunc.default, aten.fix.default)
def trunc(x: Tensor) -> Tensor:
    """``ceil`` below zero, ``floor`` elsewhere."""
    if not x.is_floating_point():
        return x.clone()
    return torch.where(x < 0, torch.ceil(x), torch.floor(x))


@rewrite(aten.trunc.default, aten.fix.default, cost=2)
def trunc_by_clamp(x: Tensor) -> Tensor:
    """For NPUs without comparisons: the one of ``floor`` and ``ceil`` that is on the far side of zero is cut off."""
    if not in_int8():
        raise Decline("it has no negative zero, as int8 has none; in float it needs a comparison")
    return torch.clamp(torch.floor(x), min=0.0) + torch.clamp(torch.ceil(x), max=0.0)


@rewrite(aten.trunc.default, aten.fix.default, cost=3)
def trunc_by_difference(x: Tensor) -> Tensor:
    """For floats where there are no comparisons: of the two parts one is zero, and its sign is that of the result."""
    if in_int8() or not x.is_floating_point():
        raise Decline("it is for floats")
    return torch.clamp(torch.ceil(x), max=0.0) - torch.clamp(-torch.floor(x), max=0.0)


@rewrite(aten.frac.default)
def frac(x: Tensor) -> Tensor:
    """``x - trunc(x)``."""
    return x - trunc(x)


@rewrite(aten.frac.default, cost=2)
def frac_by_clamp(x: Tensor) -> Tensor:
    """The same for NPUs without comparisons."""
    return x - trunc_by_clamp(x)


@rewrite(aten.frac.default, cost=3)
def frac_by_difference(x: Tensor) -> Tensor:
    """The same for floats where there are none."""
    return x - trunc_by_difference(x)


@rewrite(aten.fmod.Tensor)
def fmod(self: Tensor, other: Tensor) -> Tensor:
    """By a tensor."""
    result_type = _result_type(self, other)
    if not result_type.is_floating_point:
        return self - torch.div(self, other, rounding_mode="trunc") * other
    x, y = in_float32(self), in_float32(other)
    if in_int8():
        result = x - trunc(x / y) * y
    else:
        size = y.abs()
        large = size > LARGE
        divisor = size * torch.where(large, constant_like(size, SCALE), constant_like(size, 1.0))
        dividend = x.abs() * torch.where(large, constant_like(size, SCALE), constant_like(size, 1.0))
        spread = divisor * (STEP + 1)
        high = spread - (spread - divisor)
        rest = _rest(dividend, divisor, high, divisor - high)
        rest = rest * torch.where(large, constant_like(size, 1 / SCALE), constant_like(size, 1.0))
        result = torch.where(x.abs() < size, x, torch.where(x < 0, -rest, rest))
    return result if result.dtype == result_type else result.to(result_type)


@rewrite(aten.fmod.Scalar)
def fmod_by_number(self: Tensor, other: float) -> Tensor:
    """By a number, whose halves are constants."""
    result_type = _result_type(self, other)
    if not result_type.is_floating_point:
        return self - torch.div(self, other, rounding_mode="trunc") * other
    x, divisor = in_float32(self), abs(float(np.float32(other)))
    if not 2.0**-100 < divisor < LARGE:
        raise Decline(f"the divisor {other} is too large or too small to be split")
    if in_int8():
        result = torch.remainder(torch.relu(x), divisor) - torch.remainder(torch.relu(-x), divisor)
    else:
        spread = np.float32(divisor) * np.float32(STEP + 1)
        high = float(spread - (spread - np.float32(divisor)))
        rest = _rest(x.abs(), divisor, high, divisor - high)
        result = torch.where(x.abs() < divisor, x, torch.where(x < 0, -rest, rest))
    return result if result.dtype == result_type else result.to(result_type)


def _rest(dividend: Tensor, divisor: Any, high: Any, low: Any) -> Tensor:
    """What is left of a positive dividend, for a divisor that is the sum of two halves."""
    rest = dividend
    for unit in UNITS:
        quotient = torch.floor(rest / (divisor * unit))
        rest = rest - quotient * (high * unit)
        if not isinstance(low, float) or low != 0:
            rest = rest - quotient * (low * unit)
        rest = torch.where(rest < 0, rest + divisor * unit, rest)
    return torch.where(rest >= divisor, rest - divisor, rest)


def _result_type(x: Tensor, y: Any) -> torch.dtype:
    result_type = promoted_type(x, y)
    if result_type == torch.float64:
        raise Decline("the formula is of float32's precision, and the op is in float64")
    return result_type
