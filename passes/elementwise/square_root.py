"""The square root of every number, those included that have none.

**What it rewrites.** ``sqrt``, ``x ** 0.5`` and ``x ** -0.5``.

**The identity.** PyTorch computes ``x ** 0.5`` as ``sqrt(x)``, and ``x ** -0.5`` as ``rsqrt(x)``. The root is ``1 /
rsqrt(x)``: at zero that is ``1 / inf``, with the sign of the zero, at infinity ``1 / 0``, and NaN for NaN and negative
numbers. It is rounded twice.

**Why the backend needs it.** Arm computes ``x ** 0.5`` with TOSA's POW, which is not defined for negative numbers,
infinity and NaN, and loses the sign of a zero. RSQRT is defined for all.

**What it leaves alone.** int8, where it is a table: for VGF in int8, wrap the quantizer, so that this is known. The
root inside a norm or a standard deviation, which is of a sum of squares: there, infinity and NaN stay undefined.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import computed_in_float32
from lowerfix.rewriting import in_int8, rewrite
from lowerfix.targets import arm

aten = torch.ops.aten

RETIRE_WHEN = "Arm's sqrt is NaN for negative numbers and infinite for infinity; not so in ExecuTorch 1.5.1"

UNDEFINED = "TOSA's POW is not defined for negative numbers, infinity and NaN"


@rewrite(aten.sqrt.default, wrong=UNDEFINED, on=arm.FLOAT)
@computed_in_float32
def sqrt(x: Tensor) -> Tensor:
    """The reciprocal of the reciprocal root."""
    if in_int8():
        raise Decline("in int8 it is a table")
    return torch.reciprocal(torch.rsqrt(x))


@rewrite(aten.pow.Tensor_Scalar, wrong=UNDEFINED, on=arm.FLOAT)
def power_of_half(self: Tensor, exponent: float) -> Tensor:
    """``x ** 0.5`` and ``x ** -0.5``."""
    if exponent == 0.5:
        return sqrt(self)
    if exponent == -0.5:
        return computed_in_float32(torch.rsqrt)(self)
    raise Decline("it is no square root")
