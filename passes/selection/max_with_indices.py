"""max and min with indices, as amax and argmax.

**What it rewrites.** ``max`` and ``min`` along a dimension, values and indices.

**The identity.** The values are those of ``amax`` and ``amin``, the indices those of ``argmax`` and ``argmin``: in
each, NaN wins and the first of equals is taken.

**Why the backend needs it.** TOSA has REDUCE_MAX and ARGMAX. Arm takes ``max`` along a dimension only where its indices
are not read, and in float.

**What it leaves alone.** Complex numbers, which have no order, and 2**31 elements and more.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes max and min whose indices are read; not in ExecuTorch 1.5.1"


@rewrite(aten.max.dim)
def max_with_indices(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """``amax`` and ``argmax``."""
    y = _with_dimension(x)
    return _shaped(x, torch.amax(y, dim, keepdim), _index(y, dim, keepdim))


@rewrite(aten.min.dim)
def min_with_indices(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """``amin``, and ``argmax`` of the order-reversed input; ``~x`` cannot overflow where ``-x`` can."""
    y = _with_dimension(x)
    return _shaped(x, torch.amin(y, dim, keepdim), _index(-y if y.is_floating_point() else ~y, dim, keepdim))


def _with_dimension(x: Tensor) -> Tensor:
    if x.is_complex():
        raise Decline("complex numbers have no order")
    if x.numel() > (1 << 31) - 1:
        raise Decline("the index may not fit int32")
    return x if x.dim() else x.reshape(1)


def _index(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    """As int32, which Arm's argmax has to be read as."""
    index = torch.argmax(x, dim).to(torch.int32)
    return index.unsqueeze(dim) if keepdim else index


def _shaped(x: Tensor, values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        values, indices = values.reshape([]), indices.reshape([])
    return values, indices.to(torch.int64)
