"""Average pooling of signals and volumes, from the pooling of images.

**What it rewrites.** ``avg_pool1d`` and ``avg_pool3d`` in every form, ``adaptive_avg_pool1d``, ``adaptive_avg_pool2d``
and ``adaptive_avg_pool3d``, and ``avg_pool2d`` in the forms that the backend refuses, or computes wrongly.

**The identity.** The mean over a box is the mean over one side of the means over the others; padding, ``ceil_mode``
and ``count_include_pad`` work dimension by dimension, and so does the number of elements that they divide by. A volume
is averaged over height and width, channels and depth being one dimension, and then over the depth; a signal is an
image of height 1. With ``divisor_override`` all padding, that of ``ceil_mode`` too, is zeros put there beforehand, and
the means are made sums again before the division. Where the divisors differ from window to window, the means over the
zero-padded windows are multiplied by a stored table of ratios. An adaptive pooling is that of windows of one size where
the sizes divide, and else the means of slices side by side.

**Why the backend needs it.** TOSA's AVG_POOL2D is for images, and Arm's quantizer knows ``avg_pool2d`` and
``adaptive_avg_pool2d`` alone. A window of ``ceil_mode`` that juts out is divided by too little under a
``divisor_override``. XNNPACK counts no padding, takes no ``ceil_mode`` and no ``divisor_override``, and only batches.

**What it leaves alone.** Symbolic sizes. The rounding differs as that of any sum in another order; a sum that overflows
may do so in one order only.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes, inserted, of_rank, removed
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

_MOST_SLICES = 64

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
    y: Tensor = aten.avg_pool2d.default(
        inserted(x, -2), [1, kernel_size[0]], [1, step], [0, padding[0]], ceil_mode, count_include_pad
    )
    return removed(y, -2)


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
    kernel, pads = of_rank(kernel_size, 3), of_rank(padding, 3)
    steps = of_rank(stride, 3) if stride else kernel
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
    kernel = of_rank(kernel_size, 2)
    steps = of_rank(stride, 2) if stride else kernel
    x = _surrounded(x, kernel, steps, of_rank(padding, 2), ceil_mode)
    ratio: float = math.prod(kernel) / divisor_override
    y: Tensor = aten.avg_pool2d.default(x, kernel, steps) * ratio
    return y


@rewrite(aten.avg_pool2d.default, cost=2)
def avg_pool2d_of_padded(
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] = [],  # noqa: B006
    padding: list[int] = [0, 0],  # noqa: B006
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """A batch of images with zeros all around, and the ratios of the divisors."""
    if not constant_sizes(x) or not x.is_floating_point():
        raise Decline("it is for floats of constant sizes")
    kernel, pads = of_rank(kernel_size, 2), of_rank(padding, 2)
    steps = of_rank(stride, 2) if stride else kernel
    image = x if x.dim() == 4 else inserted(x, 0)
    padded = _surrounded(image, kernel, steps, pads, ceil_mode)
    y: Tensor = aten.avg_pool2d.default(padded, kernel, steps, [0, 0], False, False)
    counted = [
        _counted(image.shape[2 + n], kernel[n], steps[n], pads[n], y.shape[2 + n], count_include_pad) for n in (0, 1)
    ]
    whole = math.prod(kernel)
    if divisor_override is not None:
        y = y if divisor_override == whole else y * float(whole / divisor_override)
    elif any(count != size for size, along in zip(kernel, counted, strict=True) for count in along):
        y = y * torch.tensor([[whole / (a * b) for b in counted[1]] for a in counted[0]], dtype=x.dtype)
    return y if x.dim() == 4 else removed(y, 0)


@rewrite(aten.adaptive_avg_pool1d.default)
def adaptive_avg_pool1d(x: Tensor, output_size: list[int]) -> Tensor:
    """As an image of height 1."""
    y: Tensor = aten.adaptive_avg_pool2d.default(inserted(x, -2), [1, output_size[0]])
    return removed(y, -2)


@rewrite(aten.adaptive_avg_pool2d.default, aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(x: Tensor, output_size: list[int]) -> Tensor:
    """Dimension by dimension."""
    if not constant_sizes(x):
        raise Decline("a size is symbolic; export with constant ones")
    y = x if x.dim() == 4 else inserted(x, 0)
    for n in (0, 1):
        size, out = y.shape[2 + n], output_size[n]
        windows = dict.fromkeys((i * size // out, -(-(i + 1) * size // out)) for i in range(out))
        if size % out == 0:
            y = _means(y, n, size // out) if size != out else y
            continue
        if len(windows) > _MOST_SLICES:
            raise Decline(f"its windows are {len(windows)} slices; {_MOST_SLICES} are the most")
        parts = {w: _means(aten.slice.Tensor(y, 2 + n, *w), n, w[1] - w[0]) for w in windows}
        y = torch.cat([parts[i * size // out, -(-(i + 1) * size // out)] for i in range(out)], 2 + n)
    return (y.clone() if y is x else y) if x.dim() == 4 else removed(y, 0)


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


def _means(x: Tensor, n: int, size: int) -> Tensor:
    """The means of windows of a size along the height or the width."""
    if size == 1:
        return x
    y: Tensor = aten.avg_pool2d.default(x, [1, size] if n else [size, 1])
    return y


def _counted(size: int, taps: int, step: int, pad: int, count: int, include_pad: bool) -> list[int]:
    """How many elements each window is divided by."""
    low, high = (-pad, size + pad) if include_pad else (0, size)
    return [min(i * step - pad + taps, high) - max(i * step - pad, low) for i in range(count)]


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
