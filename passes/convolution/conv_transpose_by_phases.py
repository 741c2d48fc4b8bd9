"""Transposed convolution as ordinary convolutions, one for each phase of the stride, interleaved.

**What it rewrites.** ``conv_transpose1d``, ``conv_transpose2d`` and ``conv_transpose3d``, with any stride, padding,
output padding, groups and dilation, with or without a batch.

**The identity.** Tap ``k`` sends the input at ``i`` to the output at ``o = i * s + k * d - p``. So the outputs of one
phase, ``o = q * s + r``, read only the taps with ``k * d = r + p`` modulo ``s``, and those at ``i = q + c - j * d /
g``, where ``g`` is the greatest common divisor of ``s`` and ``d``: an ordinary convolution of stride 1 with these taps
in reverse order and dilation ``d / g`` (the sub-pixel convolution of Shi et al., 2016). The phases are interleaved at
the end. Nothing is multiplied by an inserted zero, so infinity stays infinity; the weights' parts are stored by
``fold-constants``.

**Why the backend needs it.** TOSA's TRANSPOSE_CONV2D has no dilation and no depth, Arm's partitioner refuses groups
with weights quantized by channel, and Ethos-U55 takes strides of 1 and 2 only.

**What it leaves alone.** What the backend takes as it is; ``conv-transpose1d`` comes first. Symbolic sizes, and more
than 64 phases.
"""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import of_rank
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes transposed convolutions that are dilated, grouped, in 3-D, and of any stride on Ethos-U55"

_MOST_PHASES = 64
_CONVOLUTIONS = {1: aten.conv1d.default, 2: aten.conv2d.default, 3: aten.conv3d.default}


@rewrite(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input, cost=5)
def conv_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: list[int] = [1],  # noqa: B006
    padding: list[int] = [0],  # noqa: B006
    output_padding: list[int] = [0],  # noqa: B006
    groups: int = 1,
    dilation: list[int] = [1],  # noqa: B006
) -> Tensor:
    """Pad the input once; each phase convolves its own window of it."""
    rank = weight.dim() - 2
    steps, pads, extras, spreads = (of_rank(v, rank) for v in (stride, padding, output_padding, dilation))
    x = input if input.dim() == rank + 2 else input.unsqueeze(0)
    sizes, taps = list(x.shape[2:]), list(weight.shape[2:])
    if not all(isinstance(size, int) for size in sizes):
        raise Decline("its size is symbolic; export with a constant one")
    if math.prod(steps) > _MOST_PHASES:
        raise Decline(f"a stride of {steps} makes {math.prod(steps)} phases; at most {_MOST_PHASES} are unrolled")
    out = [
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(sizes, steps, pads, spreads, taps, extras, strict=True)
    ]
    if not all(size > 0 for size in out):
        raise Decline("its result is empty")
    phases = [
        [_Phase(r, s, p, d, k, n, o) for r in range(s)]
        for s, p, d, k, n, o in zip(steps, pads, spreads, taps, sizes, out, strict=True)
    ]
    before = [max([0, *(-phase.first for phase in along if phase.taps)]) for along in phases]
    after = [
        max([0, *(phase.last - n + 1 for phase in along if phase.taps)]) for along, n in zip(phases, sizes, strict=True)
    ]
    x = _padded(x, before, after)
    kernel = _ordinary(weight, groups)
    parts = {}
    whole = all(phase.taps for along in phases for phase in along)  # else the bias has to fill gaps as well
    for chosen in itertools.product(*([phase for phase in along if phase.taps] for along in phases)):
        number = tuple(phase.number for phase in chosen)
        parts[number] = _convolved(x, kernel, bias if whole else None, chosen, before, groups)
    y = _interleaved(parts, steps)
    for dim, size in enumerate(out):
        if y.shape[dim + 2] != size:
            y = aten.slice.Tensor(y, dim + 2, 0, size)
    if bias is not None and not whole:
        y = y + bias.reshape(-1, *[1] * rank)
    return y if input.dim() == rank + 2 else y.squeeze(0)


class _Phase:
    """Along one dimension: the outputs ``o = q * stride + number``, and the taps and inputs that they read."""

    def __init__(self, number: int, stride: int, padding: int, dilation: int, taps: int, size: int, out: int) -> None:
        self.number = number
        self.taps = [k for k in range(taps) if (number + padding - k * dilation) % stride == 0]
        self.spread = dilation // math.gcd(stride, dilation)
        self.count = -(-out // stride)
        shifts = [(number + padding - k * dilation) // stride for k in self.taps]
        self.first = min(shifts, default=0)
        self.last = max(shifts, default=0) + self.count - 1


def _padded(x: Tensor, before: list[int], after: list[int]) -> Tensor:
    pads = [n for pair in zip(reversed(before), reversed(after), strict=True) for n in pair]
    return F.pad(x, pads) if any(pads) else x


def _ordinary(weight: Tensor, groups: int) -> Tensor:
    """The weight ``[in, out / groups, ...]`` as that of an ordinary convolution, ``[out, in / groups, ...]``."""
    if groups == 1:
        return weight.transpose(0, 1)
    inputs, outputs, *taps = weight.shape
    split = weight.reshape(groups, inputs // groups, outputs, *taps).transpose(1, 2)
    return split.reshape(groups * outputs, inputs // groups, *taps)


def _convolved(
    x: Tensor, kernel: Tensor, bias: Tensor | None, chosen: tuple[_Phase, ...], before: list[int], groups: int
) -> Tensor:
    rank = len(chosen)
    for dim, (phase, pad) in enumerate(zip(chosen, before, strict=True)):
        start, stop = phase.first + pad, phase.last + pad + 1
        if (start, stop) != (0, x.shape[dim + 2]):
            x = aten.slice.Tensor(x, dim + 2, start, stop)
        step = phase.taps[1] - phase.taps[0] if len(phase.taps) > 1 else 1
        kernel = aten.slice.Tensor(kernel, dim + 2, phase.taps[0], phase.taps[-1] + 1, step)
    kernel = kernel.flip(list(range(2, rank + 2))).contiguous()
    result: Tensor = _CONVOLUTIONS[rank](
        x, kernel, bias, [1] * rank, [0] * rank, [phase.spread for phase in chosen], groups
    )
    return result


def _interleaved(parts: dict[tuple[int, ...], Tensor], steps: list[int]) -> Tensor:
    """The phases side by side, the last dimension first; zero where a phase has no taps."""
    for dim in reversed(range(len(steps))):
        merged = {}
        for head in dict.fromkeys(number[:dim] for number in parts):
            present = {number[dim]: part for number, part in parts.items() if number[:dim] == head}
            merged[head] = _woven(present, dim + 2, steps[dim])
        parts = merged
    return parts[()]


def _woven(present: dict[int, Tensor], dim: int, step: int) -> Tensor:
    """Outputs ``q * step + r`` along a dimension, from the parts of the numbers ``r`` that there are."""
    numbers = sorted(present)
    first = present[numbers[0]]
    if step == 1:
        return first
    pieces = []
    for r, following in zip(numbers, [*numbers[1:], step], strict=True):
        gaps = [r if r == numbers[0] else 0, following - r - 1]
        piece = present[r].unsqueeze(dim + 1)
        pieces.append(F.pad(piece, [*[0, 0] * (first.dim() - dim - 1), *gaps]) if any(gaps) else piece)
    shape = list(first.shape)
    shape[dim] *= step
    return (torch.cat(pieces, dim + 1) if len(pieces) > 1 else pieces[0]).reshape(shape)
