"""A softmax that is zero where all of a row is negative infinity.

**What it rewrites.** ``_safe_softmax``, the softmax of masked attention scores, of float32.

**The identity.** With ``m`` the largest element of a row, but not below the lowest float, it is ``exp(x - m)`` divided
by its sum. Where all is negative infinity, both are zero, and one is added to the sum. Zero times ``m`` is added too,
which makes NaN of NaN and of infinity.

**Why the backend needs it.** ``to_edge`` asks for each row whether all of it is negative infinity, and XNNPACK has no
Booleans.

**What it leaves alone.** Other types, symbolic sizes, and empty tensors.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._signs import LARGEST, above
from lowerfix.passes.reduction.extremum_by_pooling import amax
from lowerfix.passes.reduction.mean_of_rows import sum_
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes _safe_softmax, or comparisons; ExecuTorch 1.5.1's has no Booleans"


@rewrite(aten._safe_softmax.default, cost=0.5)
def safe_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Around the largest element."""
    if x.dtype != torch.float32 or dtype not in (None, x.dtype):
        raise Decline(f"it is of {x.dtype}, or to be computed in another type")
    if not constant_sizes(x) or x.numel() == 0 or x.dim() == 0:
        raise Decline("a size is symbolic, or it is of no element, or has no dimension")
    largest = torch.clamp(amax(x, [dim], True), min=-LARGEST)
    powers = torch.exp(x - largest)
    total = sum_(powers, [dim], True)
    return powers / (total + (1.0 - above(total)) + largest * 0.0)
