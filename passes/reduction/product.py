"""Products, whole and cumulative, as multiplications.

**What it rewrites.** ``prod`` of all elements or along one dimension, and ``cumprod``, of floats.

**The identity.** The product of all elements is that along the one dimension of the flattened tensor. Where there is no
such op, it is multiplied in halves. A running product is the previous one times the next element.

**Why the backend needs it.** Arm takes ``prod`` along a dimension, and in floats only; it has no ``cumprod``.

**What it leaves alone.** Integers, whose product soon exceeds int32, and ``cumprod`` of more than 128 elements, which
would be as many ops. PyTorch accumulates ``cumprod`` in float64: where a product leaves the range of float32 and comes
back into it, PyTorch returns that and float32 infinity, zero or NaN. The order in which ``prod`` multiplies is not
specified by either.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes prod in every form, and cumprod; ExecuTorch 1.5.1 takes prod of floats along a dimension"

LONGEST = 128
"""Of a running product, in elements."""
WIDEST = 1024
"""Of a product by halves, in elements."""


@rewrite(aten.prod.default)
def prod_of_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Flattened."""
    return torch.prod(_prepared(x, dtype).reshape(-1), 0)


@rewrite(aten.prod.default, cost=2)
def prod_of_all_by_halves(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Flattened, and multiplied in halves."""
    return _halved(_prepared(x, dtype).reshape(-1), 0).squeeze(0)


@rewrite(aten.prod.dim_int, cost=2)
def prod_by_halves(x: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Along one dimension, multiplied in halves."""
    y = _prepared(x, dtype)
    if x.dim() == 0:
        return y * 1.0
    product = _halved(y, dim)
    return product if keepdim else product.squeeze(dim)


@rewrite(aten.cumprod.default)
def cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """One element after the other."""
    y = _prepared(x, dtype)
    size = x.shape[dim] if x.dim() else 1
    if size > LONGEST:
        raise Decline(f"a running product of {size} elements would be as many ops; {LONGEST} are the most")
    if size < 2:
        return y * 1.0
    running = [aten.slice.Tensor(y, dim, 0, 1)]
    for position in range(1, size):
        running.append(running[-1] * aten.slice.Tensor(y, dim, position, position + 1))
    return torch.cat(running, dim)


def _prepared(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    result = dtype or x.dtype
    if result not in (torch.float32, torch.float16, torch.bfloat16):
        raise Decline(f"a product in {result} is not computed here")
    return x if x.dtype == result else x.to(result)


def _halved(y: Tensor, dim: int) -> Tensor:
    """The product along a dimension, which is kept."""
    size = y.shape[dim]
    if size == 0 or size > WIDEST:
        raise Decline(f"a product of {size} elements is not multiplied in halves")
    if size == 1:
        return y * 1.0
    while size > 1:
        half = size // 2
        product = aten.slice.Tensor(y, dim, 0, half) * aten.slice.Tensor(y, dim, half, 2 * half)
        y = torch.cat([product, aten.slice.Tensor(y, dim, 2 * half, size)], dim) if size % 2 else product
        size = size - half
    return y
