"""Mish as SiLU and a small correction; in int8 as ``x`` times a chain of table lookups.

**What it rewrites.** ``mish(x) = x * tanh(softplus(x))``.

**The identity.** With ``s = sigmoid(-x) = 1 / (1 + e^x)`` and ``t = sigmoid(x) = 1 - s``, ``tanh(log(1 + e^x)) = ((1 +
e^x)^2 - 1) / ((1 + e^x)^2 + 1) = (1 - s^2) / (1 + s^2) = t * (1 + s) / (1 + s^2)``, so ``mish(x) = x * t + x * t * (s
- s^2) / (1 + s^2) = silu(x) + x * s * t^2 / (1 + s^2)``. Nothing cancels: both terms have the sign of ``x``. The
second one is below 5e-8 for ``x`` above 20, where it is taken at 20 (float64: at 40), so that infinity times zero does
not arise.

In int8: with ``s = tan(a)``, ``(1 - s^2) / (1 + s^2) = cos(2 * a)``, so ``mish(x) = x * cos(2 * atan(sigmoid(-x)))``.
The cosine is kept from falling below zero by its rounding, so that the result for large negative ``x`` is zero. In
float32 the error is at most 2e-6.

**Why the backend needs it.** Ethos-U's quantizer does not know Mish, so it stays in float on the CPU; XNNPACK lacks
the ``log1p`` and the comparison that it is decomposed to. On Ethos-U a function of one value is a table of 256 entries.
In ``cos(2 * atan(sigmoid(-x)))`` each step is one, or an exact doubling, and no intermediate has a wider range than
``[0, 2]``. For inputs in [-8, 8] on Ethos-U85 the rms error of this form is 0.0160, which is that of SiLU alone, in
9,856 cycles for 4096 elements; the form for floats has 0.0171 in 34,368, and ``x * tanh(-log(sigmoid(-x)))`` 0.0235 in
12,224.

**What it leaves alone.** Integer inputs, for which Mish is not defined.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "the Ethos-U quantizer annotates Mish, and XNNPACK takes it; neither does in ExecuTorch 1.5.1"


@rewrite(aten.mish.default, cost=0.5)
def mish_in_int8(x: Tensor) -> Tensor:
    """``x * cos(2 * atan(sigmoid(-x)))``."""
    if not in_int8():
        raise Decline("it loses the relative accuracy of small results, which int8 does not have")
    if x.dtype != torch.float32:
        raise Decline(f"Mish of {x.dtype} is not quantized")
    return x * torch.relu(torch.cos(torch.atan(torch.sigmoid(-x)) * 2.0))


@rewrite(aten.mish.default)
def mish(x: Tensor) -> Tensor:
    """``silu(x) + x * s * t^2 / (1 + s^2)``; half precision is computed in float32, as PyTorch does."""
    if not x.is_floating_point():
        raise Decline(f"Mish of {x.dtype} is not defined")
    y = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    bounded = torch.clamp(y, max=40.0 if x.dtype == torch.float64 else 20.0)
    s, t = torch.sigmoid(-bounded), torch.sigmoid(bounded)
    result = F.silu(y) + bounded * (s * t * t / (s * s + 1.0))
    return result if result.dtype == x.dtype else result.to(x.dtype)
