"""atan2 and atan, by a quotient of polynomials on [0, 1].

**What it rewrites.** ``atan2(y, x)`` in all quadrants, and ``atan(x)``.

**The identity.** ``atan2`` needs the arctangent of ``s = min(|x|, |y|) / max(|x|, |y|)`` in [0, 1] only: swapping the
two gives ``pi/2 - r``, a negative ``x`` gives ``pi - r``, a negative ``y`` gives ``-r``. That arctangent is ``s * p(s *
s) / q(s * s)``, with ``p`` of degree 2 and ``q`` of degree 3, the interpolation of ``atan(sqrt(u)) / sqrt(u)`` at the
zeros of a Chebyshev polynomial, which is within 6e-8 of it. All their coefficients are positive, so nothing cancels.
Where ``|x| = |y|``, ``s`` is 1, or 0 for two zeros, so that infinities and zeros come out as in C. The sign of a
number, of a zero too, is that of the reciprocal of the number cut to [-1/2, 1/2]. The result is within 4e-7 of
PyTorch's, relatively.

**Why the backend needs it.** TOSA has no arctangent. Arm approximates ``atan`` with an error of 1.6e-4, and makes NaN
of infinity; it does not take ``atan2`` at all. Each op of a replacement costs time in each of the backend's passes, so
there are no more than have to be, and constants are tensors, which are stored once for the program.

In int8 ``s`` is ``exp(-|log|y| - log|x||)``: a reciprocal of what may be nearly zero would leave nothing of the 256
steps, while logarithms, of what is taken to be at least 0.001, spread them evenly; and ``atan`` is a table.

**What it leaves alone.** ``atan`` in int8; float64 and complex numbers.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32, constant_like
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes atan2, and its atan is a float32 arctangent; neither is the case in ExecuTorch 1.5.1"

NUMERATOR = (11.2811650538, 75.1838049955, 84.7216646311)
DENOMINATOR = (28.8158989235, 103.424026293, 84.7216691763)
"""From the highest power down; that of the denominator has the coefficient 1."""

SMALLEST = 1e-3
"""What a smaller size counts as in int8."""


@rewrite(aten.atan2.default, aten.arctan2.default)
@computed_in_float32
def atan2(self: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, self)."""
    height, width = self.abs(), other.abs()
    steep = height > width
    if in_int8():
        angle = _of_logarithms(height, width)
        angle = torch.where(steep, math.pi / 2 - angle, angle)
        angle = torch.where(other < 0, math.pi - angle, angle)
        return torch.where(self < 0, -angle, angle)
    small, large = torch.where(steep, width, height), torch.where(steep, height, width)
    # Of equal sizes, 0 has the slope 0, and any other, infinity too, the slope 1.
    slope = torch.where(small == large, torch.clamp(large, max=1.0).ceil(), small / large)
    angle = arctangent(slope)
    angle = torch.where(steep, constant_like(angle, math.pi / 2) - angle, angle)
    # A slope is at least 0 and about 1 at most, and the reciprocal is below the one or above the other.
    angle = torch.where(slope > _reciprocal_of_sign(other), constant_like(angle, math.pi) - angle, angle)
    return angle * torch.clamp(_reciprocal_of_sign(self), -1.0, 1.0)


def _reciprocal_of_sign(x: Tensor) -> Tensor:
    """A number of the sign of ``x``, at least 2 in size: infinite for a zero."""
    return torch.reciprocal(torch.clamp(x, -0.5, 0.5))


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


def arctangent(s: Tensor) -> Tensor:
    """The arctangent of a number in [0, 1]."""
    u = s * s
    numerator = u * constant_like(u, NUMERATOR[0]) + constant_like(u, NUMERATOR[1])
    numerator = numerator * u + constant_like(u, NUMERATOR[2])
    denominator = u + constant_like(u, DENOMINATOR[0])
    for coefficient in DENOMINATOR[1:]:
        denominator = denominator * u + constant_like(u, coefficient)
    return numerator * s / denominator


def _of_logarithms(height: Tensor, width: Tensor) -> Tensor:
    """The same in int8."""
    difference = torch.log(torch.clamp(height, min=SMALLEST)) - torch.log(torch.clamp(width, min=SMALLEST))
    return torch.atan(torch.exp(-difference.abs()))
