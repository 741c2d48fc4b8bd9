"""fmax and fmin, as maximum and minimum that pass over NaN.

**What it rewrites.** ``fmax`` and ``fmin``, of floats and of integers.

**The identity.** Where one number is NaN the other one is the result; else it is the maximum. Only NaN differs from
itself.

**Why the backend needs it.** They are not in Arm's list, while ``maximum`` and ``minimum`` are.

**What it leaves alone.** Complex numbers, which have no order.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lowerfix.passes.elementwise._float32 import promoted_type
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes fmax and fmin; they are not in its lists in ExecuTorch 1.5.1"


@rewrite(aten.fmax.default)
def fmax(self: Tensor, other: Tensor) -> Tensor:
    """The larger one."""
    return _without_nan(self, other, torch.maximum)


@rewrite(aten.fmin.default)
def fmin(self: Tensor, other: Tensor) -> Tensor:
    """The smaller one."""
    return _without_nan(self, other, torch.minimum)


def _without_nan(x: Tensor, y: Tensor, best: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    result_type = promoted_type(x, y)
    x = x if x.dtype == result_type else x.to(result_type)
    y = y if y.dtype == result_type else y.to(result_type)
    if not result_type.is_floating_point:
        return best(x, y)
    return torch.where(x != x, y, torch.where(y != y, x, best(x, y)))
