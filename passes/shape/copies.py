"""Copies by another name, as clones.

**What it rewrites.** ``alias_copy`` and the difference of no order, ``diff(x, 0)``.

**The identity.** Each is the tensor itself.

**Why the backend needs it.** XNNPACK takes ``clone``, and neither of these.

**What it leaves alone.** Differences of a higher order.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "ExecuTorch makes clones of copies by other names; 1.5.1 does not"


@rewrite(aten.alias_copy.default, cost=0.5)
def alias_copy(x: Tensor) -> Tensor:
    """A copy."""
    return x.clone()


@rewrite(aten.diff.default, cost=0.5)
def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Of no order: what is put before and after it counts for nothing."""
    if n != 0:
        raise Decline("it is of a higher order")
    return x.clone()
