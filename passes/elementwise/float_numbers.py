"""Arithmetic with numbers that are integers, or with a factor, in floats.

**What it rewrites.** ``add``, ``sub``, ``rsub``, ``mul`` and ``div`` of a float tensor and a number, or a stored tensor
of integers or Booleans, and ``add``, ``sub`` and ``rsub`` of float tensors with ``alpha``; ``addcmul``, ``addcdiv`` and
``lerp`` with a number.

**The identity.** The integer becomes a float, as PyTorch makes one of it before it computes. With ``alpha`` the second
tensor is multiplied first.

**Why the backend needs it.** ``to_edge`` makes an int64 constant of the number and casts it at run time, and XNNPACK
takes no cast; it takes no ``alpha`` either.

**What it leaves alone.** Integer and Boolean tensors that are computed, complex numbers, and rounding modes.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite, stored

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "to_edge makes a float constant of a number that meets a float; that of ExecuTorch 1.5.1 casts it"


@rewrite(aten.add.Tensor, aten.add.Scalar)
def add(self: Tensor | float, other: Tensor | float, alpha: float = 1) -> Tensor:
    """``self + alpha * other``."""
    self, other = _floats(_first(self, other), other)
    return self + _times(other, alpha)


@rewrite(aten.sub.Tensor, aten.sub.Scalar)
def sub(self: Tensor | float, other: Tensor | float, alpha: float = 1) -> Tensor:
    """``self - alpha * other``."""
    self, other = _floats(_first(self, other), other)
    return self - _times(other, alpha)


@rewrite(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(self: Tensor, other: Tensor | float, alpha: float = 1) -> Tensor:
    """``other - alpha * self``."""
    _check(self, other)
    return _first(other, self) - _times(self, alpha)


@rewrite(aten.mul.Tensor, aten.mul.Scalar, aten.multiply.Tensor)
def mul(self: Tensor | float, other: Tensor | float) -> Tensor:
    """By a number."""
    x, number = (self, other) if isinstance(self, Tensor) else (other, self)
    if isinstance(x, Tensor) and isinstance(number, Tensor):
        return torch.mul(*_different(x, number))
    _check(x, number)
    return torch.mul(x, _number(number))


@rewrite(aten.div.Tensor, aten.div.Scalar, aten.divide.Tensor)
def div(self: Tensor | float, other: Tensor | float) -> Tensor:
    """By a number."""
    if not isinstance(self, Tensor):
        return torch.div(_first(self, other), other)
    if isinstance(other, Tensor):
        return torch.div(*_different(self, other))
    _check(self, other)
    return torch.div(self, _number(other))


@rewrite(aten.addcmul.default)
def addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """``self + value * tensor1 * tensor2``."""
    _check(self, tensor1)
    _check(self, tensor2)
    return self + _times(tensor1, value) * tensor2


@rewrite(aten.addcdiv.default)
def addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """``self + value * tensor1 / tensor2``."""
    _check(self, tensor1)
    _check(self, tensor2)
    return self + _times(tensor1, value) / tensor2


@rewrite(aten.lerp.Scalar)
def lerp(self: Tensor, end: Tensor, weight: float) -> Tensor:
    """From the nearer end, as PyTorch does."""
    _check(self, end)
    if weight < 0.5:
        return self + (end - self) * float(weight)
    return end - (end - self) * (1.0 - float(weight))


def _check(x: Tensor | float, other: Tensor | float) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point() or isinstance(other, complex):
        raise Decline("it is no float")
    if isinstance(other, Tensor) and other.dtype != x.dtype:
        raise Decline(f"it is of {x.dtype} and {other.dtype}")


def _floats(x: Tensor, other: Tensor | float) -> tuple[Tensor, Tensor | float]:
    """Both in the type of the result, where the one that is not is stored, and its cast will be, too."""
    if not isinstance(other, Tensor) or other.dtype == x.dtype:
        _check(x, other)
        return x, other
    result = torch.result_type(x, other)
    integers = {tensor.dtype for tensor in (x, other) if tensor.dtype != result}
    for tensor in (x, other):
        if tensor.dtype != result and not stored(tensor):
            raise Decline(f"it is of {x.dtype} and {other.dtype}")
    if not result.is_floating_point or any(dtype.is_floating_point for dtype in integers):
        raise Decline(f"it is of {x.dtype} and {other.dtype}")
    return (x if x.dtype == result else x.to(result)), (other if other.dtype == result else other.to(result))


def _different(x: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    if x.dtype == other.dtype:
        raise Decline("there is no number in it")
    x, floats = _floats(x, other)
    assert isinstance(floats, Tensor)
    return x, floats


def _first(number: Tensor | float, other: Tensor | float) -> Tensor:
    """A number that comes first, as decompositions write it, as a tensor."""
    if isinstance(number, Tensor):
        return number
    if not isinstance(other, Tensor) or not other.is_floating_point() or isinstance(number, complex):
        raise Decline("it is no float")
    return torch.full([1] * other.dim(), float(number), dtype=other.dtype)


def _times(x: Tensor | float, factor: float) -> Tensor | float:
    if isinstance(x, Tensor):
        return x if factor == 1 else x * float(factor)
    return float(x) * float(factor)


def _number(x: Tensor | float) -> float:
    assert not isinstance(x, Tensor)
    return float(x)
