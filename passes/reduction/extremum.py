"""The largest and smallest of a tensor, as amax and amin.

**What it rewrites.** ``max(x)`` and ``min(x)`` of all elements, and ``aminmax``.

**The identity.** They are ``amax`` and ``amin`` along all dimensions: the same value, NaN where there is one.

**Why the backend needs it.** Arm's partitioner takes ``amax`` and ``amin`` along given dimensions; ``max`` and ``min``
of all elements are in no support list of it, and its quantizer does not know ``aminmax``.

**What it leaves alone.** Empty tensors, which have no extremum.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes max and min without a dimension; ExecuTorch 1.5.1 does not"


@rewrite(aten.max.default)
def largest(x: Tensor) -> Tensor:
    """Of all elements."""
    return torch.amax(_with_dimension(x), _all(x))


@rewrite(aten.min.default)
def smallest(x: Tensor) -> Tensor:
    """Of all elements."""
    return torch.amin(_with_dimension(x), _all(x))


@rewrite(aten.aminmax.default)
def smallest_and_largest(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Both, of all elements or along one dimension."""
    y = _with_dimension(x)
    dims = _all(x) if dim is None else [dim]
    both = torch.amin(y, dims, keepdim), torch.amax(y, dims, keepdim)
    return both if x.dim() or not keepdim else (both[0].squeeze(0), both[1].squeeze(0))


def _with_dimension(x: Tensor) -> Tensor:
    if 0 in x.shape:
        raise Decline("an empty tensor has no extremum")
    return x if x.dim() else x.unsqueeze(0)


def _all(x: Tensor) -> list[int]:
    return list(range(max(x.dim(), 1)))
