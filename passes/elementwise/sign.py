"""The sign of a number, of an infinite one too, and of a zero; numbers with the sign of others.

**What it rewrites.** ``sign`` and ``sgn`` of floats, ``signbit`` and ``copysign``.

**The identity.** Two comparisons give the sign: NaN is neither above nor below zero, and its sign is 0 in PyTorch. A
zero is negative where its reciprocal is. ``copysign(x, y)`` is ``|x|`` or ``-|x|``.

**Why the backend needs it.** Arm multiplies ``x`` by zero to get its constants, so that infinity has the sign NaN. It
takes neither ``signbit`` nor ``copysign``.

**What it leaves alone.** ``sign`` in int8 and of integers. The sign bit of NaN cannot be seen by comparing, and is
taken to be clear; in int8 a negative zero counts as zero.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32, constant_like, is_negative
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's sign holds at infinity, and it takes signbit and copysign; it does neither in ExecuTorch 1.5.1"


@rewrite(aten.sign.default, aten.sgn.default, wrong="it makes NaN of infinity")
def sign(x: Tensor) -> Tensor:
    """1, -1 or 0."""
    if in_int8() or not x.is_floating_point():
        raise Decline("infinity is a float")
    below = torch.where(x < 0, constant_like(x, -1.0), constant_like(x, 0.0))
    return torch.where(x > 0, constant_like(x, 1.0), below)


@rewrite(aten.signbit.default)
def signbit(x: Tensor) -> Tensor:
    """Whether the sign bit is set."""
    return is_negative(x)


@rewrite(aten.copysign.Tensor)
@computed_in_float32
def copysign(self: Tensor, other: Tensor) -> Tensor:
    """``|self|`` with the sign of ``other``."""
    size = self.abs()
    return torch.where(is_negative(other), -size, size)


@rewrite(aten.copysign.Scalar)
@computed_in_float32
def copysign_of_number(self: Tensor, other: float) -> Tensor:
    """``|self|`` with the sign of a number."""
    return -self.abs() if math.copysign(1.0, other) < 0 else self.abs()
