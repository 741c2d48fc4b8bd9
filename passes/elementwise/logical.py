"""Logical ops on numbers, as those on what differs from zero.

**What it rewrites.** ``logical_and``, ``logical_or``, ``logical_xor`` and ``logical_not`` of floats and integers.

**The identity.** A number counts as true where it is not zero, and NaN is not zero.

**Why the backend needs it.** Arm's partitioner takes them for all types, and the lowering then dies on all but Boolean
ones.

**What it leaves alone.** Boolean tensors.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm lowers logical ops on numbers, or leaves them alone; it dies on them in ExecuTorch 1.5.1"


@rewrite(aten.logical_and.default)
def logical_and(self: Tensor, other: Tensor) -> Tensor:
    """Both are not zero."""
    return _of_truth(torch.logical_and, self, other)


@rewrite(aten.logical_or.default)
def logical_or(self: Tensor, other: Tensor) -> Tensor:
    """One of them is not zero."""
    return _of_truth(torch.logical_or, self, other)


@rewrite(aten.logical_xor.default)
def logical_xor(self: Tensor, other: Tensor) -> Tensor:
    """Just one of them is not zero."""
    return _of_truth(torch.logical_xor, self, other)


@rewrite(aten.logical_not.default)
def logical_not(x: Tensor) -> Tensor:
    """It is zero."""
    if x.dtype == torch.bool:
        raise Decline("it is Boolean already")
    return x == 0


def _of_truth(op: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    if x.dtype == torch.bool and y.dtype == torch.bool:
        raise Decline("both are Boolean already")
    return op(*(t if t.dtype == torch.bool else t != 0 for t in (x, y)))
