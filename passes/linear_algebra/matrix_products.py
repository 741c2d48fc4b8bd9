"""Products of vectors and matrices, as matrix products.

**What it rewrites.** ``dot``, ``vdot``, ``mv``, ``addmv``, ``addr``, ``outer``, ``ger``, ``addmm``, ``addbmm``,
``baddbmm`` and ``bilinear``, of floats, with any ``alpha`` and ``beta``.

**The identity.** A vector is a matrix of one row or column, and an outer product a broadcast multiplication. With
``beta = 0`` the added tensor is not read, as in PyTorch, so that its NaN stay out. ``addbmm`` adds up the products of a
batch: it is the one product of the matrices laid side by side. ``bilinear`` is ``sum_j (x1 @ W_o)_j x2_j``.

**Why the backend needs it.** Arm's partitioner does not know some of them, and its quantizer annotates only ``mm``,
``bmm``, ``matmul`` and arithmetic: what decomposes to these after it stays in float.

**What it leaves alone.** Integers and complex numbers.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes addmv and addbmm, and its quantizer annotates these ops; 1.5.1's do not"


@rewrite(aten.dot.default, aten.vdot.default)
def dot(x: Tensor, y: Tensor) -> Tensor:
    """A row times a column."""
    _check(x)
    return torch.mm(x.unsqueeze(0), y.unsqueeze(1)).reshape([])


@rewrite(aten.mv.default)
def mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """A matrix times a column."""
    _check(matrix)
    return torch.mm(matrix, vector.unsqueeze(1)).squeeze(1)


@rewrite(aten.addmv.default)
def addmv(x: Tensor, matrix: Tensor, vector: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """A matrix times a column, and a vector."""
    return _added(x, mv(matrix, vector), beta, alpha)


@rewrite(aten.outer.default, aten.ger.default)
def outer(x: Tensor, y: Tensor) -> Tensor:
    """A column times a row."""
    return x.unsqueeze(1) * y.unsqueeze(0)


@rewrite(aten.addr.default)
def addr(x: Tensor, one: Tensor, other: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """A column times a row, and a matrix."""
    _check(x, one)
    return _added(x, one.unsqueeze(1) * other.unsqueeze(0), beta, alpha)


@rewrite(aten.addmm.default)
def addmm(x: Tensor, one: Tensor, other: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """A product of matrices, and a matrix."""
    _check(x, one)
    return _added(x, torch.mm(one, other), beta, alpha)


@rewrite(aten.baddbmm.default)
def baddbmm(x: Tensor, one: Tensor, other: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Products of matrices, and a matrix for each."""
    _check(x, one)
    return _added(x, torch.bmm(one, other), beta, alpha)


@rewrite(aten.addbmm.default)
def addbmm(x: Tensor, one: Tensor, other: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """The sum of products of matrices, and a matrix."""
    _check(x, one)
    batch, rows, inner = one.shape
    left = one.permute(1, 0, 2).reshape(rows, batch * inner)
    right = other.reshape(batch * inner, other.shape[2])
    return _added(x, torch.mm(left, right), beta, alpha)


@rewrite(aten.bilinear.default)
def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The first vector times all matrices at once, then times the second vector."""
    _check(x1, x2)
    outputs, first, second = weight.shape
    lead = list(x1.shape[:-1])
    rows = x1.reshape(-1, first)
    partial = torch.mm(rows, weight.permute(1, 0, 2).reshape(first, outputs * second))
    result = torch.sum(partial.reshape(-1, outputs, second) * x2.reshape(-1, 1, second), [-1])
    result = result.reshape([*lead, outputs])
    return result if bias is None else result + bias


def _check(*tensors: Tensor) -> None:
    for x in tensors:
        if not x.is_floating_point():
            raise Decline(f"a product of {x.dtype} is not computed here")


def _added(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    product = product if alpha == 1 else product * float(alpha)
    if beta == 0:
        return product
    return (x if beta == 1 else x * float(beta)) + product
