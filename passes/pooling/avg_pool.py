"""Average pooling of signals and volumes, from the pooling of images.

**What it rewrites.** ``avg_pool1d`` and ``avg_pool3d`` in every form, ``adaptive_avg_pool1d`` and
``adaptive_avg_pool3d``, and ``avg_pool2d`` with ``ceil_mode`` and a ``divisor_override``.

**The identity.** The mean over a box is the mean over one side of the means over the others; padding, ``ceil_mode``
and ``count_include_pad`` work dimension by dimension, and so does the number of elements that they divide by. A volume
is averaged over height and width, channels and depth being one dimension, and then over the depth; a signal is an
image of height 1. With ``divisor_override`` all padding, that of ``ceil_mode`` too, is zeros put there beforehand, and
the means are made sums again before the division.

**Why the backend needs it.** TOSA's AVG_POOL2D is for images, and Arm's quantizer knows ``avg_pool2d`` and
``adaptive_avg_pool2d`` alone. A window of ``ceil_mode`` that juts out is divided by too little under a
``divisor_override``.

**What it leaves alone.** The rounding differs as that of any sum in another order; a sum that overflows may do so in
one order only.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes the average pooling of signals and volumes; ExecuTorch 1.5.1 takes that of images"


@rewrite(aten.avg_pool1d.default)
def avg_pool1d(
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] = [0],  # noqa: B006
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """As an image of height 1."""
    step = (stride or kernel_size)[0]
    image = x.unsqueeze(-2)
    y: Tensor = aten.avg_pool2d.default(
        image, [1, kernel_size[0]], [1, step], [0, padding[0]], ceil_mode, count_include_pad
    )
    return y.squeeze(-2)


@rewrite(aten.avg_pool3d.default)
def avg_pool3d(
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] = [0, 0, 0],  # noqa: B006
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Over height and width, then over the depth."""
    kernel, pads = _of_rank(kernel_size, 3), _of_rank(padding, 3)
    steps = _of_rank(stride, 3) if stride else kernel
    if divisor_override is not None:
        x, pads, ceil_mode = _surrounded(x, kernel, steps, pads, ceil_mode), [0, 0, 0], False
    options = (ceil_mode, count_include_pad)
    *batch, channels, depth, height, width = x.shape
    images: Tensor = x.reshape(-1, channels * depth, height, width)
    if kernel[1:] != [1, 1] or steps[1:] != [1, 1]:
        images = aten.avg_pool2d.default(images, kernel[1:], steps[1:], pads[1:], *options)
        if divisor_override is not None:
            images = images * (kernel[1] * kernel[2])
    height, width = images.shape[2:]
    columns: Tensor = images.reshape(-1, channels, depth, height * width)
    columns = aten.avg_pool2d.default(columns, [kernel[0], 1], [steps[0], 1], [pads[0], 0], *options)
    if divisor_override is not None:
        columns = columns * (kernel[0] / divisor_override)
    y: Tensor = columns.reshape(*batch, channels, columns.shape[2], height, width)
    return y


@rewrite(aten.avg_pool2d.default, wrong="it divides the windows that jut out by too little")
def avg_pool2d(
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] = [0, 0],  # noqa: B006
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """With the padding put there beforehand."""
    if not ceil_mode or divisor_override is None:
        raise Decline("it has no divisor_override, or no ceil_mode")
    kernel = _of_rank(kernel_size, 2)
    steps = _of_rank(stride, 2) if stride else kernel
    x = _surrounded(x, kernel, steps, _of_rank(padding, 2), ceil_mode)
    ratio: float = math.prod(kernel) / divisor_override
    y: Tensor = aten.avg_pool2d.default(x, kernel, steps) * ratio
    return y


@rewrite(aten.adaptive_avg_pool1d.default)
def adaptive_avg_pool1d(x: Tensor, output_size: list[int]) -> Tensor:
    """As an image of height 1."""
    y: Tensor = aten.adaptive_avg_pool2d.default(x.unsqueeze(-2), [1, output_size[0]])
    return y.squeeze(-2)


@rewrite(aten.adaptive_avg_pool3d.default)
def adaptive_avg_pool3d(x: Tensor, output_size: list[int]) -> Tensor:
    """Over height and width, then over the depth."""
    *batch, channels, depth, height, width = x.shape
    images: Tensor = x.reshape(-1, channels * depth, height, width)
    images = aten.adaptive_avg_pool2d.default(images, output_size[1:])
    height, width = images.shape[2:]
    columns: Tensor = images.reshape(-1, channels, depth, height * width)
    columns = aten.adaptive_avg_pool2d.default(columns, [output_size[0], height * width])
    y: Tensor = columns.reshape(*batch, channels, output_size[0], height, width)
    return y


def _of_rank(values: list[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _surrounded(x: Tensor, kernel: list[int], steps: list[int], pads: list[int], ceil_mode: bool) -> Tensor:
    """With zeros wherever a window reaches."""
    amounts: list[int] = []
    for size, taps, step, pad in zip(x.shape[-len(kernel) :], kernel, steps, pads, strict=True):
        whole = size + 2 * pad - taps
        count = (-(-whole // step) if ceil_mode else whole // step) + 1
        if ceil_mode and (count - 1) * step >= size + pad:  # a window has to begin inside
            count -= 1
        amounts = [pad, max(pad, (count - 1) * step + taps - size - pad), *amounts]
    return F.pad(x, amounts) if any(amounts) else x
