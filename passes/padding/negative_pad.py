"""A negative pad, as a pad that is none and a crop.

**What it rewrites.** ``pad`` with a negative amount, in its modes constant, reflect, replicate and circular, and
``constant_pad_nd``.

**The identity.** A negative amount cuts elements off that end. What the other end gains is taken from the tensor
before the cut, so pad first and cut then.

**Why the backend needs it.** Arm's partitioner takes the op, and the lowering dies ("Expected padding values to be
non-negative") or, in the modes other than constant, returns another shape.

**What it leaves alone.** Amounts that are not negative. Circular padding of a dimension that is cut at one end and
padded at the other, where PyTorch itself returns memory that nobody wrote.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's RewritePadPass crops where a pad is negative; it does not in ExecuTorch 1.5.1"


@rewrite(aten.pad.default, wrong="it ignores that a pad is negative")
@rewrite(aten.pad.default)
def pad(x: Tensor, pad: list[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Only what is added, then a slice of each dimension that is cut."""
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    if not all(isinstance(amount, int) for amount in pad):
        raise Decline("an amount is symbolic; export with constant ones")
    if all(amount >= 0 for amount in pad):
        raise Decline("no amount is negative")
    if mode == "circular" and any(min(pair) < 0 < max(pair) for pair in pairs):
        raise Decline("circular padding of a dimension that is cut as well is not defined")
    added = [max(amount, 0) for amount in pad]
    y = F.pad(x, added, mode, value) if any(added) else x
    for number, (before, after) in enumerate(pairs):
        dim = x.dim() - 1 - number
        if before < 0 or after < 0:
            y = aten.slice.Tensor(y, dim, max(-before, 0), y.shape[dim] - max(-after, 0))
    return y.clone() if y.numel() == 0 or not any(added) else y


@rewrite(aten.constant_pad_nd.default)
def constant_pad(x: Tensor, pad: list[int], value: float = 0) -> Tensor:
    """The same."""
    return _pad(x, pad, "constant", value)


_pad = pad
