"""Products of batches of matrices, as those of one batch dimension.

**What it rewrites.** ``matmul`` of two batches of matrices, of float32.

**The identity.** All batch dimensions become one; where one tensor has a batch dimension of size one, it is repeated.

**Why the backend needs it.** ``to_edge`` puts an ``expand`` before the product, even one that changes nothing, and
XNNPACK does not take it.

**What it leaves alone.** Vectors and single matrices, other types, symbolic sizes, and empty tensors.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "XNNPACK takes expand, or to_edge leaves out those that change nothing; not so in ExecuTorch 1.5.1"


@rewrite(aten.matmul.default)
def matmul(self: Tensor, other: Tensor) -> Tensor:
    """By ``bmm``."""
    if self.dim() < 3 or other.dim() < 3:
        raise Decline("it is not of two batches")
    for x in (self, other):
        if not x.is_floating_point() or not all(isinstance(size, int) for size in x.shape):
            raise Decline("a product of integers, or a size that is symbolic")
        if x.numel() == 0:
            raise Decline("it is of no element")
    batches = list(torch.broadcast_shapes(self.shape[:-2], other.shape[:-2]))
    product = torch.bmm(_batch(self, batches), _batch(other, batches))
    return product.reshape([*batches, self.shape[-2], other.shape[-1]])


def _batch(x: Tensor, batches: list[int]) -> Tensor:
    if list(x.shape[:-2]) != batches:
        x = x.expand([*batches, *x.shape[-2:]])
    return x.reshape([math.prod(batches), *x.shape[-2:]])
