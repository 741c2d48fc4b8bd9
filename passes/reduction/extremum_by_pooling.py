"""amax and amin as max pooling.

**What it rewrites.** ``amax`` and ``amin`` of floats over any dimensions, and ``max`` and ``min`` along one where only
the values are read.

**The identity.** The reduced dimensions become the width of a view ``[1, 1, rows, count]``, which is pooled by a kernel
as wide. Of NaN in it a backend's pooling may know nothing; so zero times the mean of the elements, cut off at -1 and 1,
is added, which is NaN where one of them is, and else zero. ``amin(x) = -amax(-x)``.

**Why the backend needs it.** XNNPACK takes max pooling, and no ``amax``.

**What it leaves alone.** Integers, symbolic sizes, empty tensors, and indices that are read.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.reduction.mean_of_rows import as_rows, restored
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes amax and amin; ExecuTorch 1.5.1's does not"


@rewrite(aten.amax.default, cost=8)
def amax(x: Tensor, dim: list[int] = [], keepdim: bool = False) -> Tensor:  # noqa: B006
    """The largest."""
    return _largest(x, dim, keepdim)


@rewrite(aten.amin.default, cost=8)
def amin(x: Tensor, dim: list[int] = [], keepdim: bool = False) -> Tensor:  # noqa: B006
    """The smallest."""
    return -_largest(-x, dim, keepdim)


def _largest(x: Tensor, dim: list[int], keepdim: bool) -> Tensor:
    if not x.is_floating_point():
        raise Decline(f"there is no pooling of {x.dtype}")
    rows, dims = as_rows(x, dim)
    pooled = F.max_pool2d(rows, [1, rows.shape[3]])
    nan = torch.mean(torch.clamp(rows, -1.0, 1.0), [2, 3], True) * 0.0
    return restored(pooled + nan, x, dims, keepdim)
