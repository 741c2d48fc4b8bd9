"""Logarithms to base 2 and 10, as multiples of the natural one.

**What it rewrites.** ``log2`` and ``log10``, of floats and of integers.

**The identity.** ``log_b(x) = log(x) / log(b)``. Zero, negative numbers, infinity and NaN come out as ``log`` has them.
The last place can differ: of a power of two ``log2`` is a whole number in PyTorch, and within one rounding of it here.

**Why the backend needs it.** TOSA has the natural logarithm only. Arm takes ``log10`` in int8, by a table, and
``log2`` nowhere.

**What it leaves alone.** float64 and complex numbers.
"""

import math

import torch
from torch import Tensor

from lowerfix.passes.elementwise._float32 import computed_in_float32
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes log2 and, in float, log10; neither is in its lists in ExecuTorch 1.5.1"


@rewrite(aten.log2.default)
@computed_in_float32
def log2(x: Tensor) -> Tensor:
    """``log(x) / log(2)``."""
    return torch.log(x) * (1 / math.log(2))


@rewrite(aten.log10.default)
@computed_in_float32
def log10(x: Tensor) -> Tensor:
    """``log(x) / log(10)``."""
    return torch.log(x) * (1 / math.log(10))
