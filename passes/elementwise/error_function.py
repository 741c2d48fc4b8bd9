"""The complementary error function and its kin, accurate in the tail.

**What it rewrites.** ``erfc``, ``erfcx(x) = e^(x^2) * erfc(x)`` and ``log_ndtr``, the logarithm of the normal
distribution function.

**The identity.** ``(1 + 2z) * erfcx(z)`` is smooth in ``t = (z - 3) / (z + 3)``, which maps [0, infinity] to [-1, 1]
(M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, 1981); a polynomial of
degree 11, the interpolation at the zeros of a Chebyshev polynomial, is within 5e-9 of it, relatively. ``erfc(z) =
e^(-z^2) * erfcx(z)``, and ``erfc(-z) = 2 - erfc(z)``. To keep the digits of ``z^2``, ``z`` is split into ``h``, a
multiple of 1/16 whose square is exact, and the rest: ``e^(-h*h) * e^(-(z - h) * (z + h))``. ``log_ndtr(x)`` is
``log(erfcx(-x / sqrt(2)) / 2) - x^2 / 2`` below -1 and ``log1p(-erfc(x / sqrt(2)) / 2)`` above, as PyTorch has it.

**Why the backend needs it.** They are not in Arm's list, which has ``erf``; ``1 - erf(x)`` keeps no digit of ``erfc``
above 4. In int8 it is as good as any, and a table.

**What it leaves alone.** float64; in int8 ``erfcx`` and ``log_ndtr``.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32, polynomial
from lowerfix.passes.elementwise.log1p import log1p_by_log
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes erfc and erfcx; they are not in its lists in ExecuTorch 1.5.1"

COEFFICIENTS = (
    1.253008056,
    -0.1356210694,
    -0.04756215693,
    0.1296441143,
    -0.1192752753,
    0.06831656777,
    -0.02376357644,
    0.00249911687,
    0.001875079124,
    -0.0007264536791,
    -9.254516688e-05,
    7.731024225e-05,
)

LARGEST = 14.0
"""Beyond, ``e^(-z^2)`` is zero in float32 and ``e^(z^2)`` infinite."""


@rewrite(aten.erfc.default, aten.special_erfc.default)
@computed_in_float32
def erfc(x: Tensor) -> Tensor:
    """``1 - erf(x)``, without the difference."""
    if in_int8():
        return 1.0 - torch.erf(x)
    return _erfc(x)


@rewrite(aten.special_erfcx.default)
@computed_in_float32
def erfcx(x: Tensor) -> Tensor:
    """``e^(x^2) * erfc(x)``."""
    _check()
    size = x.abs()
    result = _erfcx(size)
    return torch.where(x < 0, 2.0 * exp_of_square(torch.clamp(size, max=LARGEST), 1.0) - result, result)


@rewrite(aten.special_log_ndtr.default)
@computed_in_float32
def log_ndtr(x: Tensor) -> Tensor:
    """The logarithm of the normal distribution function."""
    _check()
    z = x * -math.sqrt(0.5)
    tail = torch.log(_erfcx(torch.relu(z)) * 0.5) - z * z
    return torch.where(x < -1.0, tail, log1p_by_log(_erfc(-z) * -0.5))


def _check() -> None:
    if in_int8():
        raise Decline("its values span more than the 256 steps of int8 can hold")


def _erfc(x: Tensor) -> Tensor:
    size = torch.clamp(x.abs(), max=LARGEST)
    result = exp_of_square(size, -1.0) * _erfcx(size)
    return torch.where(x < 0, 2.0 - result, result)


def _erfcx(z: Tensor) -> Tensor:
    """Of a number that is not negative."""
    t = 1.0 - 6.0 / (z + 3.0)
    return polynomial(t, COEFFICIENTS) / (z * 2.0 + 1.0)


def exp_of_square(z: Tensor, sign: float) -> Tensor:
    """``e^(z^2)`` or ``e^(-z^2)``, of a number that is not negative."""
    h = torch.floor(z * 16.0) * 0.0625
    return torch.exp(h * h * sign) * torch.exp((z - h) * (z + h) * sign)
