"""Maximum pooling in one, two and three dimensions, from the pooling of images.

**What it rewrites.** ``max_pool1d``, ``max_pool2d`` and ``max_pool3d``, with any stride, padding, dilation and
``ceil_mode``, with or without a batch.

**The identity.** A maximum over a box is the maximum over one side of the maxima over the others, NaN and infinity
included, so a volume is pooled over height and width, channels and depth being one dimension, and then over the depth;
a signal is an image of height 1. Where a dilated window has a stride, every place is pooled and the stride is a slice.

**Why the backend needs it.** TOSA's MAX_POOL2D is for images and has no dilation, which Arm's partitioner takes with
stride 1 only; its quantizer knows ``max_pool2d`` alone.

**What it leaves alone.** What the backend takes as it is. Dilated windows with ``ceil_mode``.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
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
    image = x.unsqueeze(-2)
    return _pooled(image, [1, kernel_size[0]], [1, step], [0, padding[0]], [1, dilation[0]], ceil_mode).squeeze(-2)


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
    kernel, pads, spreads = (_of_rank(v, 2) for v in (kernel_size, padding, dilation))
    steps = _of_rank(stride, 2) if stride else kernel
    y = _pooled(x if x.dim() == 4 else x.unsqueeze(0), kernel, steps, pads, spreads, ceil_mode)
    return y if x.dim() == 4 else y.squeeze(0)


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
    kernel, pads, spreads = (_of_rank(v, 3) for v in (kernel_size, padding, dilation))
    steps = _of_rank(stride, 3) if stride else kernel
    *batch, channels, depth, height, width = x.shape
    images = x.reshape(-1, channels * depth, height, width)
    images = _pooled(images, kernel[1:], steps[1:], pads[1:], spreads[1:], ceil_mode)
    height, width = images.shape[2:]
    columns = images.reshape(-1, channels, depth, height * width)
    columns = _pooled(columns, [kernel[0], 1], [steps[0], 1], [pads[0], 0], [spreads[0], 1], ceil_mode)
    return columns.reshape(*batch, channels, columns.shape[2], height, width)


def _of_rank(values: list[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


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
