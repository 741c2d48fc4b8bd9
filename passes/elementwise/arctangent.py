"""atan2 and atan, by a polynomial on [0, tan(pi/8)].

**What it rewrites.** ``atan2(y, x)`` in all quadrants, and ``atan(x)``.

**The identity.** ``atan2`` needs the arctangent of ``a = min(|x|, |y|) / max(|x|, |y|)`` in [0, 1] only: swapping the
two gives ``pi/2 - r``, a negative ``x`` gives ``pi - r``, a negative ``y`` gives ``-r``. Above ``tan(pi/8)``, ``atan(a)
= pi/4 + atan((a - 1) / (a + 1))``. The rest is ``s * p(s * s)``, with ``p`` of degree 4, the interpolation of
``atan(sqrt(u)) / sqrt(u)`` at the zeros of a Chebyshev polynomial, which is within 2e-8 of it. Where ``|x| = |y|``, the
quotient is 1, or 0 for two zeros, so that infinities and zeros come out as in C. The sign of a zero is that of its
reciprocal. The result is within 3e-7 of PyTorch's, relatively.

**Why the backend needs it.** TOSA has no arctangent. Arm approximates ``atan`` with an error of 1.6e-4, and makes NaN
of infinity; it does not take ``atan2`` at all.

In int8 ``a`` is ``exp(-|log|y| - log|x||)``: a reciprocal of what may be nearly zero would leave nothing of the 256
steps, while logarithms, of what is taken to be at least 0.001, spread them evenly; and ``atan`` is a table.

**What it leaves alone.** ``atan`` in int8; float64 and complex numbers.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32, constant_like, is_negative
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes atan2, and its atan is a float32 arctangent; neither is the case in ExecuTorch 1.5.1"

COEFFICIENTS = (0.9999999819, -0.3333279694, 0.1997440479, -0.1385147843, 0.07984962911)

SMALLEST = 1e-3
"""What a smaller size counts as in int8."""


@rewrite(aten.atan2.default, aten.arctan2.default)
@computed_in_float32
def atan2(self: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, self)."""
    height, width = self.abs(), other.abs()
    steep = height > width
    angle = _of_logarithms(height, width) if in_int8() else _of_sizes(height, width, steep)
    angle = torch.where(steep, math.pi / 2 - angle, angle)
    angle = torch.where(is_negative(other), math.pi - angle, angle)
    return torch.where(is_negative(self), -angle, angle)


@rewrite(aten.atan.default, aten.arctan.default, wrong="its arctangent is off by 1.6e-4, and NaN at infinity")
def atan(x: Tensor) -> Tensor:
    """The angle of the point (1, x)."""
    if in_int8():
        raise Decline("in int8 it is a table")
    return computed_in_float32(_atan)(x)


def _atan(x: Tensor) -> Tensor:
    size = x.abs()
    steep = size > 1.0
    angle = arctangent(torch.where(steep, torch.reciprocal(size), size))
    angle = torch.where(steep, math.pi / 2 - angle, angle)
    return torch.where(x == 0, x, torch.where(x < 0, -angle, angle))


def arctangent(a: Tensor) -> Tensor:
    """The arctangent of a number in [0, 1]."""
    folded = a > math.tan(math.pi / 8)
    s = torch.where(folded, (a - 1.0) / (a + 1.0), a)
    u = s * s
    p = u * COEFFICIENTS[-1] + COEFFICIENTS[-2]
    for coefficient in COEFFICIENTS[-3::-1]:
        p = p * u + coefficient
    angle = p * s
    return torch.where(folded, angle + math.pi / 4, angle)


def _of_sizes(height: Tensor, width: Tensor, steep: Tensor) -> Tensor:
    """The angle below 45 degrees that two sizes make."""
    small, large = torch.where(steep, width, height), torch.where(steep, height, width)
    equal = torch.where(large == 0, constant_like(large, 0.0), constant_like(large, 1.0))
    return arctangent(torch.where(small == large, equal, small / large))


def _of_logarithms(height: Tensor, width: Tensor) -> Tensor:
    """The same in int8."""
    difference = torch.log(torch.clamp(height, min=SMALLEST)) - torch.log(torch.clamp(width, min=SMALLEST))
    return torch.atan(torch.exp(-difference.abs()))
