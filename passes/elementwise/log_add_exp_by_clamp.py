"""logaddexp and logaddexp2 without a comparison.

**What it rewrites.** ``logaddexp(x, y) = log(e^x + e^y)`` and ``logaddexp2``, the same to base 2, of float32.

**The identity.** ``max(x, y) + log1p(e^-|x - y|)``. For the difference infinities count as the largest floats, so that
two equal ones differ by zero. Zero times each, cut off at -1 and 1, makes NaN of NaN, which a maximum may lose.

**Why the backend needs it.** XNNPACK has no Booleans, which ``to_edge`` uses for what is infinite.

**What it leaves alone.** Other types.
"""

import math

import torch
from torch import Tensor

from lowerfix.passes.elementwise._signs import bounded, float32
from lowerfix.passes.elementwise.log1p_by_clamp import log1p
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes comparisons and where; ExecuTorch 1.5.1's has no Booleans"


@rewrite(aten.logaddexp.default, cost=0.5)
def logaddexp(self: Tensor, other: Tensor) -> Tensor:
    """To base e."""
    float32(self, other)
    return _larger(self, other) + log1p(torch.exp(-_distance(self, other)))


@rewrite(aten.logaddexp2.default, cost=0.5)
def logaddexp2(self: Tensor, other: Tensor) -> Tensor:
    """To base 2."""
    float32(self, other)
    tail = log1p(torch.exp(_distance(self, other) * -math.log(2.0)))
    return _larger(self, other) + tail * (1 / math.log(2.0))


def _distance(x: Tensor, y: Tensor) -> Tensor:
    return (bounded(x) - bounded(y)).abs()


def _larger(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x, y) + (torch.clamp(x, -1.0, 1.0) + torch.clamp(y, -1.0, 1.0)) * 0.0
