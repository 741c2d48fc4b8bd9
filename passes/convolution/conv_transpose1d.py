"""ConvTranspose1d as ConvTranspose2d of height 1.

**What it rewrites.** ``conv_transpose1d`` on ``[N, C, L]`` or ``[C, L]``, with any stride, padding, output padding,
groups and dilation.

**The identity.** A signal is an image of height 1: ``[N, C, 1, L]``, a kernel of height 1, stride ``(1, s)`` and so
on; the sums are the same. The kernel's extra dimension is a view of the weight, which ``fold-constants`` stores.

A dilated one where the backend has no dilation is the sum over the kernel's taps: each tap is a transposed convolution
of width 1, shifted by ``k * dilation``. The kernel is not filled up with zeros, since zero times infinity is NaN.

**Why the backend needs it.** TOSA has TRANSPOSE_CONV2D only, and Arm's partitioner takes the transposed convolution of
images alone.

**What it leaves alone.** Backends that have the op, such as XNNPACK.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes transposed convolutions of signals; ExecuTorch 1.5.1 takes those of images only"


@rewrite(aten.conv_transpose1d.default)
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: list[int] = [1],  # noqa: B006
    padding: list[int] = [0],  # noqa: B006
    output_padding: list[int] = [0],  # noqa: B006
    groups: int = 1,
    dilation: list[int] = [1],  # noqa: B006
) -> Tensor:
    """All of it in two dimensions."""
    x = input if input.dim() == 3 else input.unsqueeze(0)
    y: Tensor = aten.conv_transpose2d.input(
        x.unsqueeze(2),
        weight.unsqueeze(2),
        bias,
        [1, stride[0]],
        [0, padding[0]],
        [0, output_padding[0]],
        groups,
        [1, dilation[0]],
    ).squeeze(2)
    return y if input.dim() == 3 else y.squeeze(0)


@rewrite(aten.conv_transpose1d.default, cost=2)
def conv_transpose1d_by_taps(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: list[int] = [1],  # noqa: B006
    padding: list[int] = [0],  # noqa: B006
    output_padding: list[int] = [0],  # noqa: B006
    groups: int = 1,
    dilation: list[int] = [1],  # noqa: B006
) -> Tensor:
    """A dilated one, tap by tap: full-length outputs summed, then cropped by the padding."""
    step, spread, taps = stride[0], dilation[0], weight.shape[2]
    if spread == 1:
        raise Decline("it is not dilated")
    x = input if input.dim() == 3 else input.unsqueeze(0)
    total: Tensor | None = None
    for tap in range(taps):
        kernel = weight[:, :, tap : tap + 1].unsqueeze(2)
        part = aten.conv_transpose2d.input(x.unsqueeze(2), kernel, None, [1, step], [0, 0], [0, 0], groups, [1, 1])
        part = F.pad(part, (tap * spread, (taps - 1 - tap) * spread + output_padding[0]))
        total = part if total is None else total + part
    assert total is not None
    y = total.squeeze(2)
    y = y[:, :, padding[0] : y.shape[2] - padding[0]]
    if bias is not None:
        y = y + bias.reshape(1, -1, 1)
    y = y.contiguous()
    return y if input.dim() == 3 else y.squeeze(0)
