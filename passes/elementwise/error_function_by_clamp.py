"""The error function and its kin without a comparison.

**What it rewrites.** ``erf``, ``erfc``, ``erfcx``, ``ndtr``, ``log_ndtr`` and ``erfinv`` of float32.

**The identity.** ``erfc``, ``erfcx`` and ``log_ndtr`` are computed as in the pass ``error-function``; what depends on a
comparison there is multiplied by one or zero here, and is finite wherever that is zero. Within [-1, 1] ``erf(x)`` is
``x`` times a polynomial in ``x^2``, the interpolation at the zeros of a Chebyshev polynomial, so that small results
keep their digits; beyond it is ``1 - erfc``. ``ndtr(x) = erfc(-x / sqrt(2)) / 2``. ``erfinv`` is made of two
polynomials in ``-log((1 - x) (1 + x))`` and in its root (M. Giles, Approximating the erfinv function, 2010), which are
within 4e-7 of it, relatively.

**Why the backend needs it.** XNNPACK takes ``exp`` and ``log``, and none of these, nor comparisons.

**What it leaves alone.** Other types.
"""

import math

import torch
from torch import Tensor

from lowerfix.passes.elementwise._float32 import polynomial
from lowerfix.passes.elementwise._signs import LARGEST, above, float32, quotient, signs
from lowerfix.passes.elementwise.error_function import COEFFICIENTS, exp_of_square
from lowerfix.passes.elementwise.error_function import LARGEST as FAR
from lowerfix.passes.elementwise.log1p_by_clamp import log1p
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes erf and erfc; ExecuTorch 1.5.1's does not"

NEAR = (
    1.128379167,
    -0.3761263847,
    0.112837825,
    -0.02686543073,
    0.005221031806,
    -0.0008484080381,
    0.0001126595886,
    -9.667044092e-06,
)
"""``erf(x) / x`` in powers of ``x^2``, on [-1, 1]."""

INVERSE = (
    1.50140941,
    0.246640727,
    -0.00417768164,
    -0.00125372503,
    0.00021858087,
    -4.39150654e-06,
    -3.5233877e-06,
    3.43273939e-07,
    2.81022636e-08,
)
"""``erfinv(x) / x`` in powers of ``w - 2.5``, with ``w = -log(1 - x^2)`` below ``SPLIT``."""

INVERSE_TAIL = (
    2.83297682,
    1.00167406,
    0.00943887047,
    -0.0076224613,
    0.00573950773,
    -0.00367342844,
    0.00134934322,
    0.000100950558,
    -0.000200214257,
)
"""The same in powers of ``sqrt(w) - 3``, above."""

SPLIT = 5.0
MOST = 17.0
"""``1 - x^2`` is not below ``e^-17`` for any float32 below one."""


@rewrite(aten.erf.default, aten.special_erf.default, cost=0.5)
def erf(x: Tensor) -> Tensor:
    """By a polynomial, and by ``erfc`` where it is not small."""
    float32(x)
    size = x.abs()
    near, far = torch.clamp(size, max=1.0), above(size - 1.0)
    small = near * polynomial(near * near, NEAR)
    return (small * (1.0 - far) + (1.0 - _tail(size)) * far) * signs(x)


@rewrite(aten.erfc.default, aten.special_erfc.default, cost=0.5)
def erfc(x: Tensor) -> Tensor:
    """``1 - erf(x)``, without the difference."""
    float32(x)
    return _erfc(x)


@rewrite(aten.special_erfcx.default, cost=0.5)
def erfcx(x: Tensor) -> Tensor:
    """``e^(x^2) * erfc(x)``."""
    float32(x)
    below = above(-x) * 2.0
    return _erfcx(x.abs()) * (1.0 - below) + exp_of_square(torch.clamp(-x, 0.0, FAR), 1.0) * below


@rewrite(aten.special_ndtr.default, cost=0.5)
def ndtr(x: Tensor) -> Tensor:
    """The normal distribution function."""
    float32(x)
    return _erfc(x * -math.sqrt(0.5)) * 0.5


@rewrite(aten.special_log_ndtr.default, cost=0.5)
def log_ndtr(x: Tensor) -> Tensor:
    """The logarithm of the normal distribution function."""
    float32(x)
    z, below = x * -math.sqrt(0.5), above(-1.0 - x)
    tail = torch.relu(z)
    tail = torch.log(_erfcx(tail) * 0.5) - tail * tail
    rest = log1p(_erfc(-torch.clamp(z, max=math.sqrt(0.5))) * -0.5)
    return tail * below + rest * (1.0 - below)


@rewrite(aten.erfinv.default, aten.special_erfinv.default, cost=0.5)
def erfinv(x: Tensor) -> Tensor:
    """The inverse of ``erf``, infinite at -1 and 1, NaN beyond."""
    float32(x)
    size = x.abs()
    w = torch.clamp(-torch.log((1.0 - size) * (1.0 + size)), 0.0, MOST)
    far = above(w - SPLIT)
    near = polynomial(torch.clamp(w, max=SPLIT) - 2.5, INVERSE)
    beyond = polynomial(torch.sqrt(torch.clamp(w, min=SPLIT)) - 3.0, INVERSE_TAIL)
    infinite = LARGEST * (1.0 - above(1.0 - size))
    undefined = quotient(0.0, 1.0 - above(size - 1.0))
    result = torch.clamp(size, max=1.0) * (near * (1.0 - far) + beyond * far) + (infinite + infinite) + undefined
    return result * signs(x)


def _erfc(x: Tensor) -> Tensor:
    below = above(-x) * 2.0
    return _tail(x.abs()) * (1.0 - below) + below


def _tail(size: Tensor) -> Tensor:
    """``erfc`` of a number that is not negative."""
    z = torch.clamp(size, max=FAR)
    return exp_of_square(z, -1.0) * _erfcx(z)


def _erfcx(z: Tensor) -> Tensor:
    """Of a number that is not negative."""
    return polynomial(1.0 - quotient(6.0, z + 3.0), COEFFICIENTS) / (z * 2.0 + 1.0)
