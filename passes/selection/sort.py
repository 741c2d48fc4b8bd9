"""Sorting by the place of each element in the sorted order.

**What it rewrites.** ``sort``, ``argsort`` and ``msort``, stable or not, ascending or descending, along any dimension.

**The identity.** The place of an element is the number of elements before it: the smaller (larger) ones, and of equal
ones those with a lower index. For each place one comparison leaves the element that has it, and no arithmetic touches
it. NaN is the largest, as in PyTorch.

**Why the backend needs it.** TOSA has no sort, and Arm takes none.

**What it leaves alone.** A symbolic length, int64 and float64, and rows so long that comparing every pair of elements
is out of the question. Equal elements keep their order, which PyTorch promises for a stable sort only.
"""

import torch
from torch import Tensor

from lowerfix.passes.selection._ranking import Ranking, long, swapped
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes sort; it is not in its support list in ExecuTorch 1.5.1"


@rewrite(aten.sort.default, aten.sort.stable)
def sort(x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> tuple[Tensor, Tensor]:
    """With places that are counted in int32."""
    return _sort(x, dim, descending, torch.int32)


@rewrite(aten.sort.default, aten.sort.stable, cost=2, float_only=True)
def sort_float(
    x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Tensor, Tensor]:
    """With places that are counted in float32."""
    return _sort(x, dim, descending, torch.float32)


@rewrite(aten.argsort.default, aten.argsort.stable)
def argsort(x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Tensor:
    """The indices alone, with places in int32."""
    return _sort(x, dim, descending, torch.int32)[1]


@rewrite(aten.argsort.default, aten.argsort.stable, cost=2, float_only=True)
def argsort_float(x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Tensor:
    """The indices alone, with places in float32."""
    return _sort(x, dim, descending, torch.float32)[1]


@rewrite(aten.msort.default)
def msort(x: Tensor) -> Tensor:
    """The values alone along the first dimension, with places in int32."""
    return _sort(x, 0, False, torch.int32)[0]


@rewrite(aten.msort.default, cost=2, float_only=True)
def msort_float(x: Tensor) -> Tensor:
    """The values alone along the first dimension, with places in float32."""
    return _sort(x, 0, False, torch.float32)[0]


def _sort(x: Tensor, dim: int, descending: bool, count: torch.dtype) -> tuple[Tensor, Tensor]:
    ranking = Ranking.of(swapped(x, dim), descending, count)
    n = ranking.x.shape[-1]
    values, indices = swapped(ranking.values(0, n), dim), swapped(ranking.indices(0, n), dim)
    if x.dim() == 0:
        values, indices = values.reshape([]), indices.reshape([])
    return values, long(indices)
