"""argmin, as argmax of the order-reversed input.

**What it rewrites.** ``argmin(x, dim, keepdim)`` in every form.

**The identity.** Negation reverses the order of floats; of integers ``~x = -1 - x`` does, and unlike negation it
cannot overflow at the minimum. Ties go to the first of equals in both ops. NaN is the smallest to argmin and the
largest to argmax, and the negation of NaN is NaN.

**Why the backend needs it.** TOSA has ARGMAX only. Arm takes it along one given dimension, without ``keepdim``, and
where the index is read as int32; the second form has that shape.

**What it leaves alone.** Dimensions of 2**31 elements and more.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes argmin in every form; it is not in its support list in ExecuTorch 1.5.1"


@rewrite(aten.argmin.default)
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """As it stands."""
    return torch.argmax(_reversed(x), dim, keepdim)


@rewrite(aten.argmin.default, cost=2)
def argmin_int32(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Along one dimension, with an int32 index that is cast up at the end."""
    if x.dim() == 0 or x.numel() > (1 << 31) - 1:
        raise Decline("the index may not fit int32" if x.dim() else "it has no dimension to search")
    y = _reversed(x)
    if dim is None:
        index = torch.argmax(y.reshape(-1), 0).to(torch.int32)
        if keepdim:
            index = index.reshape([1] * x.dim())
    else:
        index = torch.argmax(y, dim).to(torch.int32)
        if keepdim:
            index = index.unsqueeze(dim)
    return index.to(torch.int64)


def _reversed(x: Tensor) -> Tensor:
    if x.is_complex():
        raise Decline("complex numbers have no order")
    return -x if x.is_floating_point() else ~x
