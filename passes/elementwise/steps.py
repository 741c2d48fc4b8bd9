"""Functions with a step at zero: heaviside, and the angle of a real number.

**What it rewrites.** ``heaviside(x, values)`` and ``angle(x)`` of real numbers.

**The identity.** ``heaviside`` is ``values`` at zero, 1 above and 0 elsewhere, also of NaN. ``angle`` is pi below zero
and 0 elsewhere, and NaN of NaN.

**Why the backend needs it.** Arm takes neither; what ExecuTorch decomposes ``heaviside`` to has ``isnan``, and makes
NaN of NaN.

**What it leaves alone.** ``heaviside`` of integers; ``angle`` of complex numbers.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32, constant_like
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes isnan, and angle; neither is in its lists in ExecuTorch 1.5.1"


@rewrite(aten.heaviside.default)
def heaviside(self: Tensor, values: Tensor) -> Tensor:
    """0, 1, or what is given for zero."""
    if not self.is_floating_point():
        raise Decline("integers are not served")
    step = torch.where(self > 0, constant_like(self, 1.0), constant_like(self, 0.0))
    return torch.where(self == 0, values, step)


@rewrite(aten.angle.default)
@computed_in_float32
def angle(x: Tensor) -> Tensor:
    """Pi or 0."""
    direction = torch.where(x < 0, constant_like(x, math.pi), constant_like(x, 0.0))
    return torch.where(x != x, x, direction)
