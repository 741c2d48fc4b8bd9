"""unfold and fold, as shifted slices and their sum.

**What it rewrites.** ``F.unfold`` (``im2col``) and ``F.fold`` (``col2im``), with any kernel, dilation, padding and
stride, with or without a batch.

**The identity.** Row ``k`` of the columns holds what tap ``k`` of the kernel sees: the padded image, shifted by the
tap and taken at every stride. Folding adds the rows where they came from: each is spread out by the stride, shifted,
and added. The gaps are padding, nothing is multiplied, so infinity stays where it is.

**Why the backend needs it.** Both are decomposed to int64 index arithmetic, and Arm's quantizer knows neither; XNNPACK
takes none of it, and ExecuTorch's runtime dies on what ``fold`` becomes.

**What it leaves alone.** Symbolic sizes, and kernels of more than 256 taps.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import inserted, picked, removed, stacked
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes im2col and col2im; ExecuTorch 1.5.1 sees int64 index arithmetic instead"

_MOST_TAPS = 256


@rewrite(aten.im2col.default)
def im2col(x: Tensor, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]) -> Tensor:
    """The taps' slices, stacked behind the channels."""
    kernel, spreads, pads, steps = map(_pair, (kernel_size, dilation, padding, stride))
    _check(x, kernel)
    images = x if x.dim() == 4 else inserted(x, 0)
    batch, channels, *sizes = images.shape
    counts = _counts(sizes, kernel, spreads, pads, steps)
    if any(pads):
        images = F.pad(images, [pads[1], pads[1], pads[0], pads[0]])
    seen = []
    for row, column in _taps(kernel):
        part = images
        for dim, tap in ((0, row), (1, column)):
            first = tap * spreads[dim]
            part = aten.slice.Tensor(part, dim + 2, first, first + (counts[dim] - 1) * steps[dim] + 1, steps[dim])
        seen.append(part)
    y = stacked(seen, 2).reshape(batch, channels * len(seen), counts[0] * counts[1])
    return y if x.dim() == 4 else removed(y, 0)


@rewrite(aten.col2im.default)
def col2im(
    x: Tensor,
    output_size: list[int],
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Tensor:
    """The rows spread out, shifted and added."""
    sizes, kernel, spreads, pads, steps = map(_pair, (output_size, kernel_size, dilation, padding, stride))
    _check(x, kernel)
    columns = x if x.dim() == 3 else inserted(x, 0)
    taps = _taps(kernel)
    counts = _counts(sizes, kernel, spreads, pads, steps)
    rows = columns.reshape(columns.shape[0], columns.shape[1] // len(taps), len(taps), counts[0], counts[1])
    total: Tensor | None = None
    for number, tap in enumerate(taps):
        part = picked(rows, 2, number)
        amounts = []
        for dim in (0, 1):
            part = _spread(part, dim + 2, steps[dim])
            first = tap[dim] * spreads[dim]
            amounts.append([first, sizes[dim] + 2 * pads[dim] - first - part.shape[dim + 2]])
        part = F.pad(part, [*amounts[1], *amounts[0]])
        total = part if total is None else total + part
    assert total is not None
    for dim in (0, 1):
        if pads[dim]:
            total = aten.slice.Tensor(total, dim + 2, pads[dim], pads[dim] + sizes[dim])
    y = total.contiguous()
    return y if x.dim() == 3 else removed(y, 0)


def _pair(values: list[int]) -> list[int]:
    return list(values) * 2 if len(values) == 1 else list(values)


def _check(x: Tensor, kernel: list[int]) -> None:
    if not all(isinstance(size, int) for size in x.shape[1:]):
        raise Decline("a size is symbolic; export with constant ones")
    if kernel[0] * kernel[1] > _MOST_TAPS:
        raise Decline(f"the kernel has {kernel[0] * kernel[1]} taps; at most {_MOST_TAPS} are unrolled")


def _taps(kernel: list[int]) -> list[tuple[int, int]]:
    return [(row, column) for row in range(kernel[0]) for column in range(kernel[1])]


def _counts(sizes: list[int], kernel: list[int], spreads: list[int], pads: list[int], steps: list[int]) -> list[int]:
    return [
        (size + 2 * pad - spread * (taps - 1) - 1) // step + 1
        for size, taps, spread, pad, step in zip(sizes, kernel, spreads, pads, steps, strict=True)
    ]


def _spread(x: Tensor, dim: int, step: int) -> Tensor:
    """With ``step - 1`` zeros between the elements of a dimension."""
    if step == 1 or x.shape[dim] == 1:
        return x
    wide = F.pad(inserted(x, dim + 1), [*[0, 0] * (x.dim() - dim - 1), 0, step - 1])
    shape = list(x.shape)
    shape[dim] *= step
    part: Tensor = aten.slice.Tensor(wide.reshape(shape), dim, 0, shape[dim] - step + 1)
    return part
