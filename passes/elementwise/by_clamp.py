"""Piecewise functions without a comparison, by clamps.

**What it rewrites.** ``hardsigmoid``, ``hardshrink``, ``softshrink``, ``threshold``, ``sinc``, ``logit``,
``angle`` of real numbers, and ``clamp``, ``clamp_min`` and ``clamp_max`` with tensors.

**The identity.** ``softshrink(x) = x - clamp(x, -l, l)``. Whether ``d`` is above zero is ``clamp(d * 2^127 * 2^23, 0,
1)``: exactly one or zero, for the smallest ``d`` as well, and NaN for NaN. So ``hardshrink(x) = x * above(|x| - l)``,
and ``threshold(x, t, v) = max(x, t) * s + v * (1 - s)`` with ``s = above(x - t)``, where infinity is never multiplied
by zero. ``sinc`` divides one by one at zero, and ``angle`` is pi where ``-x`` is above it. A clamp between tensors is
``minimum(high, maximum(low, x))``.

**Why the backend needs it.** XNNPACK has no Booleans, hence neither comparisons nor ``where``.

**What it leaves alone.** Integers, several types, and thresholds that are infinite.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._signs import above, float32
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes comparisons and where; ExecuTorch 1.5.1's has no Booleans"


@rewrite(aten.hardsigmoid.default, cost=8)
def hardsigmoid(x: Tensor) -> Tensor:
    """``clamp(x + 3, 0, 6) / 6``."""
    float32(x)
    return torch.clamp(x + 3.0, 0.0, 6.0) / 6.0


@rewrite(aten.softshrink.default, cost=8)
def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """``x - clamp(x, -l, l)``."""
    float32(x)
    return x - torch.clamp(x, -float(lambd), float(lambd))


@rewrite(aten.hardshrink.default, cost=8)
def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """``x * above(|x| - l)``."""
    float32(x)
    if not math.isfinite(lambd):
        raise Decline(f"the threshold is {lambd}")
    if lambd < 0:
        return x.clone()  # nothing lies between a positive and a negative number
    return x * above(x.abs() - float(lambd))


@rewrite(aten.threshold.default, cost=8)
def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """``max(x, t) * s + v * (1 - s)``."""
    float32(x)
    if not math.isfinite(threshold) or not math.isfinite(value):
        raise Decline("the threshold or the value is infinite")
    step = above(x - float(threshold))
    kept = torch.clamp(x, min=float(threshold)) * step
    return kept if value == 0 else kept + (1.0 - step) * float(value)


@rewrite(aten.sinc.default, aten.special_sinc.default, cost=0.5)
def sinc(x: Tensor) -> Tensor:
    """``sin(pi x) / (pi x)``, one at zero."""
    float32(x)
    y = x * math.pi
    zero = 1.0 - above(y.abs())
    return (torch.sin(y) + zero) / (y + zero)


@rewrite(aten.logit.default, aten.special_logit.default, cost=0.5)
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """``log(x / (1 - x))``, where ``eps`` is given of what is cut off at it and at ``1 - eps``."""
    float32(x)
    if eps is not None and not 0 <= eps <= 0.5:
        raise Decline(f"it is cut off at {eps}")
    y = x if eps is None else torch.clamp(x, float(eps), 1.0 - float(eps))
    return torch.log(y / (1.0 - y))


@rewrite(aten.angle.default, cost=0.5)
def angle(x: Tensor) -> Tensor:
    """Pi below zero."""
    float32(x)
    return above(-x) * math.pi


@rewrite(aten.clamp.Tensor, cost=8)
def clamp(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """Between tensors. The bound comes first: where one of two is NaN, XNNPACK returns the second."""
    float32(x)
    result = x
    for bound, function in ((min, torch.maximum), (max, torch.minimum)):
        if bound is not None:
            if bound.dtype != x.dtype:
                raise Decline(f"it is of {x.dtype} and {bound.dtype}")
            result = function(bound, result)
    return result


@rewrite(aten.clamp_min.Tensor, cost=8)
def clamp_min(x: Tensor, min: Tensor) -> Tensor:
    """Not below a tensor."""
    return clamp(x, min)


@rewrite(aten.clamp_max.Tensor, cost=8)
def clamp_max(x: Tensor, max: Tensor) -> Tensor:
    """Not above a tensor."""
    return clamp(x, None, max)
