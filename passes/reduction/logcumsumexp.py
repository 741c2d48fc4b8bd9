"""logcumsumexp, each prefix by its own largest element.

**What it rewrites.** ``logcumsumexp`` along any dimension.

**The identity.** ``log(sum_{j <= i} exp(x_j)) = m_i + log(sum_{j <= i} exp(x_j - m_i))`` with ``m_i`` the largest of
the first ``i`` elements, so that no sum over- or underflows. An infinite ``m_i`` is not subtracted: the exponentials
are infinite or zero by themselves then. NaN stays in its own prefix and the later ones. All prefixes are the rows of a
square: where ``j > i``, the first element, which is in every prefix, stands in for finding ``m_i``, and zero stands in
the sum.

**Why the backend needs it.** Arm's partitioner does not know the op.

**What it leaves alone.** Dimensions where the squares would hold more than 2**22 elements.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes logcumsumexp; ExecuTorch 1.5.1 does not"

LARGEST = 1 << 22


@rewrite(aten.logcumsumexp.default)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Half precision is computed in float32, as PyTorch does."""
    if not x.is_floating_point():
        raise Decline(f"logcumsumexp of {x.dtype} is not computed here")
    if x.dtype in (torch.float16, torch.bfloat16):
        return logcumsumexp(x.to(torch.float32), dim).to(x.dtype)
    if x.dim() == 0:
        return x * 1.0
    size = x.shape[dim]
    if x.numel() == 0 or x.numel() * size > LARGEST:
        raise Decline(f"its prefixes would hold {x.numel() * size} elements; {LARGEST} are the most")
    y = x.transpose(dim, -1).unsqueeze(-2)
    position = torch.arange(size)
    inside = position.unsqueeze(0) <= position.unsqueeze(1)
    prefixes = torch.where(inside, y, y[..., :1])
    largest = torch.amax(prefixes, [-1], True)
    reference = torch.where(torch.abs(largest) == torch.inf, torch.zeros_like(largest), largest)
    exponential = torch.exp(prefixes - reference)
    total = torch.sum(torch.where(inside, exponential, torch.zeros_like(exponential)), [-1], True)
    return (torch.log(total) + reference).squeeze(-1).transpose(dim, -1)
