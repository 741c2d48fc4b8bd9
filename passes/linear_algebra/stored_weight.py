"""Products with a stored matrix, as one product of matrices or a linear layer.

**What it rewrites.** ``matmul``, ``mm``, ``mv``, ``addmm`` and ``addmv`` with one factor that is a parameter, buffer or
constant, on either side, or a view of one: of any rank, with any ``alpha`` and ``beta``, and an added tensor of any
shape; ``linear`` whose weight is a vector.

**The identity.** The rows of all leading dimensions are the rows of one matrix. ``W @ x = (linear(x^T, W))^T``, so that
a stored factor on the left is a weight as it is. What is scaled, and what is added and is no bias, comes afterwards.
With ``beta = 0`` the added tensor is not read, as in PyTorch.

**Why the backend needs it.** XNNPACK packs a stored weight once, when the program is loaded, but only on the right and
as a matrix. It takes ``addmm`` with an ``alpha``, a ``beta`` or an added matrix and computes it without them, and dies
on a ``linear`` whose weight is a vector.

**What it leaves alone.** Products of two computed tensors. Integers and complex numbers.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite, stored

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes matmul with a stored factor, and addmm with all its arguments; ExecuTorch 1.5.1 does not"


@rewrite(aten.matmul.default, aten.mm.default, aten.mv.default, cost=0.5)
def matmul(x: Tensor, y: Tensor) -> Tensor:
    """One of the two is the weight."""
    _check(x, y)
    if stored(y) and y.dim() in (1, 2):
        return _right(x, y)
    if stored(x) and x.dim() in (1, 2):
        return _left(x, y)
    raise Decline("neither factor is a stored vector or matrix")


@rewrite(aten.addmm.default, aten.addmv.default, cost=0.5)
@rewrite(aten.addmm.default, wrong="it ignores alpha and beta, and takes a matrix for a bias")
def addmm(x: Tensor, one: Tensor, other: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """The product, and all else afterwards."""
    _check(x, one, other)
    bias = x.dim() == 1 and other.dim() == 2 and x.shape[0] == other.shape[1]
    if alpha == 1 and beta == 1 and bias and stored(x) and stored(other):
        raise Decline("it is a linear layer as it is")
    product = matmul(one, other)
    product = product if alpha == 1 else product * float(alpha)
    if beta == 0:
        return product
    return (x if beta == 1 else x * float(beta)) + product


@rewrite(aten.linear.default, wrong="the runtime dies on a weight that is a vector")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """With a weight of one row."""
    _check(x)
    if weight.dim() != 1:
        raise Decline("its weight is a matrix")
    y = matmul(x, weight)
    return y if bias is None else y + bias


def _right(x: Tensor, y: Tensor) -> Tensor:
    """``x @ y`` with a stored ``y``."""
    weight = y if y.dim() == 2 else y.reshape(-1, 1)
    lead = [*x.shape[:-1], weight.shape[1]] if y.dim() == 2 else list(x.shape[:-1])
    if not constant_sizes(x):
        product = F.linear(x, weight.t())
        return product if y.dim() == 2 else product.squeeze(-1)
    return torch.mm(x.reshape(-1, x.shape[-1]), weight).reshape(lead)


def _left(x: Tensor, y: Tensor) -> Tensor:
    """``x @ y`` with a stored ``x``."""
    weight = x if x.dim() == 2 else x.reshape(1, -1)
    if y.dim() == 1:
        return F.linear(y.reshape(1, -1), weight).reshape(list(x.shape[:-1]))
    product = F.linear(y.transpose(-1, -2), weight)
    if x.dim() == 2:
        return product.transpose(-1, -2)
    return product.reshape([*y.shape[:-2], y.shape[-1]]) if constant_sizes(y) else product.squeeze(-1)


def _check(*tensors: Tensor) -> None:
    for x in tensors:
        if not x.is_floating_point():
            raise Decline(f"a product of {x.dtype} is not computed here")
