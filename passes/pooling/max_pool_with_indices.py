"""Adaptive maximum pooling, and where each maximum is.

**What it rewrites.** ``adaptive_max_pool1d``, ``adaptive_max_pool2d`` and ``adaptive_max_pool3d``, and
``max_pool2d_with_indices`` and ``max_pool3d_with_indices`` where the indices are read.

**The identity.** With constant sizes the windows are constants. The values are maxima of slices, dimension by
dimension, or the pooling without indices. For the indices the positions of a window are visited in PyTorch's order,
and a later one takes over where its value is larger or NaN: the first of equals wins, and the last NaN. Shorter
windows repeat their last position, which changes neither.

**Why the backend needs it.** TOSA's MAX_POOL2D gives no indices, and all its windows have one size. XNNPACK pools
windows of one size, and takes no maximum of a dimension otherwise.

**What it leaves alone.** Symbolic sizes; windows that see padding only; dtypes other than float32; more than 125
positions in a window, or 2**24 elements in a plane, whose numbers float32 does not hold.
"""

import itertools
import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.resampling._positions import take
from lowerfix.passes.shape._views import of_rank
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes adaptive maximum pooling and the indices of maxima; ExecuTorch 1.5.1 takes neither"

_MOST_POSITIONS = 125
_LARGEST_EXACT = 1 << 24

Windows = list[list[int]]
"""For each output the positions that it reads along one dimension."""


@rewrite(aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(x: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    """Dimension by dimension."""
    sizes = _sizes(x, len(output_size))
    windows = [
        [list(range(i * size // out, -(-(i + 1) * size // out))) for i in range(out)]
        for size, out in zip(sizes, output_size, strict=True)
    ]
    y = x
    for number, (along, size) in enumerate(zip(windows, sizes, strict=True)):
        dim = x.dim() - len(sizes) + number
        if len(along) == 1:
            y = torch.amax(y, dim, keepdim=True)
        elif along != [[position] for position in range(size)]:
            parts = [aten.slice.Tensor(y, dim, window[0], window[-1] + 1) for window in along]
            y = torch.cat([torch.amax(part, dim, keepdim=True) for part in parts], dim)
    return y.clone() if y is x else y, _indices(x, windows)


@rewrite(aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default, cost=2)
def adaptive_max_pool_of_images(x: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    """Dimension by dimension, each as the pooling of an image."""
    sizes = _sizes(x, len(output_size))
    windows = [
        [list(range(i * size // out, -(-(i + 1) * size // out))) for i in range(out)]
        for size, out in zip(sizes, output_size, strict=True)
    ]
    y = x
    for number, (size, out) in enumerate(zip(sizes, output_size, strict=True)):
        before, after = y.shape[: y.dim() - len(sizes) + number], y.shape[y.dim() - len(sizes) + number + 1 :]
        image = y.reshape(1, math.prod(before), size, math.prod(after))
        if size % out == 0:
            image = aten.max_pool2d.default(image, [size // out, 1])
        else:
            parts = [aten.slice.Tensor(image, 2, along[0], along[-1] + 1) for along in windows[number]]
            image = torch.cat([aten.max_pool2d.default(part, [part.shape[2], 1]) for part in parts], 2)
        y = image.reshape([*before, out, *after])
    return y, _indices(x, windows)


@rewrite(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default)
def max_pool_with_indices(
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] = [0],  # noqa: B006
    dilation: list[int] = [1],  # noqa: B006
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """The pooling as it is, and the indices."""
    rank = len(kernel_size) if len(kernel_size) > 1 else x.dim() - 2
    kernel, pads, spreads = (of_rank(v, rank) for v in (kernel_size, padding, dilation))
    steps = of_rank(stride, rank) if stride else kernel
    sizes = _sizes(x, rank)
    pool = aten.max_pool2d.default if rank == 2 else aten.max_pool3d.default
    values: Tensor = pool(x, kernel, steps, pads, spreads, ceil_mode)
    windows = [
        [
            [at for at in range(i * s - p, i * s - p + (k - 1) * d + 1, d) if 0 <= at < size]
            for i in range(values.shape[values.dim() - rank + number])
        ]
        for number, (size, k, s, p, d) in enumerate(zip(sizes, kernel, steps, pads, spreads, strict=True))
    ]
    return values, _indices(x, windows)


def _sizes(x: Tensor, rank: int) -> list[int]:
    sizes = list(x.shape[-rank:])
    if x.dtype != torch.float32:
        raise Decline(f"it is for float32, not for {x.dtype}")
    if not all(isinstance(size, int) for size in sizes):
        raise Decline("a size is symbolic; export with constant ones")
    if math.prod(sizes) > _LARGEST_EXACT:
        raise Decline(f"float32 does not number {math.prod(sizes)} elements")
    return sizes


def _indices(x: Tensor, windows: list[Windows]) -> Tensor:
    """The position of each maximum in its plane, numbered in float32, which every profile of TOSA selects."""
    rank = len(windows)
    if not all(window for along in windows for window in along):
        raise Decline("a window sees padding only, of which there is no index")
    tables = [
        [[window[min(tap, len(window) - 1)] for window in along] for tap in range(max(map(len, along)))]
        for along in windows
    ]
    count = math.prod(map(len, tables))
    if count > _MOST_POSITIONS:
        raise Decline(f"a window has {count} positions; at most {_MOST_POSITIONS} are compared")
    largest = index = None
    for chosen in itertools.product(*tables):
        value, number = x, torch.zeros([1] * rank)
        for position, taken in enumerate(chosen):
            value = take(value, x.dim() - rank + position, taken)
            along = torch.tensor(taken, dtype=torch.float32).reshape(-1, *[1] * (rank - position - 1))
            number = number * x.shape[x.dim() - rank + position] + along
        if largest is None or index is None:
            largest, index = value, number.expand(value.shape)
            continue
        later = (value > largest) | (value != value)
        largest, index = torch.where(later, value, largest), torch.where(later, number, index)
    assert index is not None
    return index.to(torch.int32).to(torch.int64)
