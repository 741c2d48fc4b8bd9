"""Whole powers as products, and reciprocals as quotients.

**What it rewrites.** ``x ** n`` for ``n`` from -8 to 8, also of a float such as ``3.0``; ``x ** -0.5``; ``reciprocal``.

**The identity.** ``x ** 3 = x * x * x``, ``x ** -2 = 1 / (x * x)``, ``x ** -0.5 = 1 / sqrt(x)``, which PyTorch
computes so, too. Longer products differ from its result by rounding.

**Why the backend needs it.** XNNPACK takes squares only, and no ``reciprocal``.

**What it leaves alone.** Integers, other exponents, and an exponent of zero.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes pow and reciprocal; ExecuTorch 1.5.1's takes squares"

HIGHEST = 8
"""More factors than there are bits of rounding error to spare; and nobody writes them."""


@rewrite(aten.pow.Tensor_Scalar)
def power(self: Tensor, exponent: float) -> Tensor:
    """By a number that is known."""
    if not self.is_floating_point() or isinstance(exponent, complex):
        raise Decline(f"it is of {self.dtype}")
    if exponent == -0.5:
        return torch.rsqrt(self)
    count = abs(int(exponent)) if abs(exponent) <= HIGHEST else 0
    if count != abs(exponent) or count == 0:
        raise Decline(f"the exponent {exponent} is no whole number from 1 to {HIGHEST}, nor the negative of one")
    result: Tensor | None = None
    square = self
    while count:
        if count % 2:
            result = square if result is None else result * square
        count //= 2
        square = square * square if count else square
    assert result is not None
    result = result if result is not self else self.clone()
    return result if exponent > 0 else reciprocal(result)


@rewrite(aten.reciprocal.default)
def reciprocal(x: Tensor) -> Tensor:
    """One divided by it; not ``1 / x``, of which PyTorch makes a reciprocal again."""
    if not x.is_floating_point():
        raise Decline(f"it is of {x.dtype}")
    return torch.div(torch.full([1] * x.dim(), 1.0, dtype=x.dtype), x)
