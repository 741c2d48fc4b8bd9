"""conv3d as conv2d over the frames, the taps of the depth taken as channels.

**What it rewrites.** ``conv3d`` with any stride, padding, dilation and groups, with or without a batch.

**The identity.** An output frame reads a window of input frames. Put side by side as channels, the window is an image
of ``channels * depth`` channels, and the weight ``[out, in, depth, h, w]``, viewed as ``[out, in * depth, h, w]``, sums
the same products. Frames go to the batch.

Where the windows are as long and as wide as the strides and nothing is padded, they are patches that do not overlap:
each is a row, and one ``linear`` takes all rows.

**Why the backend needs it.** Ethos-U55 has no CONV3D. XNNPACK has none either, and ExecuTorch's runtime dies on it.

**What it leaves alone.** Backends that take the op. Symbolic sizes.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes, inserted, of_rank, removed, stacked
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Ethos-U55 takes conv3d; it has no CONV3D in Vela 5"

_MOST_FRAMES = 64


@rewrite(aten.conv3d.default)
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: list[int] = [1, 1, 1],  # noqa: B006
    padding: list[int] = [0, 0, 0],  # noqa: B006
    dilation: list[int] = [1, 1, 1],  # noqa: B006
    groups: int = 1,
) -> Tensor:
    """Pad the depth, stack the window's frames, convolve, and put the frames back."""
    stride, padding, dilation = (of_rank(v, 3) for v in (stride, padding, dilation))
    x = input if input.dim() == 5 else inserted(input, 0)
    batch, channels, frames, *_ = x.shape
    out, within, depth, height, width = weight.shape
    if not isinstance(frames, int):
        raise Decline("the depth is symbolic; export with a constant one")
    count = (frames + 2 * padding[0] - dilation[0] * (depth - 1) - 1) // stride[0] + 1
    if count > _MOST_FRAMES:
        raise Decline(f"it makes {count} frames; at most {_MOST_FRAMES} go to the batch")
    if padding[0]:
        x = F.pad(x, [0, 0, 0, 0, padding[0], padding[0]])
    span = (count - 1) * stride[0] + 1
    windows = [aten.slice.Tensor(x, 2, k * dilation[0], k * dilation[0] + span, stride[0]) for k in range(depth)]
    images = stacked(windows, 2)  # [batch, channels, depth, count, height, width]
    images = images.permute(0, 3, 1, 2, 4, 5).reshape(batch * count, channels * depth, *x.shape[3:])
    kernel = weight.reshape(out, within * depth, height, width)
    y: Tensor = aten.conv2d.default(images, kernel, bias, stride[1:], padding[1:], dilation[1:], groups)
    y = y.reshape(batch, count, out, *y.shape[2:]).transpose(1, 2).contiguous()
    return y if input.dim() == 5 else removed(y, 0)


@rewrite(aten.conv3d.default, cost=0.5)
def conv3d_of_patches(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: list[int] = [1, 1, 1],  # noqa: B006
    padding: list[int] = [0, 0, 0],  # noqa: B006
    dilation: list[int] = [1, 1, 1],  # noqa: B006
    groups: int = 1,
) -> Tensor:
    """Each patch a row."""
    steps, pads, spreads = (of_rank(v, 3) for v in (stride, padding, dilation))
    x = input if input.dim() == 5 else inserted(input, 0)
    batch, channels, *sizes = x.shape
    kernel = list(weight.shape[2:])
    if not constant_sizes(x) or steps != kernel or any(pads) or any(n != 1 for n in spreads) or groups != 1:
        raise Decline("its windows are no patches of constant sizes side by side")
    counts = [size // step for size, step in zip(sizes, kernel, strict=True)]
    for dim, (count, step) in enumerate(zip(counts, kernel, strict=True)):
        if count * step != sizes[dim]:
            x = aten.slice.Tensor(x, dim + 2, 0, count * step)
    # Two dimensions are split and moved at a time: XNNPACK knows tensors of six at most.
    x = x.reshape(batch * channels * counts[0], kernel[0], counts[1], kernel[1], counts[2], kernel[2])
    x = x.permute(0, 2, 4, 1, 3, 5).reshape(batch, channels, math.prod(counts), math.prod(kernel))
    rows = x.permute(0, 2, 1, 3).reshape(batch * math.prod(counts), channels * math.prod(kernel))
    y = F.linear(rows, weight.reshape(weight.shape[0], -1), bias)
    y = y.reshape(batch, math.prod(counts), weight.shape[0]).permute(0, 2, 1)
    y = y.reshape(batch, weight.shape[0], *counts)
    return y if input.dim() == 5 else removed(y, 0)
