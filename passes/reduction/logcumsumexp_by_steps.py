"""logcumsumexp in steps of one, two, four, ...

**What it rewrites.** ``logcumsumexp`` of float32.

**The identity.** ``logaddexp`` of a row and the same row moved by one, with negative infinity where nothing is left,
holds sums of two neighbours; of that and of that moved by two, sums of four, and so on.

**Why the backend needs it.** XNNPACK has no Booleans, hence no choice of the elements that come before each.

**What it leaves alone.** Other types, symbolic sizes, and more than 4096 elements in a row.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._signs import float32
from lowerfix.passes.elementwise.log_add_exp_by_clamp import logaddexp
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes logcumsumexp; ExecuTorch 1.5.1's does not"

LONGEST = 4096


@rewrite(aten.logcumsumexp.default, cost=0.5)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Along one dimension."""
    float32(x)
    if not constant_sizes(x):
        raise Decline("a size is symbolic")
    if x.dim() == 0 or x.numel() == 0:
        raise Decline("there is nothing to add up")
    size = x.shape[dim]
    if size > LONGEST:
        raise Decline(f"{size} elements in a row are more than the {LONGEST} that are worth it")
    at = dim % x.dim()
    y = x.reshape(math.prod(x.shape[:at]), size, math.prod(x.shape[at + 1 :]))
    step = 1
    while step < size:
        moved = F.pad(aten.slice.Tensor(y, 1, 0, size - step), (0, 0, step, 0), value=-torch.inf)
        y = logaddexp(y, moved)
        step *= 2
    return y.reshape(x.shape) if size > 1 else x.clone()
