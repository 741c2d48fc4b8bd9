"""Remainders and rounded quotients without a comparison.

**What it rewrites.** ``fmod``, ``remainder``, and ``div`` with a rounding mode, of float32, by a tensor or a number.

**The identity.** ``fmod`` is computed as in the pass ``truncation``: in four steps of 12 bits, with a divisor in two
halves, so that each product and difference is exact. What depends on a comparison there is multiplied by one or zero
here, a clamp of a large multiple of the difference. ``remainder`` adds the divisor where the signs differ. The quotient
rounded down is ``(x - remainder) / y``, which is nearly an integer and rounded to it; a divisor that is zero gives ``x
/ y``. The quotient rounded towards zero is ``trunc(x / y)``, as in PyTorch.

**Why the backend needs it.** XNNPACK takes ``div``, ``floor`` and ``ceil``, and neither these nor comparisons.

**What it leaves alone.** Other types. Remainders are exact for quotients below 2**48; beyond, neighbours of ``x`` are
2**24 divisors apart, and the remainder is not that of PyTorch. A remainder of -0 is 0.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import constant_like
from lowerfix.passes.elementwise._signs import WHOLE, above, bounded, float32, infinite, quotient, signs
from lowerfix.passes.elementwise.truncation import LARGE, SCALE, STEP, UNITS, trunc_by_difference
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes fmod, remainder and div with a rounding mode; ExecuTorch 1.5.1's does not"

MOST = 2.0**24
"""Quotients beyond are whole as they are. In each step the quotient is cut off so that nothing overflows."""


@rewrite(aten.fmod.Tensor, aten.fmod.Scalar, cost=0.5)
def fmod(self: Tensor, other: Tensor | float) -> Tensor:
    """With the sign of the dividend."""
    x, y = _both(self, other)
    size, divisor = x.abs(), y.abs()
    smaller = above(divisor - size)
    not_a_number = quotient(0.0, divisor)  # where it is zero
    return x * smaller + _rest(size, divisor) * (1.0 - smaller) * signs(x) + not_a_number


@rewrite(aten.remainder.Tensor, aten.remainder.Scalar, cost=0.5)
def remainder(self: Tensor, other: Tensor | float) -> Tensor:
    """With the sign of the divisor."""
    x, y = _both(self, other)
    rest = fmod(x, y)
    added = bounded(y) * _opposite(rest, y)
    return rest + (added + added * infinite(y))


@rewrite(aten.div.Tensor_mode, aten.div.Scalar_mode, cost=0.5)
def div(self: Tensor, other: Tensor | float, *, rounding_mode: str | None) -> Tensor:
    """Rounded down, or towards zero."""
    x, y = _both(self, other)
    if rounding_mode is None:
        return x / y
    if rounding_mode == "trunc":
        return trunc_by_difference(x / y)
    by_zero = 1.0 - above(y.abs())
    dividend, divisor = bounded(x), y + by_zero
    rest = fmod(dividend, divisor) * (1.0 - above(bounded(dividend / divisor).abs() - MOST))
    exact = (dividend - rest) / divisor - _opposite(rest, divisor)
    part = torch.clamp(exact, -WHOLE, WHOLE)
    down = torch.floor(part)
    down = down + above(part - down - 0.5) + (exact - part)
    not_a_number = quotient(0.0, 1.0 - infinite(x) * (1.0 - by_zero))
    beyond = bounded(x / y) * by_zero
    return down * (1.0 - by_zero) + (beyond + beyond) + not_a_number


def _opposite(x: Tensor, y: Tensor) -> Tensor:
    """One where the two have opposite signs, else zero."""
    return above(-(signs(x) * signs(y)))


def _rest(size: Tensor, size_of_divisor: Tensor) -> Tensor:
    """What is left of a size that is not smaller than the divisor's."""
    large = above(size_of_divisor - LARGE)
    small = 1.0 - large
    divisor = torch.clamp(size_of_divisor, max=LARGE) * small
    divisor = divisor + torch.clamp(size_of_divisor * SCALE, max=LARGE) * large
    spread = divisor * (STEP + 1)
    high = spread - (spread - divisor)
    low = divisor - high
    rest = size * small + size * SCALE * large
    for unit in UNITS:
        taken = torch.floor(torch.clamp(rest / (divisor * unit), max=STEP - 1))
        rest = rest - taken * (high * unit)
        rest = rest - taken * (low * unit)
        rest = rest + divisor * unit * above(-rest)
    rest = rest - divisor * (1.0 - above(divisor - rest))
    return rest * small + rest * large * (1 / SCALE)


def _both(x: Tensor | float, y: Tensor | float) -> tuple[Tensor, Tensor]:
    if not isinstance(x, Tensor):
        raise Decline("the dividend is a number")
    float32(x)
    if isinstance(y, complex):
        raise Decline("complex numbers are not served")
    divisor = y if isinstance(y, Tensor) else constant_like(x, float(y))
    float32(divisor)
    return x, divisor
