"""Powers of a given base: exp2, ``2 ** x``, ldexp.

**What it rewrites.** ``exp2(x)``, ``base ** x`` with a number as the base, and ``ldexp(x, n) = x * 2 ** n``, of floats
and of integers.

**The identity.** ``base ** x = e^(x * log(base))``. To keep the digits of the product ``x`` is split into ``m``, a
multiple of about ``1 / log(base)``, and the rest, and ``log(base)`` into its first 13 bits and the rest, so that the
largest of the partial products is exact, and the others are below 1: each has its own exponential. For a negative base
the result is ``|base| ** x`` with the sign of ``(-1) ** x``, and NaN where ``x`` is no whole number. In int8 the
product is not split.

**Why the backend needs it.** They are not in Arm's list. TOSA's POW is not defined for a negative base, nor for
exponents that are infinite or NaN.

**What it leaves alone.** float64, complex numbers, a base of zero in int8, and integer powers of integers, whose
result is an integer.
"""

import math

import numpy as np
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32, constant_like, promoted_type
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes exp2, and powers of a number; neither in ExecuTorch 1.5.1"

FAR = 160.0
"""``e^160`` is infinite in float32, and ``e^-160`` zero."""


@rewrite(aten.exp2.default, aten.special_exp2.default)
@computed_in_float32
def exp2(x: Tensor) -> Tensor:
    """``2 ** x``."""
    return _power(2.0, x)


@rewrite(aten.ldexp.Tensor)
@computed_in_float32
def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """``x * 2 ** other``."""
    return x * _power(2.0, other)


@rewrite(aten.pow.Scalar)
def power_of_number(self: float, exponent: Tensor) -> Tensor:
    """``self ** exponent``."""
    if not promoted_type(exponent, self).is_floating_point:
        raise Decline("the result is an integer")
    if isinstance(self, complex):
        raise Decline("complex numbers are not served")
    return computed_in_float32(lambda x: _power(float(self), x))(exponent)


def _power(base: float, x: Tensor) -> Tensor:
    if in_int8() and base <= 0:
        raise Decline(f"in int8 a power is an exponential, and {base} is not positive")
    if base == 0:
        small = torch.where(x == 0, constant_like(x, 1.0), constant_like(x, float("inf")))
        return torch.where(x > 0, constant_like(x, 0.0), torch.where(x == x, small, x))
    size = _exponential(abs(base), x)
    if base > 0:
        return size
    half, infinite = x * 0.5, x.abs() == float("inf")
    signed = torch.where(torch.logical_or(half == torch.floor(half), infinite), size, -size)
    whole = torch.logical_or(x == torch.floor(x), infinite)
    return torch.where(whole, signed, constant_like(x, float("nan")))


def _exponential(base: float, x: Tensor) -> Tensor:
    logarithm = math.log(float(np.float32(base)))
    if logarithm == 0:
        return torch.full_like(x, 1.0)
    if in_int8():
        return torch.exp(x * logarithm)
    exponent = math.frexp(logarithm)[1]
    step = 2.0**-exponent
    leading = math.ldexp(round(math.ldexp(logarithm, 13 - exponent)), exponent - 13)
    limit = FAR / abs(logarithm)
    bounded = torch.clamp(x, -limit, limit)
    inward = torch.floor if logarithm > 0 else torch.ceil  # so that no part overflows where the result does not
    multiple = inward(bounded * (1 / step)) * step
    rest = multiple * (logarithm - leading) + (bounded - multiple) * logarithm
    return torch.exp(multiple * leading) * torch.exp(rest)
