"""Fourier transforms on pairs of real tensors, in all their spellings."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.complex import _fourier
from lowerfix.passes.complex._fourier import BACKWARD, FORWARD, ORTHO, SWAPPED
from lowerfix.passes.complex._ops import SERVED, On, Served, serves
from lowerfix.passes.complex._pair import Operand, Pair

aten = torch.ops.aten

FOURIER = {
    *(getattr(aten, f"fft_{name}{rank}").default for name in ("hfft", "irfft") for rank in ("", "2", "n")),
    aten._fft_c2r.default,
    aten.stft.default,
}
"""Those that are served where their tensors are all real, too."""


_RANKS = ("", "2", "n")

TRANSFORMS = {
    *(getattr(aten, f"fft_{name}{rank}").default for name in ("fft", "ifft", "rfft", "ihfft") for rank in _RANKS),
    aten._fft_r2c.default,
    aten._fft_c2c.default,
    aten.stft.default,
}
"""Those that return a spectrum."""


# Fourier transforms ---------------------------------------------------------------------------------------------------


def _shape(x: Operand) -> list[int]:
    assert isinstance(x, (Pair, Tensor))
    return list((x.real if isinstance(x, Pair) else x).shape)


def _only_real(x: Operand) -> Tensor:
    assert isinstance(x, Tensor)
    return x


def _conjugate(z: Operand) -> Operand:
    return Pair(z.real, -z.imag) if isinstance(z, Pair) else z


def _swapped(norm: str | None) -> str:
    return SWAPPED[_fourier.NORMS[norm]]


def _several(s: int | None, dim: int) -> tuple[list[int] | None, list[int]]:
    return None if s is None else [s], [dim]


@serves(aten.fft_fftn.default)
def _fftn(
    on: On, x: Operand, s: Any = None, dim: Any = None, norm: str | None = None,
    sign: int = -1,
) -> Pair:  # fmt: skip
    return on.fourier.complex_to_complex(x, *_fourier.lengths(_shape(x), s, dim), norm, sign, on.dtype)


@serves(aten.fft_ifftn.default)
def _ifftn(on: On, x: Operand, s: Any = None, dim: Any = None, norm: str | None = None) -> Pair:
    return _fftn(on, x, s, dim, norm, 1)


@serves(aten.fft_rfftn.default)
def _rfftn(on: On, x: Operand, s: Any = None, dim: Any = None, norm: str | None = None) -> Pair:
    sizes, dims = _fourier.lengths(_shape(x), s, dim)
    return on.fourier.real_to_complex(_only_real(x), sizes, dims, norm, on.dtype)


@serves(aten.fft_irfftn.default)
def _irfftn(on: On, x: Operand, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    sizes, dims = _fourier.lengths(_shape(x), s, dim, doubled=True)
    return on.fourier.complex_to_real(x, sizes, dims, norm, on.dtype)


@serves(aten.fft_hfftn.default)
def _hfftn(on: On, x: Operand, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    return _irfftn(on, _conjugate(x), s, dim, _swapped(norm))


@serves(aten.fft_ihfftn.default)
def _ihfftn(on: On, x: Operand, s: Any = None, dim: Any = None, norm: str | None = None) -> Pair:
    z = _rfftn(on, x, s, dim, _swapped(norm))
    return Pair(z.real, -z.imag)


def _of_one_dimension(general: Served) -> Served:
    def served(on: On, x: Operand, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        return general(on, x, *_several(n, dim), norm)

    return served


def _of_two_dimensions(general: Served) -> Served:
    def served(on: On, x: Operand, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
        return general(on, x, s, dim, norm)

    return served


for _name, _general in {
    "fft": _fftn, "ifft": _ifftn, "rfft": _rfftn, "irfft": _irfftn, "hfft": _hfftn, "ihfft": _ihfftn
}.items():  # fmt: skip
    SERVED[getattr(aten, f"fft_{_name}").default] = _of_one_dimension(_general)
    SERVED[getattr(aten, f"fft_{_name}2").default] = _of_two_dimensions(_general)


@serves(aten._fft_c2c.default)
def _fft_c2c(on: On, x: Operand, dim: Sequence[int], normalization: int, forward: bool) -> Pair:
    return _fftn(on, x, None, dim, _norm(normalization, forward), -1 if forward else 1)


@serves(aten._fft_r2c.default)
def _fft_r2c(on: On, x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Pair:
    norm = _norm(normalization, True)
    return _rfftn(on, x, None, dim, norm) if onesided else _fftn(on, x, None, dim, norm)


@serves(aten._fft_c2r.default)
def _fft_c2r(on: On, x: Operand, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    sizes = [_shape(x)[d] for d in dim[:-1]]
    return _irfftn(on, x, [*sizes, last_dim_size], dim, _norm(normalization, False))


def _norm(normalization: int, forward: bool) -> str:
    """PyTorch's number for dividing by nothing, by the root of the length, or by the length."""
    return [BACKWARD if forward else FORWARD, ORTHO, FORWARD if forward else BACKWARD][normalization]


# Short-time Fourier transforms ----------------------------------------------------------------------------------------


