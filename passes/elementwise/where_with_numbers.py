"""``where`` between tensors and numbers, the numbers as constants.

**What it rewrites.** ``where(condition, x, 0.25)``, with a number in one of the places or in both.

**The identity.** A number is a constant tensor of the other branch's type, or of the type that PyTorch gives the two.

**Why the backend needs it.** ExecuTorch makes ``scalar_tensor`` of a number, which Arm's quantizer does not reach in
this place: in int8 the branch stays on the CPU, and the ``where`` with it.

**What it leaves alone.** Where the backend takes it, which all do in float.
"""

import torch
from torch import Tensor

from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's quantizer reaches the numbers in where; it does not in ExecuTorch 1.5.1"


@rewrite(aten.where.ScalarOther)
def where_else_number(condition: Tensor, self: Tensor, other: float) -> Tensor:
    """A number where the condition is false."""
    result_type = torch.result_type(self, other)
    return torch.where(condition, _as(self, result_type), _constant(condition, other, result_type))


@rewrite(aten.where.ScalarSelf)
def where_then_number(condition: Tensor, self: float, other: Tensor) -> Tensor:
    """A number where the condition is true."""
    result_type = torch.result_type(self, other)
    return torch.where(condition, _constant(condition, self, result_type), _as(other, result_type))


@rewrite(aten.where.Scalar)
def where_numbers(condition: Tensor, self: float, other: float) -> Tensor:
    """Numbers in both places."""
    result_type = torch.result_type(self, other)
    return torch.where(condition, _constant(condition, self, result_type), _constant(condition, other, result_type))


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype == dtype else x.to(dtype)


def _constant(condition: Tensor, value: float, dtype: torch.dtype) -> Tensor:
    return torch.full([1] * condition.dim(), value, dtype=dtype)
