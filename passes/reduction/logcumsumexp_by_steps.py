"""logcumsumexp in steps of one, two, four, ...

**What it rewrites.** ``logcumsumexp`` of float32.

**The identity.** ``logaddexp`` of a row and the same row moved by one, with negative infinity where nothing is left,
holds sums of two neighbours; of that and of that moved by two, sums of four, and so on.

**Why the backend needs it.** XNNPACK has no Booleans, hence no choice of the elements that come before each.

**What it leaves alone.** Other types, symbolic sizes, and more than 4096 elements in a row.
"""

import torch
from torch import Tensor

from lowerfix.passes.elementwise._signs import float32
from lowerfix.passes.elementwise.log_add_exp_by_clamp import logaddexp
from lowerfix.passes.reduction.running_sum import in_steps
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes logcumsumexp; ExecuTorch 1.5.1's does not"


@rewrite(aten.logcumsumexp.default, cost=0.5)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Along one dimension."""
    float32(x)
    return in_steps(x, dim, logaddexp, -torch.inf)
