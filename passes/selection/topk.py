"""topk by the place of each element in the sorted order.

**What it rewrites.** ``topk`` along any dimension with a constant ``k``: the largest or the smallest, values, indices
or both.

**The identity.** The place of an element is the number of elements before it: the larger ones, and of equal ones
those with a lower index. The results are the elements with the places 0 to ``k - 1``: each is the only one that a
comparison leaves, and no arithmetic touches it. NaN is the largest, as in PyTorch.

**Why the backend needs it.** TOSA has no sort, and Arm takes no ``topk``.

**What it leaves alone.** A symbolic ``k`` or length, int64 and float64, and rows so long that comparing every pair of
elements is out of the question. Of equal elements the one with the lowest index comes first; PyTorch leaves their
order open.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection._ranking import Ranking, long, swapped
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes topk; it is not in its support list in ExecuTorch 1.5.1"


@rewrite(aten.topk.default)
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """With places that are counted in int32."""
    return _topk(x, k, dim, largest, torch.int32)


@rewrite(aten.topk.default, cost=2, float_only=True)
def topk_float(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """With places that are counted in float32."""
    return _topk(x, k, dim, largest, torch.float32)


def _topk(x: Tensor, k: int, dim: int, largest: bool, count: torch.dtype) -> tuple[Tensor, Tensor]:
    if not isinstance(k, int):
        raise Decline("k is symbolic; only a constant k unrolls")
    if k == 0:
        raise Decline("k is 0: nothing is selected")
    ranking = Ranking.of(swapped(x, dim), largest, count)
    values, indices = swapped(ranking.values(0, k), dim), swapped(ranking.indices(0, k), dim)
    if x.dim() == 0:
        values, indices = values.reshape([]), indices.reshape([])
    return values, long(indices)
