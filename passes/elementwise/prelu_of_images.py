"""PReLU of rows, signals and volumes, as that of an image.

**What it rewrites.** ``prelu`` of tensors that have not four dimensions.

**The identity.** The second dimension is that of the channels, which each have a weight, or there is one weight for
all; how the other elements are arranged does not matter.

**Why the backend needs it.** XNNPACK's partitioner takes PReLU of any rank, and its lowering dies on all but images.

**What it leaves alone.** Images, and symbolic sizes.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK's lowering takes PReLU of any rank; that of ExecuTorch 1.5.1 takes images"


@rewrite(aten.prelu.default)
def prelu(self: Tensor, weight: Tensor) -> Tensor:
    """``[batch, channels, rest, 1]``."""
    if self.dim() == 4:
        raise Decline("it is of an image already")
    if not constant_sizes(self):
        raise Decline("a size is symbolic")
    batch, channels = ([*self.shape[:2]] if self.dim() > 1 else [1, 1]) if weight.numel() > 1 else [1, 1]
    rest = self.numel() // max(batch * channels, 1)
    result: Tensor = aten.prelu.default(self.reshape([batch, channels, rest, 1]), weight)
    return result.reshape(self.shape)
