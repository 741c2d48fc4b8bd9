"""Powers of negative numbers, zero, infinity and NaN.

**What it rewrites.** ``x ** y`` of two tensors; ``x ** y`` with a number ``y`` that is not whole, or is zero, or is a
negative float.

**The identity.** ``|x| ** y`` for finite ``y`` and ``x`` other than zero, and by comparison the rest, as C's ``pow``
has it: a negative ``x`` gives the sign of ``(-1) ** y``, and NaN where ``y`` is not whole; zero and infinite exponents
give zero, one or infinity; ``x ** 0`` and ``1 ** y`` are one, for NaN too. ``x ** -2.0`` is ``x ** -2``.

**Why the backend needs it.** TOSA's POW is not defined for a negative ``x``, for zero with a negative ``y``, nor for
infinity and NaN.

**What it leaves alone.** int8, where ``x`` to a given power is a table. Other whole powers, which Arm multiplies out.
Square roots, which have their own pass.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32, constant_like, is_negative, promoted_type
from lowerfix.rewriting import in_int8, rewrite
from lowerfix.targets import arm

aten = torch.ops.aten

RETIRE_WHEN = "Arm's pow holds for every number; in ExecuTorch 1.5.1 it is undefined for negative ones"

UNDEFINED = "TOSA's POW is not defined for negative numbers, zero, infinity and NaN"
LARGEST = 64
"""Factors up to which Arm's product of a whole power is worth its length."""

INFINITY, NAN = float("inf"), float("nan")


@rewrite(aten.pow.Tensor_Tensor, wrong=UNDEFINED, on=arm.FLOAT)
def power(self: Tensor, exponent: Tensor) -> Tensor:
    """``self ** exponent``, both computed."""
    _check()
    if not promoted_type(self, exponent).is_floating_point:
        raise Decline("the result is an integer")
    return computed_in_float32(_power)(self, exponent)


@rewrite(aten.pow.Tensor_Scalar, cost=2, wrong=UNDEFINED, on=arm.FLOAT)
def power_by_number(self: Tensor, exponent: float) -> Tensor:
    """``self ** exponent`` for a number that is not whole, or a float that is no positive one."""
    _check()
    if isinstance(exponent, complex) or not promoted_type(self, exponent).is_floating_point:
        raise Decline("the result is no float")
    if exponent == 0:
        return torch.full_like(self, 1.0, dtype=promoted_type(self, exponent))
    if abs(exponent) == 0.5:
        raise Decline("PyTorch computes a root, which square-root serves")
    if abs(exponent) < INFINITY and exponent == int(exponent):
        if exponent > 0 or isinstance(exponent, int):
            raise Decline("whole powers are multiplied out")
        if exponent >= -LARGEST:
            return computed_in_float32(lambda x: torch.pow(x, int(exponent)))(self)
    return computed_in_float32(lambda x: _power(x, constant_like(x, exponent)))(self)


def _check() -> None:
    if in_int8():
        raise Decline("in int8 every step of it would be rounded")


def _power(x: Tensor, y: Tensor) -> Tensor:
    if not x.dim() and not y.dim():  # Arm compares no tensors without dimensions
        return _power(x.reshape(1), y.reshape(1)).reshape([])
    one, zero, infinity, nan = (constant_like(x, value) for value in (1.0, 0.0, INFINITY, NAN))
    size = x.abs()
    endless = y.abs() == INFINITY
    defined = torch.where(torch.logical_or(endless, y != y), one, y)
    result = torch.pow(torch.where((size > 0) & (size < INFINITY), size, one), defined)
    grows = torch.where(y > 0, infinity, zero)
    shrinks = torch.where(y < 0, infinity, zero)
    result = torch.where(size == 0, shrinks, result)
    result = torch.where(size == INFINITY, grows, result)
    far = torch.where(size == 1, one, torch.where(size > 1, grows, shrinks))
    result = torch.where(endless, far, result)
    # Half of an even number is whole, and so is every infinity.
    half = y * 0.5
    odd = (y == torch.floor(y)) & (half != torch.floor(half))
    result = torch.where(is_negative(x) & odd, -result, result)
    result = torch.where((x < 0) & (size < INFINITY) & (y != torch.floor(y)), nan, result)
    result = torch.where(torch.logical_or(x != x, y != y), nan, result)
    return torch.where(torch.logical_or(y == 0, x == 1), one, result)
