"""Signs and comparisons as floats, for backends without Booleans."""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import constant_like

LARGEST = torch.finfo(torch.float32).max

WHOLE = 2.0**23
"""From here on floats have no fractional part."""


def above(difference: Tensor) -> Tensor:
    """One where it is above zero, else zero; NaN where it is NaN."""
    return torch.clamp(difference * 2.0**127 * 2.0**23, 0.0, 1.0)


def signs(x: Tensor) -> Tensor:
    """One, minus one, or the zero that it is; NaN where it is NaN."""
    return torch.clamp(x * 2.0**127 * 2.0**23, -1.0, 1.0)


def signs_of_zeros_too(x: Tensor) -> Tensor:
    """One or minus one, by the sign bit: the reciprocal of a zero is infinite. NaN where it is NaN."""
    return torch.clamp(signs(x) + torch.clamp(quotient(1.0, x), -1.0, 1.0), -1.0, 1.0)


def infinite(x: Tensor) -> Tensor:
    """One where it is infinite, else zero; NaN where it is NaN."""
    return torch.clamp(x.abs() - LARGEST, 0.0, 1.0)


def bounded(x: Tensor) -> Tensor:
    """Infinities as the largest floats."""
    return torch.clamp(x, -LARGEST, LARGEST)


def quotient(number: float, x: Tensor) -> Tensor:
    """A number divided by a tensor; not ``number / x``, of which PyTorch makes a reciprocal."""
    return constant_like(x, number) / x


def float32(*tensors: Tensor) -> None:
    """Declines for other types: the factors above are of float32's range."""
    for x in tensors:
        if x.dtype != torch.float32:
            raise Decline(f"it is of {x.dtype}")
