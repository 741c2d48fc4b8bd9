"""Nearest neighbours, as elements at constant positions.

**What it rewrites.** ``interpolate`` in the modes nearest and nearest-exact, of signals, images and volumes, up and
down, by a size or a scale.

**The identity.** Each output copies one input, dimension by dimension, and with constant sizes the positions are
constants: ``floor(i * scale)``, or ``floor((i + 0.5) * scale)`` for nearest-exact, computed in float32 as PyTorch's
kernels do. A whole factor is a repetition or a slice with a step; the rest is ``index_select`` with an int32 index, or
slices side by side where the backend has no gather.

**Why the backend needs it.** TOSA's RESIZE serves the mode nearest of images only, and on Ethos-U55 only at 2, 4 and
8 times; the rest is decomposed to int64 index arithmetic.

**What it leaves alone.** Symbolic sizes. Of nearest-exact the few pairs of sizes, such as 4 to 166, where an output
lies so close to the middle between two inputs that PyTorch's own kernels round differently.
"""

import numpy as np
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.resampling._positions import take
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes every form of nearest and nearest-exact; ExecuTorch 1.5.1 takes nearest of images"

_MOST_PARTS = 128
_NEAREST = (aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec)
_EXACT = (
    aten._upsample_nearest_exact1d.vec,
    aten._upsample_nearest_exact2d.vec,
    aten._upsample_nearest_exact3d.vec,
)


@rewrite(*_NEAREST)
def nearest(input: Tensor, output_size: list[int] | None, scale_factors: list[float] | None) -> Tensor:
    """By repetition, slice or ``index_select``."""
    return _resized(input, output_size, scale_factors, 0.0, True)


@rewrite(*_NEAREST, cost=3)
def nearest_by_slices(input: Tensor, output_size: list[int] | None, scale_factors: list[float] | None) -> Tensor:
    """By repetitions and slices."""
    return _resized(input, output_size, scale_factors, 0.0, False)


@rewrite(*_EXACT)
def nearest_exact(input: Tensor, output_size: list[int] | None, scale_factors: list[float] | None) -> Tensor:
    """By repetition, slice or ``index_select``."""
    return _resized(input, output_size, scale_factors, 0.5, True)


@rewrite(*_EXACT, cost=3)
def nearest_exact_by_slices(input: Tensor, output_size: list[int] | None, scale_factors: list[float] | None) -> Tensor:
    """By repetitions and slices."""
    return _resized(input, output_size, scale_factors, 0.5, False)


def _resized(
    x: Tensor, output_size: list[int] | None, scale_factors: list[float] | None, offset: float, gather: bool
) -> Tensor:
    y = x
    for dim, (size, out, factor) in enumerate(grid(x, output_size, scale_factors), start=2):
        positions = positions_of(size, out, factor, offset)
        if not gather and out > _MOST_PARTS:
            raise Decline(f"dimension {dim} has {out} outputs; at most {_MOST_PARTS} are put together from slices")
        y = take(y, dim, positions, gather)
    return y.clone() if y is x else y.contiguous()


def grid(
    x: Tensor, output_size: list[int] | None, scale_factors: list[float] | None
) -> list[tuple[int, int, float | None]]:
    """Input size, output size and the factor that was given, of each spatial dimension."""
    sizes = list(x.shape[2:])
    if not all(isinstance(size, int) for size in [*sizes, *(output_size or [])]):
        raise Decline("a size is symbolic; export with constant ones")
    if output_size is not None:
        return [(size, out, None) for size, out in zip(sizes, output_size, strict=True)]
    assert scale_factors is not None
    return [(size, int(size * factor), factor) for size, factor in zip(sizes, scale_factors, strict=True)]


def positions_of(size: int, out: int, factor: float | None, offset: float) -> list[int]:
    """Where each output is taken from. The kernels have a float32 scale, and round the product to float32."""
    scale = float(np.float32(1.0 / factor) if factor is not None and factor > 0 else np.float32(size) / np.float32(out))
    positions = [min(int(np.float32((i + offset) * scale)), size - 1) for i in range(out)]
    if offset:
        centres = [max(np.float32((i + offset) * scale - offset), np.float32(0)) for i in range(out)]
        if positions != [min(int(centre + np.float32(offset)), size - 1) for centre in centres]:
            raise Decline(f"PyTorch's kernels differ about the nearest positions from {size} to {out}")
    return positions
