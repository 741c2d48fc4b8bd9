"""fftshift and ifftshift, as two slices of each dimension in exchanged order.

**What it rewrites.** ``fft.fftshift`` and ``fft.ifftshift`` of real tensors of any dtype, over any dimensions. Those of
complex tensors are the pass ``complex-to-real``'s.

**The identity.** Both roll a dimension of size ``n``: by ``n // 2``, and by ``(n + 1) // 2`` to undo it. A roll by
``s`` is the last ``s`` elements and then the others.

**Why the backend needs it.** ``roll`` is decomposed to indexing with an int64 index that is computed, which no backend
takes.

**What it leaves alone.** Dimensions of symbolic size.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "ExecuTorch decomposes roll to slices; it is index arithmetic in int64 in ExecuTorch 1.5.1"


@rewrite(aten.fft_fftshift.default)
def fft_fftshift(x: Tensor, dim: list[int] | None = None) -> Tensor:
    """Zero to the middle."""
    return _rolled(x, dim, 0)


@rewrite(aten.fft_ifftshift.default)
def fft_ifftshift(x: Tensor, dim: list[int] | None = None) -> Tensor:
    """Zero from the middle to the front."""
    return _rolled(x, dim, 1)


def _rolled(x: Tensor, dims: list[int] | None, extra: int) -> Tensor:
    if x.is_complex():
        raise Decline("it is complex, and the pass complex-to-real serves it")
    result = x
    for dim in range(x.dim()) if dims is None else dims:
        size = x.shape[dim]
        if not isinstance(size, int):
            raise Decline(f"dimension {dim} has the symbolic size {size}")
        middle = size - (size + extra) // 2
        if 0 < middle < size:
            parts = aten.slice.Tensor(result, dim, middle, size), aten.slice.Tensor(result, dim, 0, middle)
            result = torch.cat(parts, dim)
    return result.clone() if result is x else result
