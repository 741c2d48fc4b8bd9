"""roll, as the two parts of each dimension in exchanged order.

**What it rewrites.** ``roll`` along given dimensions or, without any, of the flattened tensor; ``fft.fftshift`` and
``fft.ifftshift``, which roll by half of a dimension.

**The identity.** Rolling by ``k`` puts the last ``k`` elements first: ``cat(x[n-k:], x[:n-k])``, ``k`` taken modulo
``n``. Values are moved, not computed.

**Why the backend needs it.** PyTorch decomposes ``roll`` into int64 index arithmetic, which TOSA does not have, and
Arm's quantizer does not know the op. Swin transformers roll twice in every other block.

**What it leaves alone.** Symbolic sizes.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes roll; ExecuTorch 1.5.1 sees int64 index arithmetic instead"


@rewrite(aten.roll.default)
def roll(x: Tensor, shifts: list[int], dims: list[int] = []) -> Tensor:  # noqa: B006
    """Dimension by dimension; the same one may be given twice."""
    if not dims:
        return _rolled(x.reshape(-1), shifts[0], 0).reshape(x.shape)
    y = x
    for shift, dim in zip(shifts, dims, strict=True):
        y = _rolled(y, shift, dim)
    return y.clone() if y is x else y


@rewrite(aten.fft_fftshift.default)
def fftshift(x: Tensor, dim: list[int] | None = None) -> Tensor:
    """By half of each dimension, rounded down."""
    dims = list(range(x.dim())) if dim is None else list(dim)
    return roll(x, [x.shape[d] // 2 for d in dims], dims) if dims else x.clone()


@rewrite(aten.fft_ifftshift.default)
def ifftshift(x: Tensor, dim: list[int] | None = None) -> Tensor:
    """By half of each dimension, rounded up."""
    dims = list(range(x.dim())) if dim is None else list(dim)
    return roll(x, [(x.shape[d] + 1) // 2 for d in dims], dims) if dims else x.clone()


def _rolled(x: Tensor, shift: int, dim: int) -> Tensor:
    size = x.shape[dim] if x.dim() else 1
    if not isinstance(size, int):
        raise Decline(f"dimension {dim} has the symbolic size {size}; export with a constant one")
    shift = shift % size if size else 0
    if shift == 0:
        return x
    first, last = aten.slice.Tensor(x, dim, size - shift, size), aten.slice.Tensor(x, dim, 0, size - shift)
    return torch.cat([first, last], dim)
