"""Distances between vectors, from their differences.

**What it rewrites.** ``dist``, ``cdist`` and ``pdist`` with any ``p``.

**The identity.** A distance is the norm of the difference: the largest absolute value for ``p = inf``, the number of
values other than zero for ``p = 0``, ``sum(|d|**p)**(1/p)`` between. ``cdist`` with ``p = 2`` and more than 25 vectors
on a side is ``sqrt(|a|**2 + |b|**2 - 2ab)`` by one matrix product in PyTorch, and here; with fewer, or where its
``compute_mode`` says so, it is computed from the differences, which do not cancel. With ``p = inf`` its maximum passes
over NaN, as PyTorch's does in ``cdist`` and not in the others.

**Why the backend needs it.** Arm's partitioner knows none of the three.

**What it leaves alone.** Vectors without elements, and ``cdist`` whose differences would hold more than 2**24 elements.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.reduction.norm import norm_along
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes dist, cdist and pdist; ExecuTorch 1.5.1 does not"

LARGEST = 1 << 24
FEW = 25
"""Vectors on each side up to which PyTorch does not use a matrix product of its own accord."""


@rewrite(aten.dist.default)
def dist(x: Tensor, y: Tensor, p: float = 2) -> Tensor:
    """Of two tensors as vectors."""
    difference = x - y
    return _norm(difference.reshape(-1), float(p))


@rewrite(aten.cdist.default, aten._cdist_forward.default)
def cdist(x1: Tensor, x2: Tensor, p: float = 2, compute_mode: int | None = None) -> Tensor:
    """Of each vector of one tensor to each of the other."""
    if p == 2 and (compute_mode == 1 or (not compute_mode and max(x1.shape[-2], x2.shape[-2]) > FEW)):
        return _by_product(x1, x2)
    if math.prod(x1.shape) * x2.shape[-2] > LARGEST:
        raise Decline(f"the differences would hold more than {LARGEST} elements")
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == math.inf:
        difference = torch.where(difference == difference, difference, torch.zeros_like(difference))
    return _kernel_norm(difference, float(p))


@rewrite(aten.pdist.default, aten._pdist_forward.default)
def pdist(x: Tensor, p: float = 2) -> Tensor:
    """Of each vector to each later one."""
    count = x.shape[0]
    if count < 2:
        raise Decline("it is of fewer than two vectors")
    if count * count * x.shape[1] > LARGEST:
        raise Decline(f"the differences would hold more than {LARGEST} elements")
    differences = [aten.slice.Tensor(x, 0, n, n + 1) - aten.slice.Tensor(x, 0, n + 1, count) for n in range(count - 1)]
    return _kernel_norm(torch.cat(differences) if len(differences) > 1 else differences[0], float(p))


def _kernel_norm(d: Tensor, p: float) -> Tensor:
    """The norm as the kernels of ``cdist`` and ``pdist`` compute it: for ``p = 0`` NaN is not counted but kept."""
    if p == 0 and d.is_floating_point():
        return torch.sum(torch.where(d == d, torch.where(d == 0, torch.zeros_like(d), torch.ones_like(d)), d), [-1])
    return _norm(d, p)


def _norm(d: Tensor, p: float) -> Tensor:
    """Along the last dimension."""
    if not d.is_floating_point() or d.shape[-1] == 0:
        raise Decline("the vectors have no elements" if d.is_floating_point() else f"they are of {d.dtype}")
    return norm_along(d, p, [-1])


def _by_product(x1: Tensor, x2: Tensor) -> Tensor:
    """``[-2a, |a|^2, 1] @ [b, 1, |b|^2]``, without negative squares."""
    one, other = torch.sum(x1 * x1, [-1], True), torch.sum(x2 * x2, [-1], True)
    left = torch.cat([x1 * -2.0, one, torch.ones_like(one)], -1)
    right = torch.cat([x2, torch.ones_like(other), other], -1)
    return torch.sqrt(torch.clamp(torch.matmul(left, right.transpose(-1, -2)), min=0.0))
