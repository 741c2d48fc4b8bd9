"""hypot, without overflow.

**What it rewrites.** ``hypot(x, y) = sqrt(x * x + y * y)``.

**The identity.** With ``m`` the larger size and ``t`` the quotient of the smaller by it, ``m * sqrt(1 + t * t)``, whose
parts do not overflow where the result does not. Where the quotient is NaN, as of two zeros or infinities, it is taken
for 1, since TOSA has no square root of NaN; ``m`` is NaN where one of the numbers is. One infinity makes the result
infinite, whatever the other number is. In int8, where nothing overflows and a quotient has the range of a reciprocal,
it is the plain formula.

**Why the backend needs it.** It is not in Arm's list.

**What it leaves alone.** float64 and complex numbers.
"""

import torch
from torch import Tensor

from lowerfix.passes.elementwise._float32 import computed_in_float32, constant_like
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes hypot; it is not in its lists in ExecuTorch 1.5.1"


@rewrite(aten.hypot.default)
@computed_in_float32
def hypot(self: Tensor, other: Tensor) -> Tensor:
    """The length of the vector (self, other)."""
    if in_int8():
        return torch.sqrt(self * self + other * other)
    x, y = self.abs(), other.abs()
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    t = small / large
    t = torch.where(t >= 0, t, constant_like(large, 1.0))
    length = large * torch.sqrt(t * t + 1.0)
    infinite = torch.logical_or(x == float("inf"), y == float("inf"))
    return torch.where(infinite, constant_like(large, float("inf")), length)
