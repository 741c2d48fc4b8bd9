"""What the rewrites of this family share: the precision that PyTorch computes in, constants, and the sign of a zero."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import in_int8


def computed_in_float32(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a formula be computed where PyTorch computes it, and round the result to the type of the op's result.

    Arguments of several types are promoted. Integers and Booleans become float32, since the ops that are served so
    return floats for them; the half types are computed in float32. What the function makes of numbers that are no
    tensors is its own business. It declines for complex numbers and for float64, which no accelerator here has.
    """

    @wraps(function)
    def promoted(*args: Any, **kwargs: Any) -> Tensor:
        result_type = promoted_type(*args[:2])
        if not result_type.is_floating_point:
            result_type = torch.get_default_dtype()
        if result_type == torch.float64:
            raise Decline("the formula is of float32's precision, and the op is in float64")
        result = function(*(in_float32(a) if isinstance(a, Tensor) else a for a in args), **kwargs)
        return result if result.dtype == result_type else result.to(result_type)

    return promoted


def promoted_type(first: Any, second: Any = None) -> torch.dtype:
    """The type that PyTorch promotes one or two tensors and numbers to; declines for complex ones."""
    result_type = torch.result_type(first, first if second is None else second)
    if result_type.is_complex:
        raise Decline("complex numbers are not served")
    return result_type


def in_float32(x: Tensor) -> Tensor:
    """A tensor as float32."""
    return x if x.dtype == torch.float32 else x.to(torch.float32)


def constant_like(x: Tensor, value: float) -> Tensor:
    """A constant that broadcasts to a tensor, of its type: Ethos-U's quantizer knows no numbers in ``where``."""
    return torch.full([1] * x.dim(), value, dtype=x.dtype)


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Its value by Horner's rule; the coefficients begin with that of the lowest power."""
    result = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result = result * x + coefficient
    return result


def is_negative(x: Tensor) -> Tensor:
    """Whether the sign bit is set, of a zero too; of NaN it is not known, and taken for positive.

    The reciprocal of a negative zero is negative infinity. In int8 there is no negative zero, and the reciprocal of
    what is nearly zero would take up all of the range.
    """
    if in_int8() or not x.is_floating_point():
        return x < 0
    return (x < 0) | (torch.reciprocal(x) < 0)
