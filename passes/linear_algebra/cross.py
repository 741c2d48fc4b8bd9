"""The cross product, from rotated vectors.

**What it rewrites.** ``cross`` and ``linalg.cross`` along any dimension.

**The identity.** ``(a x b)_i = a_{i+1} b_{i+2} - a_{i+2} b_{i+1}``, indices modulo 3. The rotated vectors are cut in
two and put together again.

**Why the backend needs it.** It is decomposed to index arithmetic in int64, which TOSA does not have.

**What it leaves alone.** Integers where the backend does not multiply them.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "the decomposition of linalg_cross needs no int64 index; in ExecuTorch 1.5.1 it does"


@rewrite(aten.linalg_cross.default)
def linalg_cross(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Along the given dimension."""
    if x.dim() != y.dim() or x.shape[dim] != 3 or y.shape[dim] != 3:
        raise Decline("it is not of vectors of three elements")
    return _rotated(x, dim, 1) * _rotated(y, dim, 2) - _rotated(x, dim, 2) * _rotated(y, dim, 1)


@rewrite(aten.cross.default)
def cross(x: Tensor, y: Tensor, dim: int | None = None) -> Tensor:
    """Along the given dimension, or the first one of size 3."""
    if dim is None:
        threes = [n for n, size in enumerate(x.shape) if isinstance(size, int) and size == 3]
        if not threes:
            raise Decline("no dimension has size 3")
        dim = threes[0]
    return linalg_cross(x, y, dim=dim)


def _rotated(x: Tensor, dim: int, by: int) -> Tensor:
    return torch.cat([aten.slice.Tensor(x, dim, by, 3), aten.slice.Tensor(x, dim, 0, by)], dim)
