"""Losses without a comparison.

**What it rewrites.** ``smooth_l1_loss``, ``huber_loss`` and ``poisson_nll_loss`` of float32, with every reduction.

**The identity.** With ``d = |x - y|`` and ``m = min(d, delta)``, Huber's loss is ``m * (d - m / 2)``: half of ``d^2``
where ``m`` is ``d``, and else ``delta * (d - delta / 2)``. ``smooth_l1_loss`` is the same, divided by ``beta``, before
it can overflow. Stirling's approximation in ``poisson_nll_loss`` is computed of what is above one, and else of one, and
multiplied by one or zero.

**Why the backend needs it.** XNNPACK has no Booleans, hence neither comparisons nor ``where``.

**What it leaves alone.** Other types.
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

NONE, MEAN = 0, 1


@rewrite(aten.smooth_l1_loss.default, cost=0.5)
def smooth_l1_loss(self: Tensor, target: Tensor, reduction: int = MEAN, beta: float = 1.0) -> Tensor:
    """Quadratic below ``beta``."""
    float32(self, target)
    distance = (self - target).abs()
    if beta == 0:
        return reduced(distance, reduction)
    if not beta > 0:
        raise Decline(f"beta is {beta}")
    least = torch.clamp(distance, max=float(beta))
    return reduced((least / float(beta)) * (distance - least * 0.5), reduction)


@rewrite(aten.huber_loss.default, cost=0.5)
def huber_loss(self: Tensor, target: Tensor, reduction: int = MEAN, delta: float = 1.0) -> Tensor:
    """Quadratic below ``delta``."""
    float32(self, target)
    if not delta > 0:
        raise Decline(f"delta is {delta}")
    distance = (self - target).abs()
    least = torch.clamp(distance, max=float(delta))
    return reduced(least * (distance - least * 0.5), reduction)


@rewrite(aten.poisson_nll_loss.default, cost=0.5)
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """With or without Stirling's approximation."""
    float32(input, target)
    rate, logarithm = (torch.exp(input), input) if log_input else (input, torch.log(input + float(eps)))
    loss = rate - target * logarithm
    if full:
        count = torch.clamp(target, min=1.0)
        approximation = count * torch.log(count) - count + torch.log(count * (2 * math.pi)) * 0.5
        loss = loss + approximation * above(target - 1.0)
    return reduced(loss, reduction)


def reduced(loss: Tensor, reduction: int) -> Tensor:
    """A loss of each element, or their mean or sum."""
    if reduction == NONE:
        return loss
    dims = list(range(loss.dim()))
    return torch.mean(loss, dims) if reduction == MEAN else torch.sum(loss, dims)
