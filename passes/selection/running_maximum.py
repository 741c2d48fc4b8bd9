"""cummax and cummin by the place of each element in the sorted order.

**What it rewrites.** ``cummax`` and ``cummin`` along any dimension, values and indices.

**The identity.** Let the place of an element be the number of elements that are smaller, or equal and earlier. Places
are distinct, so the largest place up to ``i`` is that of one element: the largest one, and the last of equals, as in
PyTorch. NaN is larger than all else. ``cummin`` is ``cummax`` of the order-reversed input: the negative of a float,
``~x`` of an integer, which cannot overflow.

**Why the backend needs it.** TOSA has no running maximum, and Arm takes neither op.

**What it leaves alone.** A symbolic length, int64 and float64, and rows so long that comparing every pair of elements
is out of the question.
"""

import torch
from torch import Tensor

from lowerfix.passes.selection._ranking import Ranking, long, most_pairs, swapped
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes cummax and cummin; they are not in its support list in ExecuTorch 1.5.1"


@rewrite(aten.cummax.default)
def cummax(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """With places that are counted in int32."""
    return _running(x, x, dim, torch.int32)


@rewrite(aten.cummax.default, cost=2, float_only=True)
def cummax_float(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """With places that are counted in float32."""
    return _running(x, x, dim, torch.float32)


@rewrite(aten.cummin.default)
def cummin(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """With places that are counted in int32."""
    return _running(x, -x if x.is_floating_point() else ~x, dim, torch.int32)


@rewrite(aten.cummin.default, cost=2, float_only=True)
def cummin_float(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """With places that are counted in float32."""
    return _running(x, -x if x.is_floating_point() else ~x, dim, torch.float32)


def _running(x: Tensor, key: Tensor, dim: int, count: torch.dtype) -> tuple[Tensor, Tensor]:
    x, key, scalar = swapped(x, dim), swapped(key, dim), x.dim() == 0
    most_pairs(key, 1)
    ranking = Ranking.of(key, False, count)
    n = x.shape[-1]
    number = torch.arange(n, dtype=count)
    shape = [1] * (x.dim() - 1)
    seen = number.reshape([*shape, 1, n]) <= number.reshape([*shape, n, 1])
    place = ranking.place.unsqueeze(-2)
    # Places are counted from 0; one more makes 0 the mark of what comes later.
    largest = torch.where(seen, place + 1, torch.zeros((), dtype=count)).amax(-1, keepdim=True) - 1
    chosen = place == largest
    values, indices = Ranking(x, ranking.place, n).value(chosen), ranking.index(chosen)
    values, indices = swapped(values, dim), swapped(indices, dim)
    if scalar:
        values, indices = values.reshape([]), indices.reshape([])
    return values, long(indices)
