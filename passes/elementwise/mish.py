"""Mish from sigmoid and products.

**What it rewrites.** ``mish(x) = x * tanh(softplus(x))``.

**The identity.** With ``s = sigmoid(-x) = 1 / (1 + e^x)`` and ``t = sigmoid(x) = 1 - s``,
``tanh(log(1 + e^x)) = ((1 + e^x)^2 - 1) / ((1 + e^x)^2 + 1) = (1 - s^2) / (1 + s^2) = t * (1 + s) / (1 + s^2)``.
Written with ``t``, nothing cancels: the relative error is a few roundings for every ``x``, and infinities and NaN go
where they go in PyTorch.

**Why the backend needs it.** Ethos-U's quantizer does not know Mish, so it stays in float on the CPU; XNNPACK lacks the
``log1p`` and the comparison that it is decomposed to.

**What it leaves alone.** Integer inputs, for which Mish is not defined.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten


@rewrite(aten.mish.default)
def mish(x: Tensor) -> Tensor:
    """``x * t * (1 + s) / (1 + s * s)``; half precision is computed in float32, as PyTorch does."""
    if not x.is_floating_point():
        raise Decline(f"Mish of {x.dtype} is not defined")
    y = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    s, t = torch.sigmoid(-y), torch.sigmoid(y)
    result = y * (t * (s + 1.0) / (s * s + 1.0))
    return result if result.dtype == x.dtype else result.to(x.dtype)
