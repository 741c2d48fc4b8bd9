"""Arcus and area functions without a comparison.

**What it rewrites.** ``atan``, ``atan2``, ``asin``, ``acos``, ``asinh``, ``acosh`` and ``atanh`` of float32.

**The identity.** The angle of two sizes is that of ``a``, the smaller divided by the larger, or ``pi / 2`` less it.
``atan(a)`` is a polynomial, from ``tan(pi / 8)`` on that of ``(a - 1) / (a + 1)``, and ``pi / 4``. What depends on a
comparison is multiplied by one or zero, a clamp of a large multiple of the difference. ``asin(x)`` is the angle of
``(sqrt((1 - x) (1 + x)), x)``, ``acos(x)`` twice that of ``(sqrt(1 + x), sqrt(1 - x))``. In ``atan2`` infinite sizes
count as one, and what is finite beside them as zero; the sign of a zero is that of its reciprocal.

``asinh(x) = log1p(x + x^2 / (1 + sqrt(x^2 + 1)))``, ``acosh(x) = log1p(u + sqrt(u) sqrt(u + 2))`` with ``u = x - 1``,
and ``atanh(x) = log1p(2 x / (1 - x)) / 2``, of ``|x|`` where the function is odd. From ``2 ** 60`` on what ``x`` is
larger is a logarithm of its own, so that no square overflows.

**Why the backend needs it.** XNNPACK takes ``log`` and ``sqrt``, and none of these, nor comparisons.

**What it leaves alone.** Other types.
"""

import math

import torch
from torch import Tensor

from lowerfix.passes.elementwise._float32 import polynomial
from lowerfix.passes.elementwise._signs import above, bounded, float32, infinite, signs, signs_of_zeros_too
from lowerfix.passes.elementwise.log1p_by_clamp import log1p
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes inverse trigonometric and hyperbolic functions; ExecuTorch 1.5.1's does not"

COEFFICIENTS = (0.9999999819, -0.3333279694, 0.1997440479, -0.1385147843, 0.07984962911)

LARGE = 2.0**60
"""Above, ``x^2 + 1`` is ``x^2``, which does not overflow yet."""


@rewrite(aten.atan.default, aten.arctan.default, cost=0.5)
def atan(x: Tensor) -> Tensor:
    """The angle of the point (1, x)."""
    float32(x)
    size = x.abs()
    angle = _arctangent(torch.clamp(size, max=1.0) / torch.clamp(size, min=1.0))
    return _or(angle, math.pi / 2, above(size - 1.0)) * signs(x)


@rewrite(aten.atan2.default, aten.arctan2.default, cost=0.5)
def atan2(self: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, self)."""
    float32(self, other)
    high, wide = infinite(self), infinite(other)
    finite = 1.0 - torch.maximum(high, wide)
    angle = _angle(bounded(self).abs() * finite + high, bounded(other).abs() * finite + wide)
    left = (1.0 - signs_of_zeros_too(other)) * 0.5
    return _or(angle, math.pi, left) * signs_of_zeros_too(self)


@rewrite(aten.asin.default, aten.arcsin.default, cost=0.5)
def asin(x: Tensor) -> Tensor:
    """The angle of the point on the circle at the height x."""
    float32(x)
    return _angle(x.abs(), torch.sqrt((1.0 - x) * (1.0 + x))) * signs(x)


@rewrite(aten.acos.default, aten.arccos.default, cost=0.5)
def acos(x: Tensor) -> Tensor:
    """Twice the angle whose tangent is that of half the angle."""
    float32(x)
    return _angle(torch.sqrt(1.0 - x), torch.sqrt(1.0 + x)) * 2.0


@rewrite(aten.asinh.default, aten.arcsinh.default, cost=0.5)
def asinh(x: Tensor) -> Tensor:
    """``log(|x| + sqrt(x^2 + 1))`` with the sign of x."""
    float32(x)
    size = x.abs()
    part = torch.clamp(size, max=LARGE)
    square = part * part
    return (log1p(part + square / (torch.sqrt(square + 1.0) + 1.0)) + _beyond(size)) * signs(x)


@rewrite(aten.acosh.default, aten.arccosh.default, cost=0.5)
def acosh(x: Tensor) -> Tensor:
    """``log(x + sqrt(x^2 - 1))``."""
    float32(x)
    part = torch.clamp(x, max=LARGE) - 1.0
    return log1p(part + torch.sqrt(part) * torch.sqrt(part + 2.0)) + _beyond(x)


@rewrite(aten.atanh.default, aten.arctanh.default, cost=0.5)
def atanh(x: Tensor) -> Tensor:
    """``log((1 + |x|) / (1 - |x|)) / 2`` with the sign of x."""
    float32(x)
    size = x.abs()
    return log1p(size * 2.0 / (1.0 - size)) * 0.5 * signs(x)


def _beyond(x: Tensor) -> Tensor:
    return torch.log(torch.clamp(x, min=LARGE) * (1 / LARGE))


def _angle(height: Tensor, width: Tensor) -> Tensor:
    """The angle in [0, pi / 2] that two finite sizes make, 0 for two zeros."""
    larger = torch.maximum(height, width)
    angle = _arctangent(torch.minimum(height, width) / (larger + (1.0 - above(larger))))
    return _or(angle, math.pi / 2, above(height - width))


def _or(angle: Tensor, whole: float, other: Tensor) -> Tensor:
    """What the angle lacks of the whole where ``other`` is one."""
    return angle + other * (whole - angle * 2.0)


def _arctangent(a: Tensor) -> Tensor:
    """The arctangent of a number in [0, 1]."""
    folded = above(a - math.tan(math.pi / 8))
    s = (a - folded) / (a * folded + 1.0)
    u = s * s
    return polynomial(u, COEFFICIENTS) * s + folded * (math.pi / 4)
