"""Binary cross entropy with its logarithms cut off by clamps.

**What it rewrites.** ``binary_cross_entropy`` of float32, with or without a weight, and with every reduction.

**The identity.** ``-(y * max(log(p), -100) + (1 - y) * max(log1p(-p), -100))``, as PyTorch computes it: a clamp from
below is a maximum with a number.

**Why the backend needs it.** ``to_edge`` fills a tensor with the number, and XNNPACK takes no ``full``; it takes a
clamp.

**What it leaves alone.** Other types.
"""

import torch
from torch import Tensor

from lowerfix.passes.elementwise._signs import float32
from lowerfix.passes.elementwise.log1p_by_clamp import log1p
from lowerfix.passes.reduction.losses_by_clamp import MEAN, reduced
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "to_edge clamps the logarithms of binary_cross_entropy; that of ExecuTorch 1.5.1 fills a tensor"

LOWEST = -100.0
"""What PyTorch takes for the logarithm of zero here."""


@rewrite(aten.binary_cross_entropy.default, cost=0.5)
def binary_cross_entropy(self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN) -> Tensor:
    """Of probabilities."""
    float32(self, target, *([] if weight is None else [weight]))
    absent = (target - 1.0) * torch.clamp(log1p(-self), min=LOWEST)
    loss = absent - target * torch.clamp(torch.log(self), min=LOWEST)
    if weight is not None:
        loss = loss * weight
    return reduced(loss, reduction)
