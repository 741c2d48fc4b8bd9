"""log_softmax without the softmax.

**What it rewrites.** ``log_softmax``, also with ``dtype``.

**The identity.** With ``m`` the largest element, ``log_softmax(x) = (x - m) - log(sum(exp(x - m)))``. The sum lies
between 1 and the number of elements, so nothing under- or overflows; it is the formula that PyTorch itself uses.

**Why the backend needs it.** Arm computes ``log(softmax(x))``. Where an element lies more than 87 below the largest,
the softmax is subnormal or zero, and the result is imprecise or -inf instead of, say, -200. In int8 the logarithm is
taken of a probability in steps of 1/256.

**What it leaves alone.** ``log_softmax`` that is to be computed in float64.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm subtracts the logarithm of the sum; ExecuTorch 1.5.1 takes the logarithm of the softmax"

WRONG = "the logarithm of a softmax that underflows is -inf"


@rewrite(aten.log_softmax.int)
@rewrite(aten.log_softmax.int, wrong=WRONG)
def log_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """As PyTorch spells it in a model."""
    if not x.is_floating_point() and dtype is None:
        raise Decline(f"log_softmax of {x.dtype} is not defined")
    result = dtype or x.dtype
    if result == torch.float64:
        raise Decline("it is to be computed in float64")
    by = torch.float32 if result in (torch.float16, torch.bfloat16) else result
    y = (x if x.dtype == by else x.to(by)) if x.dim() else x.to(by).unsqueeze(0)
    y = y - torch.amax(y, [dim], True)
    y = y - torch.log(torch.sum(torch.exp(y), [dim], True))
    y = y if x.dim() else y.squeeze(0)
    return y if by == result else y.to(result)


@rewrite(aten._log_softmax.default)
@rewrite(aten._log_softmax.default, wrong=WRONG)
def decomposed_log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """As it stands in a program that was decomposed already."""
    return log_softmax(x, dim, torch.float32 if half_to_float else None)
