"""The tanh form of GELU, where the backend computes the exact form instead.

**What it rewrites.** ``gelu(x, approximate="tanh")``.

**The identity.** ``0.5 * (1 + tanh(z)) = sigmoid(2 * z)``, so it is ``x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 *
x^3))``.

**Why the backend needs it.** XNNPACK takes it, but its GELU is the exact one: results differ by up to 5e-4. GPT-2,
Gemma and SigLIP use this form.

**What it leaves alone.** The exact form, int8, where it is a table, and half precision.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import in_int8, rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK's partitioner asks for the form of GELU; that of ExecuTorch 1.5.1 takes both for the exact one"


@rewrite(aten.gelu.default, wrong="its GELU is the exact form, whichever is asked for")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """``x * sigmoid(2 * z)``."""
    if approximate != "tanh":
        raise Decline("it is the exact form")
    if in_int8() or x.dtype != torch.float32:
        raise Decline("in int8 it is a table" if in_int8() else f"it is of {x.dtype}")
    factor = 2.0 * math.sqrt(2.0 / math.pi)
    return x * torch.sigmoid((x * x * x * 0.044715 + x) * factor)
