"""A complex tensor as a pair of real ones, and the arithmetic of PyTorch on it.

The formulas are those of PyTorch's CPU kernels, infinities and NaN included: a real operand is a complex one whose
imaginary part is zero, so that zero times infinity arises where it does in PyTorch.
"""

import math
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor


class Pair(NamedTuple):
    """A complex tensor: its real and its imaginary part, of equal shape and dtype."""

    real: Tensor
    imag: Tensor


Operand: TypeAlias = Pair | Tensor | complex
"""A complex tensor, a real tensor, or a number."""

Part: TypeAlias = Tensor | float


def parts(value: Operand, dtype: torch.dtype) -> tuple[Part, Part]:
    """The two parts of an operand, tensors in the dtype that the result's parts have."""
    if isinstance(value, Pair):
        return _cast(value.real, dtype), _cast(value.imag, dtype)
    if isinstance(value, Tensor):
        return _cast(value, dtype), 0.0
    number = complex(value)
    return number.real, number.imag


def pair(value: Operand, dtype: torch.dtype) -> Pair:
    """An operand as a pair of tensors."""
    if not isinstance(value, (Pair, Tensor)):
        number = complex(value)
        return Pair(torch.full([], number.real, dtype=dtype), torch.full([], number.imag, dtype=dtype))
    return _both(*parts(value, dtype))


def add(dtype: torch.dtype, a: Operand, b: Operand, alpha: complex = 1) -> Pair:
    """``a + alpha * b``. PyTorch multiplies by ``alpha`` even where that is one."""
    ar, ai = parts(a, dtype)
    br, bi = _product(parts(b, dtype), parts(alpha, dtype))
    return _both(_plus(ar, br), _plus(ai, bi))


def sub(dtype: torch.dtype, a: Operand, b: Operand, alpha: complex = 1) -> Pair:
    """``a - alpha * b``."""
    return add(dtype, a, b, -alpha)


def rsub(dtype: torch.dtype, a: Operand, b: Operand, alpha: complex = 1) -> Pair:
    """``b - alpha * a``."""
    return add(dtype, b, a, -alpha)


def mul(dtype: torch.dtype, a: Operand, b: Operand) -> Pair:
    """``(ac - bd) + (ad + bc)i``, as it stands; C99 would repair infinities, PyTorch does not."""
    return _both(*_product(parts(a, dtype), parts(b, dtype)))


def div(dtype: torch.dtype, a: Operand, b: Operand) -> Pair:
    """Smith's algorithm: divide by the larger part of the divisor first, so that nothing overflows early."""
    (ar, ai), (br, bi) = parts(a, dtype), parts(b, dtype)
    if not isinstance(br, Tensor):
        assert not isinstance(bi, Tensor)
        return _divided_by_number(ar, ai, br, bi)
    if not isinstance(bi, Tensor):
        ratio = bi / br
        scale = 1.0 / _plus(br, bi * ratio)
        real, imag = _plus(ar, _times(ai, ratio)) * scale, _minus(ai, _times(ar, ratio)) * scale
        zero = br == 0
        return Pair(torch.where(zero, ar / br.abs(), real), torch.where(zero, ai / br.abs(), imag))
    larger = br.abs() >= bi.abs()
    first, second = torch.where(larger, br, bi), torch.where(larger, bi, br)
    ratio = second / first
    scale = 1.0 / (first + second * ratio)
    one, other = torch.where(larger, ar, ai), torch.where(larger, ai, ar)
    real = (one + other * ratio) * scale
    imag = torch.where(larger, other - one * ratio, one * ratio - other) * scale
    zero, size = (br == 0) & (bi == 0), first.abs()
    return Pair(torch.where(zero, ar / size, real), torch.where(zero, ai / size, imag))


def absolute(z: Pair) -> Tensor:
    """The absolute value, which neither overflows nor vanishes before the number does."""
    return torch.hypot(z.real, z.imag)


def angle(z: Pair) -> Tensor:
    """The argument, in (-pi, pi]."""
    return torch.atan2(z.imag, z.real)


def exp(z: Pair) -> Pair:
    """``e^a (cos b + i sin b)``, with C's values where that is infinity times zero or of an infinite angle."""
    size = torch.exp(z.real)
    endless, wild = z.real.abs() == math.inf, (z.imag.abs() == math.inf) | (z.imag != z.imag)
    real = torch.where(endless & wild, size, size * torch.cos(z.imag))
    imag = torch.where(z.imag == 0, z.imag, size * torch.sin(z.imag))
    return Pair(real, torch.where(endless & wild & (z.real < 0), 0.0, imag))


def log(z: Pair) -> Pair:
    """The logarithm of the absolute value, and the angle."""
    return Pair(torch.log(absolute(z)), angle(z))


def sgn(z: Pair) -> Pair:
    """``z / |z|``, and zero at zero."""
    size = absolute(z)
    zero = size == 0
    return Pair(torch.where(zero, 0.0, z.real / size), torch.where(zero, 0.0, z.imag / size))


def polar(size: Tensor, angle: Tensor) -> Pair:
    """From absolute value and angle."""
    return Pair(size * torch.cos(angle), size * torch.sin(angle))


def _divided_by_number(ar: Part, ai: Part, c: float, d: float) -> Pair:
    if c == 0 and d == 0:
        return _both(ar / torch.tensor(abs(c)), ai / torch.tensor(abs(d)))
    if abs(c) >= abs(d):
        ratio = d / c
        scale = 1.0 / (c + d * ratio)
        return _both(_times(_plus(ar, _times(ai, ratio)), scale), _times(_minus(ai, _times(ar, ratio)), scale))
    ratio = c / d
    scale = 1.0 / (d + c * ratio)
    return _both(_times(_plus(_times(ar, ratio), ai), scale), _times(_minus(_times(ai, ratio), ar), scale))


def _product(a: tuple[Part, Part], b: tuple[Part, Part]) -> tuple[Part, Part]:
    (ar, ai), (br, bi) = a, b
    return _minus(_times(ar, br), _times(ai, bi)), _plus(_times(ar, bi), _times(ai, br))


def _both(real: Part, imag: Part) -> Pair:
    """Both parts in the shape and dtype of either, where one is a number."""
    if not isinstance(real, Tensor):
        assert isinstance(imag, Tensor)
        return Pair(torch.full_like(imag, real), imag)
    return Pair(real, imag if isinstance(imag, Tensor) else torch.full_like(real, imag))


def _times(a: Part, b: Part) -> Part:
    """A product, which times one is the factor itself."""
    if not isinstance(a, Tensor) and a == 1.0:
        return b
    return a if not isinstance(b, Tensor) and b == 1.0 else a * b


def _plus(a: Part, b: Part) -> Part:
    """A sum. Plus zero is no identity: it turns -0 into 0."""
    return a + b


def _minus(a: Part, b: Part) -> Part:
    """A difference, which less zero is the minuend itself."""
    return a if not isinstance(b, Tensor) and b == 0.0 and math.copysign(1.0, b) > 0 else _difference(a, b)


def _difference(a: Any, b: Any) -> Part:
    return a - b  # type: ignore[no-any-return]


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype == dtype else x.to(dtype)
