"""ELU, SELU, CELU and expm1 by a hyperbolic tangent.

**What it rewrites.** ``elu``, ``selu``, ``celu`` and ``expm1``.

**The identity.** ``e^x - 1 = tanh(x / 2) * (e^x + 1)``, in which nothing cancels, so that small results keep their
digits. ``elu(x) = relu(x) + alpha * expm1(min(x, 0))``: one of the two is zero.

**Why the backend needs it.** XNNPACK's partitioner takes ``tanh`` and ``exp``, and none of these.

**What it leaves alone.** Integers, and half precision, which PyTorch computes in float32.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK's partitioner takes elu and expm1; it does not in ExecuTorch 1.5.1"

ALPHA, SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""SELU's constants."""


@rewrite(aten.elu.default, cost=8)
def elu(x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """``scale * (relu(x) + alpha * expm1(min(x, 0) * input_scale))``."""
    if input_scale <= 0:
        raise Decline("a negative scale of the input lets e^x overflow")
    below = _expm1(_scaled(torch.clamp(_checked(x), max=0.0), float(input_scale)))
    return _scaled(torch.relu(x), float(scale)) + _scaled(below, float(alpha) * float(scale))


@rewrite(aten.selu.default, cost=8)
def selu(x: Tensor) -> Tensor:
    """ELU with constants of its own."""
    return elu(x, ALPHA, SCALE)


@rewrite(aten.celu.default, cost=8)
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """``relu(x) + alpha * expm1(min(x, 0) / alpha)``."""
    return elu(x, alpha, 1.0, 1.0 / float(alpha))


@rewrite(aten.expm1.default, aten.special_expm1.default, cost=8)
def expm1(x: Tensor) -> Tensor:
    """``tanh(x / 2) * (e^x + 1)``."""
    return _expm1(_checked(x))


def _expm1(x: Tensor) -> Tensor:
    return torch.tanh(x * 0.5) * (torch.exp(x) + 1.0)


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else x * factor


def _checked(x: Tensor) -> Tensor:
    if x.dtype not in (torch.float32, torch.float64):
        raise Decline(f"it is of {x.dtype}")
    return x
