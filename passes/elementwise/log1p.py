"""log1p, corrected for what is rounded off in ``1 + x``.

**What it rewrites.** ``log1p(x)`` of floats.

**The identity.** With ``w = 1 + x`` as it is rounded, ``log1p(x) = log(w) * x / (w - 1)``, and ``x`` itself where ``w``
is 1: ``log(w) / (w - 1)`` hardly changes from ``1 + x`` to ``w``, so a few roundings remain (W. Kahan; D. Goldberg,
What Every Computer Scientist Should Know About Floating-Point Arithmetic, 1991, theorem 4).

**Why the backend needs it.** Arm computes ``log1p`` of all that is below 0.001 by six terms of the Taylor series, so
also at -0.9, where that is 0.3 off, and beyond -1, where it should be NaN; above 0.001 it loses the digits that ``1 +
x`` rounds off.

**What it leaves alone.** int8, where a table has the right values; float64 and complex numbers.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's log1p holds below zero and for small numbers; it does not in ExecuTorch 1.5.1"

WRONG = "its log1p is a Taylor series for all negative numbers"


@rewrite(aten.log1p.default, aten.special_log1p.default, wrong=WRONG)
def log1p_corrected(x: Tensor) -> Tensor:
    """Where the backend takes it, and it is not a table."""
    if in_int8():
        raise Decline("in int8 it is a table")
    return log1p_by_log(x)


@rewrite(aten.log1p.default, aten.special_log1p.default)
@computed_in_float32
def log1p_by_log(x: Tensor) -> Tensor:
    """``log(w) * x / (w - 1)``, with ``w = 1 + x``."""
    if in_int8():
        return torch.log1p(x)
    w = x + 1.0
    rounded = w - 1.0
    kept = torch.logical_or(rounded == 0, x == float("inf"))
    return torch.where(kept, x, torch.log(w) * (x / rounded))
