"""Lower and upper triangles, as a choice by a stored mask.

**What it rewrites.** ``tril`` and ``triu``, on matrices of constant size.

**The identity.** An element stays where its column minus its row is at most (at least) the diagonal's number, and is 0
elsewhere. It is chosen by ``where``, not multiplied, so that NaN and infinity outside of the triangle become 0.

**Why the backend needs it.** ExecuTorch decomposes both to comparisons of int64 positions, which stay on the CPU of
Arm's targets. The mask here is a constant of the program.

**What it leaves alone.** Matrices of symbolic size.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "constants are folded before tril and triu are decomposed; ExecuTorch 1.5.1 leaves int64 positions"


@rewrite(aten.tril.default)
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    return _kept(x, _columns_minus_rows(x) <= diagonal)


@rewrite(aten.triu.default)
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    return _kept(x, _columns_minus_rows(x) >= diagonal)


def _columns_minus_rows(x: Tensor) -> Tensor:
    rows, columns = x.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Decline(f"the matrix has the symbolic size {rows} x {columns}; a mask of it cannot be stored")
    return torch.arange(columns) - torch.arange(rows).unsqueeze(1)


def _kept(x: Tensor, mask: Tensor) -> Tensor:
    return torch.logical_and(x, mask) if x.dtype == torch.bool else torch.where(mask, x, torch.zeros((), dtype=x.dtype))
