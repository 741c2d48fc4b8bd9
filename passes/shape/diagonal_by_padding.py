"""A vector on the diagonal of a matrix, by padding.

**What it rewrites.** ``diag_embed``, ``diag`` of a vector, ``diagflat`` and ``diagonal_scatter``, of floats.

**The identity.** Read row by row, the elements of a diagonal of a matrix with ``n`` columns stand ``n + 1`` places
apart. So each element of the vector is followed by ``n`` zeros; for ``diagonal_scatter``, by what follows it in the old
matrix. Nothing is multiplied, so that NaN and infinity stay where they are.

**Why the backend needs it.** XNNPACK has no Booleans, hence no choice by a mask, but pads, slices, and joins.

**What it leaves alone.** Integers and Booleans, several types, symbolic sizes, and a diagonal of no element.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import check_elements
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes where; ExecuTorch 1.5.1's has no Booleans"


@rewrite(aten.diag_embed.default, cost=0.5)
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros elsewhere."""
    check_elements(x)
    size, count = x.shape[-1] + abs(offset), x.shape[-1]
    spread = F.pad(x.reshape(-1, count, 1), (0, size)).reshape(-1, count * (size + 1))
    before = offset if offset >= 0 else -offset * size
    kept = min(spread.shape[1], size * size - before)
    spread = aten.slice.Tensor(spread, 1, 0, kept) if kept < spread.shape[1] else spread
    after = size * size - before - kept
    flat = F.pad(spread, (before, after)) if before or after else spread
    return _moved(flat.reshape([*x.shape[:-1], size, size]), dim1, dim2)


@rewrite(aten.diag.default, cost=0.5)
def diag(x: Tensor, offset: int = 0) -> Tensor:
    """The same, of a vector."""
    if x.dim() != 1:
        raise Decline("it takes the diagonal of a matrix")
    return diag_embed(x, offset)


@rewrite(aten.diagflat.default, cost=0.5)
def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """The same, of all elements."""
    return diag_embed(x.reshape(-1), offset)


@rewrite(aten.diagonal_scatter.default, cost=0.5)
def diagonal_scatter(x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The old matrix elsewhere."""
    check_elements(x)
    check_elements(source)
    if source.dtype != x.dtype:
        raise Decline(f"it is of {x.dtype} and {source.dtype}")
    first, second = dim1 % x.dim(), dim2 % x.dim()
    rest = [d for d in range(x.dim()) if d not in (first, second)]
    order = [*rest, first, second]
    old = x if order == list(range(x.dim())) else x.permute(order)
    rows, columns, count = old.shape[-2], old.shape[-1], source.shape[-1]
    batch, step = math.prod(old.shape[:-2]), columns + 1
    flat = old.reshape(batch, rows * columns)
    start = offset if offset >= 0 else -offset * columns
    end = min(start + count * step, rows * columns)
    between = aten.slice.Tensor(flat, 1, start, end)
    if end - start < count * step:
        between = F.pad(between, (0, count * step - (end - start)))
    between = aten.slice.Tensor(between.reshape(batch, count, step), 2, 1, step)
    placed = torch.cat([source.reshape(batch, count, 1), between], 2).reshape(batch, count * step)
    if end - start < count * step:
        placed = aten.slice.Tensor(placed, 1, 0, end - start)
    parts = [aten.slice.Tensor(flat, 1, 0, start)] if start else []
    parts.append(placed)
    if end < rows * columns:
        parts.append(aten.slice.Tensor(flat, 1, end, rows * columns))
    joined = torch.cat(parts, 1) if len(parts) > 1 else placed
    return _moved(joined.reshape(old.shape), first, second)


def _moved(x: Tensor, dim1: int, dim2: int) -> Tensor:
    """The last two dimensions go where they belong."""
    rank = x.dim()
    first, second = dim1 % rank, dim2 % rank
    order = [d for d in range(rank) if d not in (first, second)] + [first, second]
    return x if order == list(range(rank)) else x.permute([order.index(d) for d in range(rank)])
