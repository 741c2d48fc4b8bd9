"""softplus, without the comparison and the branch it is decomposed to.

**What it rewrites.** ``softplus(x, beta, threshold)`` becomes ``relu(x) + log1p(exp(-|beta * x|)) / beta``.

**The identity.** ``log(1 + e^z) = max(z, 0) + log(1 + e^-|z|)``, with ``z = beta * x``. PyTorch returns ``x`` itself
where ``z`` is above ``threshold``; there the formula differs by at most ``e^-threshold``, which for thresholds of 15
and above (the default is 20) is below float32 rounding. For lower thresholds the branch is kept.

**Why the backend needs it.** The comparison and ``where`` are not quantized on Ethos-U, and XNNPACK has no ``log1p``.
There ``log1p(u) = log(w) + (u - (w - 1)) / w`` with ``w = 1 + u`` serves: the second term is the first-order
correction for what was rounded off in ``w``, so small results keep their relative accuracy. A low threshold is kept
there by multiplying the logarithm by one or zero.

**What it leaves alone.** A ``beta`` below 1e-3 or above 1e3, for which rounding is magnified; and a ``threshold``
above ``log(max)`` of the type (88.7 in float32), with which PyTorch's own formula overflows to infinity.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise._signs import above
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "the Ethos-U quantizer annotates softplus, and XNNPACK takes it; neither does in ExecuTorch 1.5.1"

NEGLIGIBLE = 15.0
"""e^-15 = 3.1e-7 is added to at least 15, whose last place in float32 is 9.5e-7."""


@rewrite(aten.softplus.default)
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """By ``log1p``."""
    return _softplus(x, beta, threshold, torch.log1p)


@rewrite(aten.softplus.default, cost=2)
def softplus_by_log(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """By ``log``, for backends without ``log1p``."""
    return _softplus(x, beta, threshold, _log1p)


@rewrite(aten.softplus.default, cost=3, on="xnnpack")
def softplus_by_clamp(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """By ``log``, with a low threshold, where there are no comparisons: the logarithm, always finite, counts or not."""
    return _softplus(x, beta, threshold, _log1p, by_clamp=True)


def _softplus(
    x: Tensor, beta: float, threshold: float, log1p: Callable[[Tensor], Tensor], by_clamp: bool = False
) -> Tensor:
    if not x.is_floating_point():
        raise Decline(f"softplus of {x.dtype} is not defined")
    y = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    beta, threshold = float(beta), float(threshold)
    if not 1e-3 <= beta <= 1e3:
        raise Decline(f"beta is {beta}; between 1e-3 and 1e3 the identity holds within rounding")
    largest = math.log(torch.finfo(y.dtype).max)
    if not threshold <= largest:
        raise Decline(f"with the threshold {threshold} PyTorch's own formula overflows above {largest:.1f}")
    z = y if beta == 1 else y * beta
    tail = log1p(torch.exp(-z.abs()))
    if by_clamp:
        if threshold < 0 or y.dtype != torch.float32:
            raise Decline("the threshold is negative, or it is in float64")
        tail = tail * (1.0 - above(z - threshold))
    result = torch.relu(y) + (tail if beta == 1 else tail / beta)
    if threshold < NEGLIGIBLE and not by_clamp:
        result = torch.where(z > threshold, y, result)
    return result if result.dtype == x.dtype else result.to(x.dtype)


def _log1p(u: Tensor) -> Tensor:
    w = u + 1.0
    return torch.log(w) + (u - (w - 1.0)) / w