@serves(aten.stft.default)
def _stft(
    on: On, x: Operand, n_fft: int, hop_length: int | None = None,
    win_length: int | None = None, window: Tensor | None = None, normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    if align_to_window:
        raise Decline("align_to_window=True is not served")
    if isinstance(window, Pair):
        raise Decline("its window is complex")
    if isinstance(x, Pair):
        one, other = (_stft(on, part, n_fft, hop_length, win_length, window, normalized, False, True) for part in x)
        result = Pair(one.real - other.imag, one.imag + other.real)
        return result if return_complex is not False else torch.stack(list(result), -1)
    assert isinstance(x, Tensor)
    onesided, hop = onesided is not False, hop_length or n_fft // 4
    scale = n_fft**-0.5 if normalized else 1.0
    count = n_fft // 2 + 1 if onesided else n_fft
    signal = x.to(on.dtype) if x.dim() == 2 else x.to(on.dtype).unsqueeze(0)
    shape = _fitted_window(window, n_fft, win_length, on.dtype)
    if 2 * count * n_fft > _fourier.COMFORTABLE:
        frames = _frames(signal, n_fft, hop)
        frames = frames if shape is None else frames * shape
        z = (
            on.fourier.real_last(frames, n_fft, scale)
            if onesided
            else on.fourier.complex_last(frames, None, n_fft, -1, scale)
        )
        z = Pair(z.real.transpose(-1, -2), z.imag.transpose(-1, -2))
    else:
        matrix = on.fourier.table(
            f"stft {n_fft} {onesided} {scale}", lambda: _fourier.window_matrix(n_fft, onesided, scale), on.dtype
        )
        kernel = (matrix if shape is None else matrix * shape).unsqueeze(1)
        both = F.conv1d(signal.unsqueeze(1), kernel, stride=hop)
        z = Pair(both[:, :count], both[:, count:])
    z = z if x.dim() == 2 else Pair(z.real.squeeze(0), z.imag.squeeze(0))
    return z if return_complex is not False else torch.stack(list(z), -1)


@serves(aten.istft.default)
def _istft(
    on: On, z: Pair, n_fft: int, hop_length: int | None = None,
    win_length: int | None = None, window: Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    if return_complex or isinstance(window, Pair):
        raise Decline("its result or its window is complex")
    hop, frames = hop_length or n_fft // 4, z.real.shape[-1]
    scale = (n_fft**0.5 if normalized else 1.0) / n_fft
    shape = _fitted_window(window, n_fft, win_length, on.dtype)
    total = _added_up(on, z, n_fft, hop, scale, shape)
    ones = torch.ones(n_fft, dtype=on.dtype) if shape is None else shape
    envelope = _overlapped((ones * ones).expand(frames, n_fft), hop)
    start = n_fft // 2 if center else 0
    whole = (frames - 1) * hop + n_fft
    end = start + length if length is not None else whole - (n_fft // 2 if center else 0)
    cut = min(end, whole)
    result = total[..., start:cut] / envelope[start:cut]
    return F.pad(result, (0, end - cut)) if end > cut else result


def _added_up(on: On, z: Pair, n_fft: int, hop: int, scale: float, window: Tensor | None) -> Tensor:
    """The frames of a signal, each under its window, added up where they overlap."""
    given = z.real.shape[-2]
    if 2 * given * n_fft <= _fourier.COMFORTABLE:
        matrix = on.fourier.table(
            f"istft {n_fft} {given} {scale}", lambda: _fourier.inverse_window_matrix(n_fft, given, scale).T, on.dtype
        )
        kernel = (matrix if window is None else matrix * window).unsqueeze(1)
        both = torch.cat([z.real, z.imag], -2)
        total = F.conv_transpose1d(both if both.dim() == 3 else both.unsqueeze(0), kernel, stride=hop).squeeze(1)
        return total if both.dim() == 3 else total.squeeze(0)
    z = Pair(z.real.transpose(-1, -2), z.imag.transpose(-1, -2))
    if given == n_fft:
        frames = on.fourier.complex_last(z.real, z.imag, n_fft, 1, scale).real
    else:
        frames = on.fourier.to_real_last(z, n_fft, scale)
    return _overlapped(frames if window is None else frames * window, hop)


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """``[..., frames, size]`` added up, each a step further than the one before, in blocks of the length of a step."""
    count, size = frames.shape[-2:]
    each = -(-size // hop)
    blocks = F.pad(frames, (0, each * hop - size)) if size % hop else frames
    blocks = blocks.unflatten(-1, (each, hop))
    shifted = [F.pad(blocks[..., i, :], (0, 0, i, each - 1 - i)) for i in range(each)]
    return sum(shifted[1:], shifted[0]).flatten(-2)[..., : (count - 1) * hop + size]


def _fitted_window(window: Tensor | None, n_fft: int, win_length: int | None, dtype: torch.dtype) -> Tensor | None:
    """The window with zeros on both sides up to the length of a frame; None for one of all ones."""
    size = win_length or n_fft
    if window is None:
        if size == n_fft:
            return None
        window = torch.ones(size, dtype=dtype)
    left = (n_fft - size) // 2
    return F.pad(window.to(dtype), (left, n_fft - size - left)) if size < n_fft else window.to(dtype)


def _frames(x: Tensor, size: int, hop: int) -> Tensor:
    """``x.unfold(-1, size, hop)``, in slices where the step divides the size."""
    if size % hop:
        return x.unfold(-1, size, hop)
    count, each = (x.shape[-1] - size) // hop + 1, size // hop
    blocks = x[..., : (count + each - 1) * hop].unflatten(-1, (count + each - 1, hop))
    return torch.cat([blocks[..., i : i + count, :] for i in range(each)], -1)
