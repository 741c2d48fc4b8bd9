"""Lower and upper triangles row by row.

**What it rewrites.** ``tril`` and ``triu`` of floats.

**The identity.** The kept part of a row is a slice, padded with zeros to the row's length. Rows that are kept whole are
one slice, and rows of zeros one padding. Nothing is multiplied, so that NaN and infinity outside of the triangle become
zero.

**Why the backend needs it.** XNNPACK has no Booleans, hence no choice by a mask, but pads, slices, and joins.

**What it leaves alone.** Integers and Booleans, symbolic sizes, a triangle of no element, and matrices of more than 64
rows that are cut.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import check_elements
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes where; ExecuTorch 1.5.1's has no Booleans"

MOST = 64
"""Each row that is cut takes a slice and a padding."""


@rewrite(aten.tril.default, cost=0.5)
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """Row ``i`` up to column ``i + diagonal``."""
    rows, columns = _sizes(x)
    return _by_rows(x, [(0, max(0, min(columns, i + diagonal + 1))) for i in range(rows)])


@rewrite(aten.triu.default, cost=0.5)
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """Row ``i`` from column ``i + diagonal`` on."""
    rows, columns = _sizes(x)
    return _by_rows(x, [(min(columns, max(0, i + diagonal)), columns) for i in range(rows)])


def _by_rows(x: Tensor, kept: list[tuple[int, int]]) -> Tensor:
    rows, columns, at = len(kept), x.shape[-1], x.dim() - 2
    some = [i for i, (first, last) in enumerate(kept) if first < last]
    if not some:
        raise Decline("nothing of it is kept")
    if sum(kept[i] != (0, columns) for i in some) > MOST:
        raise Decline(f"more than {MOST} of its rows are cut")
    parts: list[Tensor] = []
    i = some[0]
    while i <= some[-1]:
        first, last = kept[i]
        end = i + 1
        while end <= some[-1] and kept[end] == kept[i]:
            end += 1
        part = x if end - i == rows else aten.slice.Tensor(x, at, i, end)
        if last - first < columns:
            part = F.pad(aten.slice.Tensor(part, at + 1, first, last), (first, columns - last))
        parts.append(part)
        i = end
    joined = torch.cat(parts, at) if len(parts) > 1 else parts[0]
    if some[0] or some[-1] < rows - 1:
        joined = F.pad(joined, (0, 0, some[0], rows - 1 - some[-1]))
    return joined if joined is not x else x.clone()


def _sizes(x: Tensor) -> tuple[int, int]:
    check_elements(x)
    return x.shape[-2], x.shape[-1]
