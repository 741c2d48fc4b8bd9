"""one_hot as a comparison with the numbers of the classes.

**What it rewrites.** ``one_hot`` with a constant number of classes.

**The identity.** The result is 1 where the class's number equals the index. Float32 holds numbers below 2**24 exactly.

**Why the backend needs it.** Arm takes no ``one_hot``, and what it is decomposed to scatters int64.

**What it leaves alone.** A number of classes that is to be found in the data. An index that is out of range is an error
in PyTorch, and a row of zeros here.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes one_hot; it is not in its support list in ExecuTorch 1.5.1"


@rewrite(aten.one_hot.default)
def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """Compared in int32."""
    return _equal(x, num_classes, torch.int32).to(torch.int32).to(torch.int64)


@rewrite(aten.one_hot.default, cost=2, float_only=True)
def one_hot_float(x: Tensor, num_classes: int = -1) -> Tensor:
    """Compared in float32."""
    if num_classes >= 1 << 24:
        raise Decline(f"{num_classes} classes are more than float32 can number")
    hot = _equal(x, num_classes, torch.float32)
    return torch.where(hot, torch.ones(()), torch.zeros(())).to(torch.int32).to(torch.int64)


def _equal(x: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    if not isinstance(classes, int) or not 0 < classes < 1 << 31:
        raise Decline("the number of classes is not given, and depends on the data")
    index = x.to(torch.int32)
    if dtype != torch.int32:
        index = index.to(dtype)
    return index.unsqueeze(-1) == torch.arange(classes, dtype=dtype).reshape([1] * x.dim() + [classes])
