"""The logarithm of a sum of powers, logaddexp and logaddexp2, without overflow.

**What it rewrites.** ``logaddexp(x, y) = log(e^x + e^y)`` and ``logaddexp2``, the same to base 2.

**The identity.** ``max(x, y) + log1p(e^-|x - y|)``; where both are equal, as two infinities are, the difference is 0.

**Why the backend needs it.** ExecuTorch decomposes ``logaddexp2`` into a form with ``exp2`` and ``isinf``, which Arm
does not take, and ``logaddexp`` into one that is not valid TOSA where the two have different ranks.

**What it leaves alone.** float64 and complex numbers.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32, constant_like
from lowerfix.passes.elementwise.log1p import log1p_by_log
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes exp2 and isinf; neither is in its lists in ExecuTorch 1.5.1"


@rewrite(aten.logaddexp.default)
def logaddexp(self: Tensor, other: Tensor) -> Tensor:
    """To base e."""
    return _log_add_exp(self, other, 1.0)


@rewrite(aten.logaddexp.default, wrong="what it makes of tensors of different ranks, or of none, is not valid TOSA")
def logaddexp_of_ranks(self: Tensor, other: Tensor) -> Tensor:
    """The same where ExecuTorch's form is taken and fails."""
    if self.dim() == other.dim() and self.dim() > 0:
        raise Decline("they have the same rank")
    return _log_add_exp(self, other, 1.0)


@rewrite(aten.logaddexp2.default)
def logaddexp2(self: Tensor, other: Tensor) -> Tensor:
    """To base 2."""
    return _log_add_exp(self, other, math.log(2))


def _log_add_exp(x: Tensor, y: Tensor, log_of_base: float) -> Tensor:
    def formula(x: Tensor, y: Tensor) -> Tensor:
        distance = (x - y).abs()
        distance = torch.where(x == y, constant_like(distance, 0.0), distance)
        tail = log1p_by_log(torch.exp(distance * -log_of_base))
        return torch.maximum(x, y) + (tail if log_of_base == 1 else tail / log_of_base)

    return computed_in_float32(formula)(x, y)
