"""log1p for backends without it and without comparisons.

**What it rewrites.** ``log1p`` of float32.

**The identity.** With ``w = 1 + x``, ``log1p(x) = log(w) + (x - (w - 1)) / w``: the second term corrects, to first
order, what was rounded off in ``w``, so that small results keep their digits. It is computed of ``x`` cut off where it
would divide zero or infinity; there the logarithm alone is right.

**Why the backend needs it.** XNNPACK takes ``log``, and neither ``log1p`` nor Booleans.

**What it leaves alone.** Other types.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes log1p; ExecuTorch 1.5.1's does not"

NEARLY_ONE = 1.0 - 2.0**-24
LARGE = 2.0**30
"""Above, what the correction is worth is below rounding."""


@rewrite(aten.log1p.default, aten.special_log1p.default, cost=8)
def log1p(x: Tensor) -> Tensor:
    """``log(w) + (x - (w - 1)) / w``."""
    if x.dtype != torch.float32:
        raise Decline(f"it is of {x.dtype}")
    bounded = torch.clamp(x, -NEARLY_ONE, LARGE)
    near = bounded + 1.0
    return torch.log(x + 1.0) + (bounded - (near - 1.0)) / near


@rewrite(aten.log_sigmoid.default, cost=8)
def log_sigmoid(x: Tensor) -> Tensor:
    """``min(x, 0) - log1p(e^-|x|)``."""
    if x.dtype != torch.float32:
        raise Decline(f"it is of {x.dtype}")
    return torch.clamp(x, max=0.0) - log1p(torch.exp(-x.abs()))
