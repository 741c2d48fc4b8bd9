"""Hyperbolic sine and cosine, and the tangent, from what backends have.

**What it rewrites.** ``sinh``, ``cosh`` and ``tan`` of float32.

**The identity.** ``cosh(x) = (e^(|x| / 2) / 2) * e^(|x| / 2) + e^-|x| / 2``, which does not overflow before the result
does. ``sinh(x) = tanh(x) * cosh(x)``, which keeps the digits of small numbers. Zero times ``x``, cut off at -1 and 1,
is added to make NaN of NaN where the exponential may not. ``tan(x) = sin(x) / cos(x)``.

**Why the backend needs it.** XNNPACK takes ``exp``, ``tanh``, ``sin`` and ``cos``, and none of these.

**What it leaves alone.** Other types.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes sinh, cosh and tan; ExecuTorch 1.5.1's does not"


@rewrite(aten.cosh.default, cost=8)
def cosh(x: Tensor) -> Tensor:
    """By exponentials."""
    size = _checked(x).abs()
    half = torch.exp(size * 0.5)
    return (half * 0.5) * half + torch.exp(-size) * 0.5 + torch.clamp(x, -1.0, 1.0) * 0.0


@rewrite(aten.sinh.default, cost=8)
def sinh(x: Tensor) -> Tensor:
    """``tanh(x) * cosh(x)``."""
    return torch.tanh(x) * cosh(x)


@rewrite(aten.tan.default, cost=8)
def tan(x: Tensor) -> Tensor:
    """``sin(x) / cos(x)``."""
    return torch.sin(_checked(x)) / torch.cos(x)


def _checked(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        raise Decline(f"it is of {x.dtype}")
    return x
