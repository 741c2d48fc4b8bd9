"""Linear layers and convolutions whose weight is computed, as matrix products.

**What it rewrites.** ``linear``, ``conv1d``, ``conv2d``, ``conv3d`` and the transposed convolutions whose weight or
bias is an input or a result, not a parameter: weights that another network makes, weights that are normalised or
masked at run time, and functions that are handed their weights.

**The identity.** ``linear(x, W, b) = x @ W^T + b``. A convolution multiplies, for each place, what lies under the
kernel by the kernel: for each tap of the kernel the shifted input is a strided slice of the padded one, and all taps
side by side times the flattened kernel are one matrix product for each group. In a transposed convolution each tap's
product is spread by the stride and shifted, and the taps are added up.

**Why the backend needs it.** Arm's lowering reads the weight of a convolution while it compiles, and dies on one that
it cannot read ("unsupported param type").

**What it leaves alone.** Weights that are parameters. Integers. A NaN or infinity in a weight times the zeros of the
padding is NaN here; PyTorch's kernels differ on whether they multiply the padding. Kernels of more than 256 taps, and
of more than 64 in a transposed convolution, where each tap is a few ops.
"""

import itertools
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite, stored

aten = torch.ops.aten

RETIRE_WHEN = "Arm's lowering takes linear and convolution with a computed weight; ExecuTorch 1.5.1's dies on it"

MOST_TAPS = 256
MOST_TRANSPOSED_TAPS = 64


@rewrite(aten.linear.default, cost=5)
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A matrix product and a sum."""
    _check(x, weight, bias)
    if weight.dim() == 1:
        y = torch.matmul(x.unsqueeze(-2) if x.dim() == 1 else x, weight.unsqueeze(1)).squeeze(-1)
        y = y.squeeze(-1) if x.dim() == 1 else y
    else:
        y = torch.mm(x.reshape(-1, x.shape[-1]), weight.transpose(0, 1)).reshape([*x.shape[:-1], weight.shape[0]])
    return y if bias is None else y + bias


@rewrite(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, cost=5)
def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Tensor:
    """All taps side by side."""
    rank = weight.dim() - 2
    pads = [(p, p) for p in _each(padding, rank)]
    return _convolution(x, weight, bias, _each(stride, rank), pads, _each(dilation, rank), groups)


@rewrite(aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding, cost=5)
def convolution_with_named_padding(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: str = "valid",
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Tensor:
    """The same with the padding by name: ``same`` puts an odd element at the end."""
    rank = weight.dim() - 2
    spread = _each(dilation, rank)
    pads = [(0, 0)] * rank
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(spread, weight.shape[2:], strict=True)]
        pads = [(total // 2, total - total // 2) for total in totals]
    return _convolution(x, weight, bias, _each(stride, rank), pads, spread, groups)


@rewrite(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input, cost=5)
def transposed_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    output_padding: Sequence[int] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> Tensor:
    """Tap by tap."""
    _check(x, weight, bias)
    rank = weight.dim() - 2
    kernel, step, spread = list(weight.shape[2:]), _each(stride, rank), _each(dilation, rank)
    if math.prod(kernel) > MOST_TRANSPOSED_TAPS:
        raise Decline(f"the kernel has {math.prod(kernel)} taps; {MOST_TRANSPOSED_TAPS} are the most")
    batched = x if x.dim() == weight.dim() else x.unsqueeze(0)
    batch, channels, size = batched.shape[0], batched.shape[1], list(batched.shape[2:])
    outputs = weight.shape[1]
    flat = batched.reshape(batch * groups, channels // groups, math.prod(size))
    by_group = weight.reshape(groups, channels // groups, outputs, *kernel)
    total: Tensor | None = None
    for tap in itertools.product(*map(range, kernel)):
        part = by_group
        for at in tap:
            part = part.select(3, at)
        part = part.transpose(1, 2).unsqueeze(0).expand(batch, -1, -1, -1)
        y = torch.bmm(part.reshape(batch * groups, outputs, channels // groups), flat)
        y = y.reshape(batch, groups * outputs, *size)
        for n in range(rank):
            y = _spread(y, 2 + n, step[n])
        extra = _each(output_padding, rank)
        y = _padded(y, [(at * s, (k - 1 - at) * s + e) for at, s, k, e in zip(tap, spread, kernel, extra, strict=True)])
        total = y if total is None else total + y
    assert total is not None
    for n, crop in enumerate(_each(padding, rank)):
        if crop:
            total = aten.slice.Tensor(total, 2 + n, crop, total.shape[2 + n] - crop)
    if bias is not None:
        total = total + bias.reshape(-1, *[1] * rank)
    return total if x.dim() == weight.dim() else total.squeeze(0)


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    pads: list[tuple[int, int]],
    dilation: list[int],
    groups: int,
) -> Tensor:
    _check(x, weight, bias)
    kernel, rank = list(weight.shape[2:]), weight.dim() - 2
    if math.prod(kernel) > MOST_TAPS:
        raise Decline(f"the kernel has {math.prod(kernel)} taps; {MOST_TAPS} are the most")
    padded = _padded(x if x.dim() == weight.dim() else x.unsqueeze(0), pads)
    batch, channels, size = padded.shape[0], padded.shape[1], list(padded.shape[2:])
    result = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(size, dilation, kernel, stride, strict=True)]
    taps = []
    for tap in itertools.product(*map(range, kernel)):
        shifted = padded
        for n, at in enumerate(tap):
            first = at * dilation[n]
            last = first + (result[n] - 1) * stride[n] + 1
            if (first, last, stride[n]) != (0, size[n], 1):
                shifted = aten.slice.Tensor(shifted, 2 + n, first, last, stride[n])
        taps.append(shifted.reshape(batch * groups, channels // groups, math.prod(result)))
    columns = torch.cat(taps, 1) if len(taps) > 1 else taps[0]
    outputs = weight.shape[0]
    rows = weight.reshape(outputs, channels // groups, -1).transpose(1, 2)
    rows = rows.reshape(1, groups, outputs // groups, -1).expand(batch, -1, -1, -1)
    y = torch.bmm(rows.reshape(batch * groups, outputs // groups, -1), columns)
    y = y.reshape(batch, outputs, *result)
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * rank)
    return y if x.dim() == weight.dim() else y.squeeze(0)


def _spread(y: Tensor, dim: int, step: int) -> Tensor:
    """The elements ``step`` apart, with zeros between."""
    if step == 1:
        return y
    size = y.shape[dim]
    wide = y.unsqueeze(dim + 1)
    gap = list(wide.shape)
    gap[dim + 1] = step - 1
    wide = torch.cat([wide, torch.zeros(gap, dtype=y.dtype)], dim + 1)
    shape = list(y.shape)
    shape[dim] = size * step
    result: Tensor = aten.slice.Tensor(wide.reshape(shape), dim, 0, (size - 1) * step + 1)
    return result


def _padded(x: Tensor, pads: list[tuple[int, int]]) -> Tensor:
    if not any(low or high for low, high in pads):
        return x
    return F.pad(x, [width for low, high in reversed(pads) for width in (low, high)])


def _each(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _check(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if stored(weight) and (bias is None or stored(bias)):
        raise Decline("its weight is a parameter")
    if not x.is_floating_point():
        raise Decline(f"a product of {x.dtype} is not computed here")
