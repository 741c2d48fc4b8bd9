"""Rounding to the nearest, ties to even, by adding and subtracting ``2 ** 23``.

**What it rewrites.** ``round(x)`` and ``round(x, decimals=n)`` of float32.

**The identity.** Between ``2 ** 23`` and ``2 ** 24`` floats are integers, so that a sum that falls there is rounded to
an integer, ties to even, and the difference is exact. This is done on ``|x|``, which above ``2 ** 23`` is an integer
already. The sign is that of ``x``, for a zero too. With decimals PyTorch rounds ``x * 10 ** n`` and divides again, and
with negative ones ``x / 10 ** -n``, which is done here too.

**Why the backend needs it.** XNNPACK takes ``floor`` and ``ceil``, and no ``round``; nor has it the comparisons that
ties need otherwise.

**What it leaves alone.** Other types, and more than 10 decimals.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._signs import WHOLE, above, float32, signs
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes round; ExecuTorch 1.5.1's does not"


@rewrite(aten.round.default, cost=0.5)
def round_by_adding(x: Tensor) -> Tensor:
    """To an integer."""
    float32(x)
    size = x.abs()
    rounded = (torch.clamp(size, max=WHOLE) + WHOLE) - WHOLE
    return torch.maximum(rounded, size * above(size - WHOLE)) * signs(x)


@rewrite(aten.round.decimals, aten.special_round.default, cost=0.5)
def round_decimals(x: Tensor, *, decimals: int = 0) -> Tensor:
    """To a number of decimals."""
    float32(x)
    if not -10 <= decimals <= 10:
        raise Decline(f"{decimals} decimals; up to 10 the power of ten is a float32 number")
    power = 10.0 ** abs(decimals)
    if decimals == 0:
        return round_by_adding(x)
    return round_by_adding(x * power) / power if decimals > 0 else round_by_adding(x / power) * power
