"""Linear and cubic interpolation, as weighted elements at constant positions.

**What it rewrites.** ``interpolate`` in the modes linear, bilinear, trilinear and bicubic, with and without
``align_corners``, and bilinear and bicubic with ``antialias``.

**The identity.** With constant sizes an output is a sum of inputs at constant positions with constant weights, one
dimension after the other: two for linear, four for cubic, and for antialias as many as the filter spans, which
PyTorch's kernels compute in float32 as here. Positions beyond the border are those of the border, as in PyTorch.
Where a filter is cut by the border, its last weight is split rather than filled up with zeros, so no zero meets an
infinity that PyTorch's does not meet.

**Why the backend needs it.** TOSA's RESIZE serves bilinear images only, and Ethos-U55 has none; the rest is
decomposed to int64 index arithmetic.

**What it leaves alone.** Symbolic sizes, and dtypes other than float32 and halves. Antialiased images that become one
column wide, where PyTorch's own kernel repeats one number.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.resampling._positions import take
from lowerfix.passes.resampling.nearest import grid
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes every form of interpolate; ExecuTorch 1.5.1 takes bilinear of images, not on Ethos-U55"

_MOST_PARTS = 128
_LINEAR = (aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec)
_CUBIC = (aten.upsample_bicubic2d.vec,)
_SMOOTH_LINEAR = (aten._upsample_bilinear2d_aa.vec,)
_SMOOTH_CUBIC = (aten._upsample_bicubic2d_aa.vec,)

Table = list[tuple[list[int], list[float]]]
"""For each tap the positions and the weights, one for each output."""
Sizes = list[int] | None
Factors = list[float] | None


@rewrite(*_LINEAR)
def linear(input: Tensor, output_size: Sizes, align_corners: bool, scale_factors: Factors) -> Tensor:
    """Two taps."""
    return _weighted(input, output_size, align_corners, scale_factors, _linear, True)


@rewrite(*_LINEAR, cost=3)
def linear_by_slices(input: Tensor, output_size: Sizes, align_corners: bool, scale_factors: Factors) -> Tensor:
    """Two taps, without a gather."""
    return _weighted(input, output_size, align_corners, scale_factors, _linear, False)


@rewrite(*_CUBIC)
def cubic(input: Tensor, output_size: Sizes, align_corners: bool, scale_factors: Factors) -> Tensor:
    """Four taps."""
    return _weighted(input, output_size, align_corners, scale_factors, _cubic, True)


@rewrite(*_CUBIC, cost=3)
def cubic_by_slices(input: Tensor, output_size: Sizes, align_corners: bool, scale_factors: Factors) -> Tensor:
    """Four taps, without a gather."""
    return _weighted(input, output_size, align_corners, scale_factors, _cubic, False)


@rewrite(*_SMOOTH_LINEAR)
def smooth_linear(input: Tensor, output_size: Sizes, align_corners: bool, scale_factors: Factors) -> Tensor:
    """As many taps as the triangle spans."""
    return _weighted(input, output_size, align_corners, scale_factors, _smooth_linear, True)


@rewrite(*_SMOOTH_CUBIC)
def smooth_cubic(input: Tensor, output_size: Sizes, align_corners: bool, scale_factors: Factors) -> Tensor:
    """As many taps as the cubic filter spans."""
    return _weighted(input, output_size, align_corners, scale_factors, _smooth_cubic, True)


@rewrite(*_SMOOTH_LINEAR, cost=3)
def smooth_linear_by_slices(input: Tensor, output_size: Sizes, align_corners: bool, scale_factors: Factors) -> Tensor:
    """The same without a gather."""
    return _weighted(input, output_size, align_corners, scale_factors, _smooth_linear, False)


@rewrite(*_SMOOTH_CUBIC, cost=3)
def smooth_cubic_by_slices(input: Tensor, output_size: Sizes, align_corners: bool, scale_factors: Factors) -> Tensor:
    """The same without a gather."""
    return _weighted(input, output_size, align_corners, scale_factors, _smooth_cubic, False)


@rewrite(aten._upsample_bilinear2d_aa.default)
def smooth_linear_of_size(
    self: Tensor,
    output_size: list[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    """As it stands in a program that was decomposed already."""
    if scales_h is not None or scales_w is not None:
        raise Decline("it has scales of its own besides the size")
    return aten._upsample_bilinear2d_aa.vec(self, output_size, align_corners, None)  # type: ignore[no-any-return]


def _weighted(
    x: Tensor,
    output_size: Sizes,
    align_corners: bool,
    scale_factors: Factors,
    table_of: Callable[[int, int, float, bool], Table],
    gather: bool,
) -> Tensor:
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise Decline(f"positions are computed for float32, not for {x.dtype}")
    sizes = grid(x, output_size, scale_factors)
    y = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    smooth = table_of in (_smooth_linear, _smooth_cubic)
    if smooth and sizes[1][1] == 1 and sizes[0][1] > 1:
        raise Decline("PyTorch's own kernel repeats one number over the height where the width becomes 1")
    for number, (size, out, factor) in reversed(list(enumerate(sizes))):
        if smooth and size == out:
            continue
        if not gather and out > _MOST_PARTS:
            raise Decline(f"{out} outputs; at most {_MOST_PARTS} are put together from slices")
        scale = _scale(size, out, factor, align_corners)
        y = _sum(y, number + 2, table_of(size, out, scale, align_corners), gather)
    y = y if y.dtype == x.dtype else y.to(x.dtype)
    return y.clone() if y is x else y


def _sum(x: Tensor, dim: int, table: Table, gather: bool) -> Tensor:
    total: Tensor | None = None
    for positions, weights in table:
        column = torch.tensor(weights, dtype=x.dtype).reshape(-1, *[1] * (x.dim() - dim - 1))
        part = take(x, dim, positions, gather) * column
        total = part if total is None else total + part
    assert total is not None
    return total


def _scale(size: int, out: int, factor: float | None, align_corners: bool) -> float:
    """Inputs for each output, as the kernels round it."""
    if align_corners:
        return float(np.float32(size - 1) / np.float32(out - 1)) if out > 1 else 0.0
    return float(np.float32(1.0 / factor)) if factor else float(np.float32(size) / np.float32(out))


def _centres(out: int, scale: float, align_corners: bool) -> list[float]:
    """Where the outputs lie among the inputs; rounded to float32 once, as by a fused multiply and add."""
    return [float(np.float32(scale * i if align_corners else scale * (i + 0.5) - 0.5)) for i in range(out)]


def _linear(size: int, out: int, scale: float, align_corners: bool) -> Table:
    if size == out:  # the kernels read the same element twice then
        same = list(range(size))
        return [(same, [1.0] * size), (same, [0.0] * size)]
    centres = [max(centre, 0.0) for centre in _centres(out, scale, align_corners)]
    left = [min(int(centre), size - 1) for centre in centres]
    share = [min(max(centre - position, 0.0), 1.0) for centre, position in zip(centres, left, strict=True)]
    right = [min(position + 1, size - 1) for position in left]
    return [(left, [1.0 - s for s in share]), (right, share)]


def _cubic(size: int, out: int, scale: float, align_corners: bool) -> Table:
    centres = _centres(out, scale, align_corners)
    first = [math.floor(centre) for centre in centres]
    return [
        (
            [min(max(position + tap, 0), size - 1) for position in first],
            [_keys(abs(centre - position - tap), -0.75) for centre, position in zip(centres, first, strict=True)],
        )
        for tap in (-1, 0, 1, 2)
    ]


def _keys(distance: float, a: float) -> float:
    """The cubic convolution kernel of Keys (1981)."""
    if distance <= 1:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a if distance < 2 else 0.0


def _smooth_linear(size: int, out: int, scale: float, align_corners: bool) -> Table:
    return _smooth(size, out, scale, 1.0, lambda distance: max(1.0 - distance, 0.0))


def _smooth_cubic(size: int, out: int, scale: float, align_corners: bool) -> Table:
    return _smooth(size, out, scale, 2.0, lambda distance: _keys(distance, -0.5))


def _smooth(size: int, out: int, scale: float, reach: float, kernel: Callable[[float], float]) -> Table:
    """A filter as wide as the step between outputs, where that is above 1; the weights sum to 1."""
    stretch = max(scale, 1.0)
    taps = []
    for i in range(out):
        centre = float(np.float32(scale * (i + 0.5)))
        first = max(int(centre - reach * stretch + 0.5), 0)
        last = min(int(centre + reach * stretch + 0.5), size)
        weights = [kernel(abs(float(np.float32(j - centre)) + 0.5) / stretch) for j in range(first, last)]
        total = sum(weights)
        taps.append((first, [weight / total for weight in weights]))
    most = max(len(weights) for _, weights in taps)
    rows = []
    for first, weights in taps:
        missing = most - len(weights)
        positions = [first + j for j in range(len(weights))] + [first + len(weights) - 1] * missing
        rows.append((positions, weights[:-1] + [weights[-1] / (missing + 1)] * (missing + 1)))
    return [([row[0][tap] for row in rows], [row[1][tap] for row in rows]) for tap in range(most)]
