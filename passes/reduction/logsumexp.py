"""logsumexp without a comparison.

**What it rewrites.** ``logsumexp`` of floats, over any dimensions.

**The identity.** ``log(sum(exp(x - m))) + m``, where ``m`` is the largest element, cut off at the largest and lowest
floats. So an infinite one leaves the difference infinite: ``x - m`` is infinity for infinity, and negative infinity
where all are; the result is that infinity again.

**Why the backend needs it.** ``to_edge`` asks whether the largest element is infinite, and XNNPACK has no Booleans.

**What it leaves alone.** Integers, half precision, and empty tensors.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes logsumexp; ExecuTorch 1.5.1's does not"


@rewrite(aten.logsumexp.default, cost=8)
def logsumexp(x: Tensor, dim: list[int], keepdim: bool = False) -> Tensor:
    """Around the largest element."""
    if x.dtype not in (torch.float32, torch.float64):
        raise Decline(f"it is of {x.dtype}")
    if x.numel() == 0 or x.dim() == 0:
        raise Decline("it is of no element, or has no dimension")
    info, dims = torch.finfo(x.dtype), list(dim) or list(range(x.dim()))
    largest = torch.clamp(torch.amax(x, dims, True), info.min, info.max)
    result = torch.log(torch.sum(torch.exp(x - largest), dims, True)) + largest
    dropped = {d % x.dim() for d in dims}
    return result if keepdim else result.reshape([s for d, s in enumerate(x.shape) if d not in dropped])
