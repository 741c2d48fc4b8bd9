"""A vector on the diagonal of a matrix, as a choice by a stored mask.

**What it rewrites.** ``diag_embed``, ``diag`` of a vector, ``diagflat`` and ``diagonal_scatter``.

**The identity.** Above and on the main diagonal the element in row ``i`` is number ``i`` of the vector, below it that
of column ``j`` is number ``j``: the vector, filled up to the matrix's size and broadcast, is chosen where the column
minus the row is the offset. Elsewhere is 0 or, for ``diagonal_scatter``, the old matrix.

**Why the backend needs it.** ExecuTorch decomposes ``diag_embed`` to comparisons of int64 positions, which stay on the
CPU of Arm's targets; ``diagonal_scatter`` is not taken at all.

**What it leaves alone.** Matrices of symbolic size.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "diag_embed is decomposed to foldable constants, and Arm takes diagonal_scatter; not in ExecuTorch 1.5.1"


@rewrite(aten.diag_embed.default)
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    size = x.shape[-1] + abs(offset)
    zero = torch.zeros((), dtype=x.dtype)
    return _placed(x, size, size, offset, dim1, dim2, x.dim() + 1, zero)


@rewrite(aten.diagonal_scatter.default)
def diagonal_scatter(x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    rest = [d for d in range(x.dim()) if d not in (dim1 % x.dim(), dim2 % x.dim())]
    old = x.permute([*rest, dim1, dim2])
    return _placed(source.to(x.dtype), x.shape[dim1], x.shape[dim2], offset, dim1, dim2, x.dim(), old)


@rewrite(aten.diag.default)
def diag(x: Tensor, offset: int = 0) -> Tensor:
    if x.dim() != 1:
        raise Decline("it takes the diagonal of a matrix")
    return diag_embed(x, offset)


@rewrite(aten.diagflat.default)
def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    return diag_embed(x.reshape(-1), offset)


def _placed(
    x: Tensor, rows: int, columns: int, offset: int, dim1: int, dim2: int, rank: int, elsewhere: Tensor
) -> Tensor:
    """``x`` on a diagonal of the last two dimensions, which then go where they belong."""
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Decline(f"the matrix has the symbolic size {rows} x {columns}; a mask of it cannot be stored")
    on = (torch.arange(columns) - torch.arange(rows).unsqueeze(1)) == offset
    length = rows if offset >= 0 else columns
    if x.shape[-1] < length:
        filling = torch.zeros([*x.shape[:-1], length - x.shape[-1]], dtype=x.dtype)
        x = torch.cat([x, filling], -1)
    spread = x.unsqueeze(-1) if offset >= 0 else x.unsqueeze(-2)
    result = torch.where(on, spread, elsewhere)
    first, second = dim1 % rank, dim2 % rank
    order = [d for d in range(rank) if d not in (first, second)] + [first, second]
    return result if order == list(range(rank)) else result.permute([order.index(d) for d in range(rank)])
