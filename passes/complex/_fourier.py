"""Discrete Fourier transforms of constant length as products with stored matrices.

A transform is a matrix: ``X[k] = sum_j x[j] e^(-2 pi i j k / n)``. Its cosines and sines are computed in float64, at
angles reduced by exact integer arithmetic, and then rounded once. The scale that ``norm`` asks for is a part of the
matrix; a signal that is shorter than ``n`` is multiplied by the first columns only, which is what zeros behind it would
come to.

A long transform is taken in two steps (Cooley and Tukey): ``n = p * q``, transforms of length ``p``, a rotation by
``e^(-2 pi i j k / n)``, and transforms of length ``q``.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.complex._pair import Operand, Pair, pair

Table = Callable[[str, Callable[[], Any], torch.dtype], Tensor]
"""Stores an array once: its name, how to compute it, the dtype to store it in."""

COMFORTABLE = 1 << 21
"""Numbers in a matrix beyond which a transform is taken in two steps, where its length can be split."""

LARGEST = 1 << 23
"""Numbers in the largest matrix that is stored."""

BACKWARD, ORTHO, FORWARD = "backward", "ortho", "forward"
NORMS = {None: BACKWARD, BACKWARD: BACKWARD, ORTHO: ORTHO, FORWARD: FORWARD}
SWAPPED = {BACKWARD: FORWARD, FORWARD: BACKWARD, ORTHO: ORTHO}


class Fourier:
    """The transforms on pairs, over the tables that they need."""

    def __init__(self, table: Table) -> None:
        self.table = table

    # One dimension, the last ------------------------------------------------------------------------------------------

    def complex_last(self, real: Tensor, imag: Tensor | None, n: int, sign: int, scale: float) -> Pair:
        """``X[k] = scale * sum_j x[j] e^(sign 2 pi i j k / n)``; ``imag`` is None for a real signal."""
        given = real.shape[-1]
        size = 2 * n * given * (1 if imag is None else 2)
        split = _split(n) if size > COMFORTABLE else 1
        if split > 1:
            return self._in_two_steps(real, imag, n, split, sign, scale)
        self._bound(n, size)
        kind = "real" if imag is None else "complex"

        def matrix() -> Any:
            cos, sin = _waves(n, np.arange(n), np.arange(given), scale)
            sin = sign * sin
            return np.vstack([cos, sin]) if imag is None else np.block([[cos, -sin], [sin, cos]])

        weight = self.table(f"fourier {kind} {n} {given} {sign} {scale}", matrix, real.dtype)
        both = F.linear(real if imag is None else torch.cat([real, imag], -1), weight)
        return Pair(both[..., :n], both[..., n:])

    def real_last(self, x: Tensor, n: int, scale: float) -> Pair:
        """The first ``n // 2 + 1`` values of the transform of a real signal; the others are their conjugates."""
        half, given = n // 2 + 1, x.shape[-1]
        size = 2 * half * given
        if size > COMFORTABLE and _split(n) > 1:
            whole = self.complex_last(x, None, n, -1, scale)
            return Pair(whole.real[..., :half], whole.imag[..., :half])
        self._bound(n, size)
        weight = self.table(f"fourier half {n} {given} {scale}", lambda: _half_matrix(n, given, scale), x.dtype)
        both = F.linear(x, weight)
        return Pair(both[..., :half], both[..., half:])

    def to_real_last(self, z: Pair, n: int, scale: float) -> Tensor:
        """The real signal of length ``n`` whose transform starts with the ``n // 2 + 1`` values given."""
        given = z.real.shape[-1]
        size = 2 * n * given
        if size > COMFORTABLE and _split(n) > 1:
            half = n // 2 + 1
            z = Pair(*(_fitted(part, half) for part in z))
            real = torch.cat([z.real, z.real[..., 1 : n - half + 1].flip(-1)], -1)
            imag = torch.cat([z.imag, -z.imag[..., 1 : n - half + 1].flip(-1)], -1)
            return self.complex_last(real, imag, n, 1, scale).real
        self._bound(n, size)
        weight = self.table(
            f"fourier inverse {n} {given} {scale}", lambda: _inverse_matrix(n, given, scale), z.real.dtype
        )
        return F.linear(torch.cat([z.real, z.imag], -1), weight)

    def _in_two_steps(self, real: Tensor, imag: Tensor | None, n: int, p: int, sign: int, scale: float) -> Pair:
        q = n // p
        rows = [_fitted(part, n).unflatten(-1, (p, q)).transpose(-1, -2) for part in (real, imag) if part is not None]
        inner = self.complex_last(rows[0], rows[1] if len(rows) == 2 else None, p, sign, 1.0)
        angles = np.outer(np.arange(q), np.arange(p)) % n * (sign * 2 * math.pi / n)
        cos = self.table(f"fourier cos {n} {p}", lambda: _snapped(np.cos(angles)), real.dtype)
        sin = self.table(f"fourier sin {n} {p} {sign}", lambda: _snapped(np.sin(angles)), real.dtype)
        turned = Pair(inner.real * cos - inner.imag * sin, inner.real * sin + inner.imag * cos)
        outer = self.complex_last(turned.real.transpose(-1, -2), turned.imag.transpose(-1, -2), q, sign, scale)
        return Pair(*(part.transpose(-1, -2).flatten(-2) for part in outer))

    @staticmethod
    def _bound(n: int, size: int) -> None:
        if size > LARGEST:
            raise Decline(
                f"a transform of length {n} needs a matrix of {size} numbers, and {n} cannot be split; pad the signal "
                f"to a length with small factors, such as {1 << (n - 1).bit_length()}"
            )

    # Any dimensions ---------------------------------------------------------------------------------------------------

    def complex_to_complex(
        self, x: Operand, sizes: Sequence[int], dims: Sequence[int], norm: str | None, sign: int, dtype: torch.dtype
    ) -> Pair:
        """``fft``, ``ifft`` and theirs of several dimensions."""
        real, imag = (x.real, x.imag) if isinstance(x, Pair) else (_real(x), None)
        real, imag = real.to(dtype), None if imag is None else imag.to(dtype)
        for dim, n in zip(reversed(dims), reversed(sizes), strict=True):
            scale = _scale(norm, n, sign)
            real = _fitted(real.transpose(dim, -1), n, pad=False)
            imag = None if imag is None else _fitted(imag.transpose(dim, -1), n, pad=False)
            real, imag = (part.transpose(dim, -1) for part in self.complex_last(real, imag, n, sign, scale))
        return Pair(real, imag if imag is not None else torch.zeros_like(real))

    def real_to_complex(
        self, x: Tensor, sizes: Sequence[int], dims: Sequence[int], norm: str | None, dtype: torch.dtype
    ) -> Pair:
        """``rfft`` and its of several dimensions: the last one is halved."""
        dim, n = dims[-1], sizes[-1]
        x = _fitted(x.to(dtype).transpose(dim, -1), n, pad=False)
        half = self.real_last(x, n, _scale(norm, n, -1))
        first = Pair(*(part.transpose(dim, -1) for part in half))
        if len(dims) == 1:
            return first
        return self.complex_to_complex(first, sizes[:-1], dims[:-1], norm, -1, dtype)

    def complex_to_real(
        self, x: Operand, sizes: Sequence[int], dims: Sequence[int], norm: str | None, dtype: torch.dtype
    ) -> Tensor:
        """``irfft`` and its of several dimensions: the last one is doubled."""
        z = pair(x, dtype)
        if len(dims) > 1:
            z = self.complex_to_complex(z, sizes[:-1], dims[:-1], norm, 1, dtype)
        dim, n = dims[-1], sizes[-1]
        z = Pair(*(_fitted(part.transpose(dim, -1), n // 2 + 1, pad=False) for part in z))
        return self.to_real_last(z, n, _scale(norm, n, 1)).transpose(dim, -1)


def lengths(
    shape: Sequence[int], s: Sequence[int] | None, dims: Sequence[int] | None, doubled: bool = False
) -> tuple[list[int], list[int]]:
    """Sizes and dimensions of a transform, as ``s`` and ``dim`` give them; ``doubled`` for one that ends in reals."""
    rank = len(shape)
    if dims is None:
        dims = range(rank) if s is None else range(rank - len(s), rank)
    dims = [dim % rank for dim in dims]
    asked = [-1] * len(dims) if s is None else list(s)
    sizes = [shape[dim] if n is None or n == -1 else n for dim, n in zip(dims, asked, strict=True)]
    if doubled and sizes and asked[-1] in (-1, None):
        sizes[-1] = 2 * (shape[dims[-1]] - 1)
    for dim, n in zip(dims, sizes, strict=True):
        if not isinstance(n, int) or not isinstance(shape[dim], int):
            raise Decline(f"dimension {dim} has a symbolic size; only a transform of constant length is a matrix")
    return sizes, dims


def window_matrix(n: int, onesided: bool, scale: float) -> Any:
    """What a frame is multiplied by in ``stft``: cosines, then minus the sines."""
    return _half_matrix(n, n, scale) if onesided else np.vstack(_frame(n, scale))


def inverse_window_matrix(n: int, given: int, scale: float) -> Any:
    """What the ``given`` values of a spectrum are multiplied by in ``istft``: ``[n, 2 * given]``."""
    return _inverse_matrix(n, given, scale) if given != n else np.hstack(_frame(n, scale))


def _frame(n: int, scale: float) -> tuple[Any, Any]:
    cos, sin = _waves(n, np.arange(n), np.arange(n), scale)
    return cos, 0.0 - sin


def _real(x: Operand) -> Tensor:
    assert isinstance(x, Tensor)
    return x


def _scale(norm: str | None, n: int, sign: int) -> float:
    chosen = NORMS[norm]
    if chosen == ORTHO:
        return 1 / math.sqrt(n)
    return 1 / n if (chosen == FORWARD) == (sign < 0) else 1.0


def _fitted(x: Tensor, n: int, pad: bool = True) -> Tensor:
    """The signal cut to ``n`` values, or with zeros behind it."""
    if x.shape[-1] > n:
        return x[..., :n]
    return F.pad(x, (0, n - x.shape[-1])) if pad and x.shape[-1] < n else x


def _split(n: int) -> int:
    """The divisor of ``n`` next to its root, from below; 1 for a prime."""
    return next(p for p in range(math.isqrt(n), 0, -1) if n % p == 0)


def _waves(n: int, k: Any, j: Any, scale: float) -> tuple[Any, Any]:
    """``cos`` and ``sin`` of ``2 pi j k / n``, ``[k, j]``, with exact zeros."""
    angles = np.outer(k, j) % n * (2 * math.pi / n)
    return scale * _snapped(np.cos(angles)), scale * _snapped(np.sin(angles))


def _snapped(values: Any) -> Any:
    """Values without the rounding noise at quarter turns, and without negative zeros."""
    return np.where(np.abs(values) < 1e-14, 0.0, values)


def _half_matrix(n: int, given: int, scale: float) -> Any:
    cos, sin = _waves(n, np.arange(n // 2 + 1), np.arange(given), scale)
    return np.vstack([cos, 0.0 - sin])


def _inverse_matrix(n: int, given: int, scale: float) -> Any:
    """Values between the first and the middle one count twice, for their conjugates too."""
    cos, sin = _waves(n, np.arange(n), np.arange(given), scale)
    weight = np.full(given, 2.0)
    weight[0] = 1.0
    if n % 2 == 0 and given > n // 2:
        weight[n // 2] = 1.0
    return np.hstack([cos * weight, 0.0 - sin * weight])
