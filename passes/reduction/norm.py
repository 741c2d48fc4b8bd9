"""Norms of vectors, written out.

**What it rewrites.** ``linalg.vector_norm`` with any order and dimensions, and the older ``norm``.

**The identity.** The largest or smallest absolute value for an infinite order, the number of elements other than zero
for order 0, and ``sum(|x|**p)**(1/p)`` else; NaN is not zero. Half precision is computed in float32, as PyTorch does.

**Why the backend needs it.** For order 0 Arm's lowering adds up booleans, and dies. Its quantizer knows the orders 1
and 2 with given dimensions only.

**What it leaves alone.** Norms in float64, and of integers.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes vector norms of every order, in int8 as well; ExecuTorch 1.5.1 does not"


@rewrite(aten.linalg_vector_norm.default)
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Along the given dimensions, or all."""
    result = dtype or x.dtype
    if not x.is_floating_point() or result not in (torch.float32, torch.float16, torch.bfloat16):
        raise Decline(f"the norm of {x.dtype} in {result} is not computed here")
    y = x if x.dtype == torch.float32 else x.to(torch.float32)
    dims = list(dim) if dim else list(range(max(x.dim(), 1)))
    y = y if x.dim() else y.unsqueeze(0)
    if math.prod(y.shape[d] for d in dims) == 0:
        raise Decline("it is of no element")
    norm = norm_along(y, float(ord), dims, keepdim and x.dim() > 0)
    return norm if result == torch.float32 else norm.to(result)


@rewrite(aten.norm.Scalar)
def norm_of_all(x: Tensor, p: float = 2) -> Tensor:
    """The older form, of all elements."""
    return vector_norm(x, p)


@rewrite(aten.norm.ScalarOpt_dim)
def norm_along_dimensions(x: Tensor, p: float | None, dim: list[int], keepdim: bool = False) -> Tensor:
    """The older form, along dimensions."""
    return vector_norm(x, 2 if p is None else p, dim, keepdim)


def norm_along(x: Tensor, p: float, dims: list[int], keepdim: bool = False) -> Tensor:
    """The norm of floats along dimensions."""
    if p == 0:
        return torch.sum(torch.where(x == 0, torch.zeros_like(x), torch.ones_like(x)), dims, keepdim)
    if p == 2:
        return torch.sqrt(torch.sum(x * x, dims, keepdim))
    size = torch.abs(x)
    if p == 1:
        return torch.sum(size, dims, keepdim)
    if p == math.inf:
        return torch.amax(size, dims, keepdim)
    if p == -math.inf:
        return torch.amin(size, dims, keepdim)
    return torch.pow(torch.sum(torch.pow(size, p), dims, keepdim), 1.0 / p)
