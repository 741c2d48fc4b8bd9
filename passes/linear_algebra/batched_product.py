"""Products of two computed tensors, as batched products.

**What it rewrites.** ``matmul`` of any ranks, ``mm``, ``mv``, ``dot``, ``vdot``, ``addmm``, ``addmv``, ``baddbmm`` and
``linear`` whose weight is computed, of floats of constant sizes.

**The identity.** A product of matrices is a batch of one, and leading dimensions are one batch. Where only the first
tensor has leading dimensions, its rows are the rows of one matrix. Where one has a leading dimension of size one and
the other has not, it is multiplied by ones, which repeats it and changes no bit.

**Why the backend needs it.** XNNPACK multiplies two computed matrices by ``bmm`` alone; it takes the second factor of
``mm``, ``addmm`` and ``linear`` for a weight that is known before the program runs, and has no ``expand``.

**What it leaves alone.** Integers and complex numbers, and symbolic sizes.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes mm, addmm and linear of computed matrices, and expand; ExecuTorch 1.5.1 does not"


@rewrite(aten.matmul.default, aten.mm.default, aten.mv.default, aten.dot.default, aten.vdot.default, cost=6)
def matmul(x: Tensor, y: Tensor) -> Tensor:
    """As one batch."""
    for tensor in (x, y):
        if not tensor.is_floating_point():
            raise Decline(f"a product of {tensor.dtype} is not computed here")
        if not constant_sizes(tensor):
            raise Decline("a size is symbolic; export with constant ones")
    left = x if x.dim() > 1 else x.reshape(1, -1)
    right = y if y.dim() > 1 else y.reshape(-1, 1)
    rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    batch = list(torch.broadcast_shapes(left.shape[:-2], right.shape[:-2]))
    if math.prod(right.shape[:-2]) == 1:
        product = torch.bmm(left.reshape(1, -1, inner), right.reshape(1, inner, columns))
    else:
        count = math.prod(batch)
        product = torch.bmm(
            _repeated(left, batch).reshape(count, rows, inner), _repeated(right, batch).reshape(count, inner, columns)
        )
    return product.reshape([*batch, *([rows] if x.dim() > 1 else []), *([columns] if y.dim() > 1 else [])])


@rewrite(aten.addmm.default, aten.addmv.default, aten.baddbmm.default, cost=6)
def addmm(x: Tensor, one: Tensor, other: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """A product and a sum."""
    product = matmul(one, other)
    product = product if alpha == 1 else product * float(alpha)
    if beta == 0:
        return product
    return (x if beta == 1 else x * float(beta)) + product


@rewrite(aten.linear.default, cost=6)
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A product with the transposed weight, and a sum."""
    y = matmul(x, weight if weight.dim() == 1 else weight.transpose(0, 1))
    return y if bias is None else y + bias


def _repeated(x: Tensor, batch: list[int]) -> Tensor:
    """With leading dimensions of these sizes."""
    shape = [1] * (len(batch) + 2 - x.dim()) + list(x.shape)
    x = x.reshape(shape)
    if shape[:-2] == batch:
        return x
    ones = [wide if size == 1 else 1 for size, wide in zip(shape, batch, strict=False)]
    return x * torch.ones([*ones, 1, 1], dtype=x.dtype)
