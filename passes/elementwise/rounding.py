"""Rounding to the nearest, ties to even, and to a number of decimals.

**What it rewrites.** ``round(x)`` and ``round(x, decimals=n)`` of floats.

**The identity.** The fractional part ``x - floor(x)`` is exact; above one half, and at one half where ``floor(x)`` is
odd, the next integer is taken. This is done on ``|x|``, and what is an integer already is left as it is, so that signed
zeros, infinities and NaN stay. With decimals PyTorch rounds ``x * 10 ** n`` and divides again, which is done here too;
with negative ones it rounds ``x / 10 ** -n``, where a tie shows in the remainder ``|x| - floor(|x| / p) * p``, which
is exact, and not in a quotient by way of a reciprocal.

**Why the backend needs it.** Arm rounds by ``floor(x + 0.5)``: 2.5 to 3, 0.49999997 to 1, and 8388609 to 8388610. It
does not take the form with decimals.

**What it leaves alone.** int8, where ``round`` is a table of the right values; float64; and more than 10 decimals.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's round takes ties to the even integer, and decimals; it does neither in ExecuTorch 1.5.1"


@rewrite(aten.round.default, wrong="it rounds ties away from zero")
def round_ties_to_even(x: Tensor) -> Tensor:
    """To an integer."""
    if in_int8():
        raise Decline("in int8 it is a table")
    if not x.is_floating_point():
        raise Decline("integers are round")
    return computed_in_float32(lambda y: _signed(y, _rounded(y.abs())))(x)


@rewrite(aten.round.decimals, aten.special_round.default)
def round_decimals(x: Tensor, *, decimals: int = 0) -> Tensor:
    """To a number of decimals."""
    if not x.is_floating_point():
        return x.clone()
    if not -10 <= decimals <= 10:
        raise Decline(f"{decimals} decimals; up to 10 the power of ten is a float32 number")
    return computed_in_float32(lambda y: _round_decimals(y, decimals))(x)


def _round_decimals(x: Tensor, decimals: int) -> Tensor:
    power = 10.0 ** abs(decimals)
    if in_int8():
        return torch.round(x * 10.0**decimals) * 10.0**-decimals
    if decimals == 0:
        return _signed(x, _rounded(x.abs()))
    if decimals > 0:
        scaled = x * power
        return _signed(scaled, _rounded(scaled.abs())) / power
    size = x.abs()
    quotient = torch.floor(size / power)
    rest = size - quotient * power
    quotient = torch.where(rest < 0, quotient - 1.0, torch.where(rest >= power, quotient + 1.0, quotient))
    rest = size - quotient * power
    even = torch.floor(quotient * 0.5) * 2.0 == quotient
    up = torch.logical_or(rest > power / 2, torch.logical_and(rest == power / 2, torch.logical_not(even)))
    result = torch.where(up, quotient + 1.0, quotient) * power
    return torch.where(x == 0, x, torch.where(x < 0, -result, result))


def _rounded(size: Tensor) -> Tensor:
    """A number that is not negative, rounded."""
    below = torch.floor(size)
    part = size - below
    odd = torch.floor(below * 0.5) * 2.0 != below
    up = torch.logical_or(part > 0.5, torch.logical_and(part == 0.5, odd))
    return torch.where(up, below + 1.0, below)


def _signed(x: Tensor, size: Tensor) -> Tensor:
    """A rounded size with the sign of what was rounded; that itself, where there was nothing to round."""
    return torch.where(x.abs() == size, x, torch.where(x < 0, -size, size))
