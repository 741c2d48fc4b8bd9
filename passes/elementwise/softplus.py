"""softplus, without the comparison and the branch it is decomposed to.

**What it rewrites.** ``softplus(x, beta, threshold)`` becomes ``relu(x) + log1p(exp(-|beta * x|)) / beta``.

**The identity.** ``log(1 + e^z) = max(z, 0) + log(1 + e^-|z|)``, with ``z = beta * x``. PyTorch returns ``x`` itself
where ``z`` is above ``threshold``; there the formula differs by at most ``e^-threshold``, which for thresholds of 15
and above (the default is 20) is below float32 rounding. For lower thresholds the branch is kept.

**Why the backend needs it.** The comparison and ``where`` are not quantized on Ethos-U, and XNNPACK has no ``log1p``:
there ``log(1 + .)`` serves, with an absolute error of at most half a unit in the last place of 1.

**What it leaves alone.** ``beta`` that is not positive.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

NEGLIGIBLE = 15.0
"""e^-15 = 3.1e-7 is added to at least 15, whose last place in float32 is 9.5e-7."""


@rewrite(aten.softplus.default)
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """By ``log1p``."""
    return _softplus(x, beta, threshold, torch.log1p)


@rewrite(aten.softplus.default, cost=2)
def softplus_by_log(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """By ``log``, for backends without ``log1p``."""
    return _softplus(x, beta, threshold, lambda y: torch.log(y + 1.0))


def _softplus(x: Tensor, beta: float, threshold: float, log1p: "type[Tensor] | object") -> Tensor:
    if not x.is_floating_point():
        raise Decline(f"softplus of {x.dtype} is not defined")
    beta, threshold = float(beta), float(threshold)
    if beta <= 0:
        raise Decline(f"beta is {beta}; the identity needs a positive one")
    y = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    z = y if beta == 1 else y * beta
    tail = log1p(torch.exp(-z.abs()))  # type: ignore[operator]
    result = torch.relu(y) + (tail if beta == 1 else tail * (1 / beta))
    if threshold < NEGLIGIBLE:
        result = torch.where(z > threshold, y, result)
    return result if result.dtype == x.dtype else result.to(x.dtype)
