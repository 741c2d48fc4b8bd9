"""softmax over any dimension, as over the last one.

**What it rewrites.** ``softmax`` and ``_softmax`` over another dimension than the last.

**The identity.** The dimension changes places with the last one before, and back after.

**Why the backend needs it.** XNNPACK takes the last dimension only.

**What it leaves alone.** A softmax over the last dimension, integers, and results in another type.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes softmax over any dimension; ExecuTorch 1.5.1's takes the last one"


@rewrite(aten.softmax.int)
def softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """As PyTorch spells it in a model."""
    if not x.is_floating_point() or dtype not in (None, x.dtype):
        raise Decline("it is of integers, or to be computed in another type")
    if x.dim() == 0:
        return torch.softmax(x.reshape(1), 0).reshape([])
    if dim % x.dim() == x.dim() - 1:
        raise Decline("it is over the last dimension")
    return torch.softmax(x.transpose(dim, -1), -1).transpose(dim, -1)


@rewrite(aten._softmax.default)
def decomposed_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """As it stands in a program that was decomposed already."""
    return softmax(x, dim, torch.float32 if half_to_float else None)
