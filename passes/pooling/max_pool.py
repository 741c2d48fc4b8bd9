"""Maximum pooling in one, two and three dimensions, from the pooling of images.

**What it rewrites.** ``max_pool1d``, ``max_pool2d`` and ``max_pool3d``, with any stride, padding, dilation and
``ceil_mode``, with or without a batch.

**The identity.** A maximum over a box is the maximum over one side of the maxima over the others, NaN and infinity
included, so a volume is pooled over height and width, channels and depth being one dimension, and then over the depth;
a signal is an image of height 1. Where a dilated window has a stride, every place is pooled and the stride is a slice.

Where the stride is longer than the window, the places between the windows are cut out beforehand: the padded image is
viewed as blocks of a stride each, of which the first elements are kept.

**Why the backend needs it.** TOSA's MAX_POOL2D is for images and has no dilation, which Arm's partitioner takes with
stride 1 only; its quantizer knows ``max_pool2d`` alone. XNNPACK pools batches of images, with no stride longer than the
window.

**What it leaves alone.** What the backend takes as it is. Dilated windows with ``ceil_mode``.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes, inserted, of_rank, removed
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes max_pool1d, max_pool3d, and dilation with a stride; ExecuTorch 1.5.1 does not"


@rewrite(aten.max_pool1d.default)
def max_pool1d(
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] = [0],  # noqa: B006
    dilation: list[int] = [1],  # noqa: B006
    ceil_mode: bool = False,
) -> Tensor:
    """As an image of height 1."""
    step = (stride or kernel_size)[0]
    image = inserted(x, -2)
    image = image if x.dim() == 3 else inserted(image, 0)
    y = removed(_pooled(image, [1, kernel_size[0]], [1, step], [0, padding[0]], [1, dilation[0]], ceil_mode), -2)
    return y if x.dim() == 3 else removed(y, 0)


@rewrite(aten.max_pool2d.default)
def max_pool2d(
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] = [0, 0],  # noqa: B006
    dilation: list[int] = [1, 1],  # noqa: B006
    ceil_mode: bool = False,
) -> Tensor:
    """With a batch, and without dilation where there is a stride."""
    kernel, pads, spreads = (of_rank(v, 2) for v in (kernel_size, padding, dilation))
    steps = of_rank(stride, 2) if stride else kernel
    y = _pooled(x if x.dim() == 4 else inserted(x, 0), kernel, steps, pads, spreads, ceil_mode)
    return y if x.dim() == 4 else removed(y, 0)


@rewrite(aten.max_pool2d.default, cost=2)
def max_pool2d_with_gaps(
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] = [0, 0],  # noqa: B006
    dilation: list[int] = [1, 1],  # noqa: B006
    ceil_mode: bool = False,
) -> Tensor:
    """With what no window reads cut out."""
    kernel, pads, spreads = (of_rank(v, 2) for v in (kernel_size, padding, dilation))
    steps = of_rank(stride, 2) if stride else kernel
    if all(step <= size for step, size in zip(steps, kernel, strict=True)):
        raise Decline("there are no gaps between its windows")
    if not constant_sizes(x) or not x.is_floating_point() or any(spread != 1 for spread in spreads):
        raise Decline("it is dilated, or of integers, or has a symbolic size")
    image = x if x.dim() == 4 else inserted(x, 0)
    count = aten.max_pool2d.default(image, kernel, steps, pads, [1, 1], ceil_mode).shape[2:]
    amounts: list[int] = []
    for n in (0, 1):
        step = max(steps[n], kernel[n])
        amounts = [pads[n], count[n] * step - image.shape[2 + n] - pads[n], *amounts]
    lead = image.shape[0] * image.shape[1]
    y = image
    for n in (0, 1):
        before, after = amounts[2 - 2 * n : 4 - 2 * n]
        if before or after > 0:
            y = F.pad(y, [0, 0] * (1 - n) + [before, max(after, 0)], value=-math.inf)
        if steps[n] > kernel[n]:
            y = aten.slice.Tensor(y, 2 + n, 0, count[n] * steps[n])
            shape = list(y.shape)
            y = y.reshape([lead, *shape[2 : 2 + n], count[n], steps[n], *shape[3 + n :]])
            y = aten.slice.Tensor(y, 2 + n, 0, kernel[n])
            shape[2 + n] = count[n] * kernel[n]
            y = y.reshape(shape)
    close = [min(step, size) for step, size in zip(steps, kernel, strict=True)]
    y = aten.max_pool2d.default(y, kernel, close)
    y = aten.slice.Tensor(aten.slice.Tensor(y, 2, 0, count[0]), 3, 0, count[1])
    return y if x.dim() == 4 else removed(y, 0)


@rewrite(aten.max_pool3d.default)
def max_pool3d(
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] = [0, 0, 0],  # noqa: B006
    dilation: list[int] = [1, 1, 1],  # noqa: B006
    ceil_mode: bool = False,
) -> Tensor:
    """Over height and width, then over the depth."""
    kernel, pads, spreads = (of_rank(v, 3) for v in (kernel_size, padding, dilation))
    steps = of_rank(stride, 3) if stride else kernel
    *batch, channels, depth, height, width = x.shape
    images = x.reshape(-1, channels * depth, height, width)
    images = _pooled(images, kernel[1:], steps[1:], pads[1:], spreads[1:], ceil_mode)
    height, width = images.shape[2:]
    columns = images.reshape(-1, channels, depth, height * width)
    columns = _pooled(columns, [kernel[0], 1], [steps[0], 1], [pads[0], 0], [spreads[0], 1], ceil_mode)
    return columns.reshape(*batch, channels, columns.shape[2], height, width)


def _pooled(
    x: Tensor, kernel: list[int], steps: list[int], pads: list[int], spreads: list[int], ceil_mode: bool
) -> Tensor:
    """``max_pool2d``; dilated with stride 1 only."""
    if all(spread == 1 or size == 1 for spread, size in zip(spreads, kernel, strict=True)):
        pooled: Tensor = aten.max_pool2d.default(x, kernel, steps, pads, [1, 1], ceil_mode)
        return pooled
    if ceil_mode:  # the last window may begin beyond what stride 1 reaches
        raise Decline("it is dilated and rounds its size up")
    y: Tensor = aten.max_pool2d.default(x, kernel, [1, 1], pads, spreads, False)
    for dim, step in zip((-2, -1), steps, strict=True):
        if step > 1:
            y = aten.slice.Tensor(y, dim, 0, y.shape[dim], step)
    return y
