"""grid_sample: elements at computed positions, each weighted.

**What it rewrites.** ``grid_sample`` of images and volumes in float32: bilinear, nearest and bicubic, padded by zeros,
the border or reflection, with and without ``align_corners``.

**The identity.** The positions are computed in the order in which PyTorch's kernels do it. Each of the 1, 4, 8 or 16
elements around one is selected by an int32 number from the image as rows of channels, and counts zero where it lies
outside.

**Why the backend needs it.** TOSA has no such operator, and Arm's partitioner refuses it.

**What it leaves alone.** Symbolic sizes; other dtypes; int8, which is too coarse for positions. A sum that overflows
may do so in another order, and what is reflected from beyond 2**24 has lost its place by rounding.
"""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._float32 import constant_like
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes grid_sampler_2d and grid_sampler_3d; ExecuTorch 1.5.1 takes neither"

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
LARGEST = 1 << 24
"""Up to here float32 holds every position."""

Taps = list[tuple[Tensor, Tensor | None]]
"""The positions along one dimension, whole numbers as floats, with their weights."""


@rewrite(aten.grid_sampler.default, aten.grid_sampler_2d.default, aten.grid_sampler_3d.default, float_only=True)
def grid_sample(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """``input``: [N, C, (D,) H, W]; ``grid``: [N, (d,) h, w, dimensions], from -1 to 1, the last dimension first."""
    if input.dtype != torch.float32 or grid.dtype != torch.float32:
        raise Decline(f"positions are computed for float32, not for {input.dtype} at {grid.dtype}")
    if not (constant_sizes(input) and constant_sizes(grid)):
        raise Decline("a size is symbolic")
    batch, channels, *sizes = input.shape
    if input.numel() == 0 or grid.numel() == 0:
        raise Decline("it is of no element")
    if batch * math.prod(sizes) > LARGEST:
        raise Decline(f"the image has more than {LARGEST} places, which float32 may not number")
    rows = torch.movedim(input, 1, -1).reshape(-1, channels)
    first = torch.arange(batch, dtype=torch.float32).reshape(-1, 1) * math.prod(sizes)
    positions = grid.reshape(batch, -1, len(sizes))
    taps = []
    for dim, size in enumerate(sizes):
        x = positions[..., len(sizes) - 1 - dim]
        taps.append(_taps(x, size, interpolation_mode, padding_mode, align_corners, len(sizes)))
    total: Tensor | None = None
    for corner in itertools.product(*taps):
        part = _element(rows, first, corner, sizes)
        total = part if total is None else total + part
    assert total is not None
    return torch.movedim(total.reshape(batch, *grid.shape[1:-1], channels), -1, 1).contiguous()


def _taps(x: Tensor, size: int, mode: int, padding: int, align: bool, rank: int) -> Taps:
    """Which elements along one dimension are read, and what they weigh."""
    if rank == 2:
        x = (x + 1.0) * ((size - 1) / 2) if align else (x + 1.0) * (size / 2) - 0.5
    else:
        x = ((x + 1.0) / 2.0) * (size - 1) if align else ((x + 1.0) * size - 1.0) / 2.0
    padded: Callable[[Tensor], Tensor] = lambda position: _padded(position, size, padding, align, rank)  # noqa: E731
    if mode == BICUBIC:
        left = torch.floor(x)
        return [(padded(left + tap), weight) for tap, weight in zip((-1, 0, 1, 2), _cubic(x - left), strict=True)]
    x = padded(x)
    if mode == NEAREST:
        return [(torch.round(x), None)]
    left = torch.floor(x)
    share = x - left
    return [(left, 1.0 - share), (left + 1.0, share)]


def _padded(x: Tensor, size: int, padding: int, align: bool, rank: int) -> Tensor:
    if padding == ZEROS:
        return x
    if padding == REFLECTION:
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if span == 0:  # one element, and PyTorch reads it wherever the position is
            return torch.zeros_like(x)
        x = (x - low).abs()
        x = x - torch.floor(x / (2 * span)) * (2 * span)
        x = torch.minimum(x, 2 * span - x) + low
    missing = 0.0 if rank == 2 else size - 1.0  # PyTorch's kernels put NaN at the first element, or at the last
    return torch.where(x == x, torch.clamp(x, 0.0, size - 1.0), constant_like(x, missing))


def _cubic(t: Tensor) -> list[Tensor]:
    """R. Keys' cubic convolution with a = -0.75, at ``t``, ``t + 1``, ``1 - t`` and ``2 - t``."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


def _element(rows: Tensor, first: Tensor, corner: tuple[tuple[Tensor, Tensor | None], ...], sizes: list[int]) -> Tensor:
    """One of the elements around every position, weighted: [N * positions, C]."""
    number, inside, weight = first, None, None
    stride = math.prod(sizes)
    for (position, share), size in zip(corner, sizes, strict=True):
        within = torch.logical_and(position > -1.0, position < size)
        inside = within if inside is None else torch.logical_and(inside, within)
        stride //= size
        number = number + torch.where(within, position, constant_like(position, 0.0)) * stride
        weight = share if weight is None or share is None else weight * share
    assert inside is not None
    value = torch.index_select(rows, 0, number.to(torch.int32).reshape(-1))
    if weight is not None and len(sizes) == 3:  # the kernel for volumes skips what lies outside
        value = value * weight.reshape(-1, 1)
    value = torch.where(inside.reshape(-1, 1), value, constant_like(value, 0.0))
    if weight is not None and len(sizes) == 2:
        value = value * weight.reshape(-1, 1)
    return value
