"""kthvalue and the medians by the place of each element in the sorted order.

**What it rewrites.** ``kthvalue``, ``median`` and ``nanmedian``, of all elements or along a dimension, values and
indices.

**The identity.** The place of an element is the number of elements before it. The result is the element whose place
is ``k - 1``; for the median ``(n - 1) // 2``, or that of the first NaN where there is one; for ``nanmedian`` ``(m -
1) // 2`` with ``m`` elements that are not NaN, which come first. The latter is the place ``p`` with ``2 p = m - 1``
or ``2 p = m - 2``, which needs no division.

**Why the backend needs it.** TOSA has no sort, and Arm takes none of these.

**What it leaves alone.** A symbolic length, int64 and float64, and rows so long that comparing every pair of elements
is out of the question. Of equal elements the index may be that of another one than PyTorch's, which leaves it open.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection._ranking import Ranking, counted, long, swapped
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes kthvalue and median; they are not in its support list in ExecuTorch 1.5.1"

Pair = tuple[Tensor, Tensor]


@rewrite(aten.kthvalue.default)
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    """With places that are counted in int32."""
    return _selected(x, dim, keepdim, torch.int32, _constant(k))


@rewrite(aten.kthvalue.default, cost=2, float_only=True)
def kthvalue_float(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    """With places that are counted in float32."""
    return _selected(x, dim, keepdim, torch.float32, _constant(k))


@rewrite(aten.median.dim)
def median(x: Tensor, dim: int, keepdim: bool = False) -> Pair:
    """With places that are counted in int32."""
    return _selected(x, dim, keepdim, torch.int32, _middle)


@rewrite(aten.median.dim, cost=2, float_only=True)
def median_float(x: Tensor, dim: int, keepdim: bool = False) -> Pair:
    """With places that are counted in float32."""
    return _selected(x, dim, keepdim, torch.float32, _middle)


@rewrite(aten.nanmedian.dim)
def nanmedian(x: Tensor, dim: int, keepdim: bool = False) -> Pair:
    """With places that are counted in int32."""
    return _selected(x, dim, keepdim, torch.int32, _middle_of_numbers)


@rewrite(aten.nanmedian.dim, cost=2, float_only=True)
def nanmedian_float(x: Tensor, dim: int, keepdim: bool = False) -> Pair:
    """With places that are counted in float32."""
    return _selected(x, dim, keepdim, torch.float32, _middle_of_numbers)


@rewrite(aten.median.default)
def median_of_all(x: Tensor) -> Tensor:
    """The same, of all elements."""
    return _selected(x.reshape(-1), 0, False, torch.int32, _middle)[0]


@rewrite(aten.median.default, cost=2, float_only=True)
def median_of_all_float(x: Tensor) -> Tensor:
    """The same, of all elements, with places in float32."""
    return _selected(x.reshape(-1), 0, False, torch.float32, _middle)[0]


@rewrite(aten.nanmedian.default)
def nanmedian_of_all(x: Tensor) -> Tensor:
    """The same, of all elements."""
    return _selected(x.reshape(-1), 0, False, torch.int32, _middle_of_numbers)[0]


@rewrite(aten.nanmedian.default, cost=2, float_only=True)
def nanmedian_of_all_float(x: Tensor) -> Tensor:
    """The same, of all elements, with places in float32."""
    return _selected(x.reshape(-1), 0, False, torch.float32, _middle_of_numbers)[0]


@rewrite(aten.median.default, aten.nanmedian.default, cost=0.5)
def median_of_one(x: Tensor) -> Tensor:
    """A single element is its own median, NaN too."""
    if x.numel() != 1:
        raise Decline("it is of several elements")
    return x.clone() if x.dim() == 0 else x.reshape([])


def _constant(k: int) -> Callable[[Ranking], Tensor]:
    if not isinstance(k, int):
        raise Decline("k is symbolic; only a constant place can be looked for")
    return lambda ranking: ranking.place == k - 1


def _middle(ranking: Ranking) -> Tensor:
    n, numbers = ranking.x.shape[-1], _numbers(ranking)
    if numbers is None:
        return ranking.place == (n - 1) // 2
    middle = torch.full_like(numbers, (n - 1) // 2)
    return ranking.place == torch.where(numbers == n, middle, numbers)


def _middle_of_numbers(ranking: Ranking) -> Tensor:
    numbers = _numbers(ranking)
    if numbers is None:
        return _middle(ranking)
    twice = ranking.place * 2
    among = torch.where(numbers == 0, torch.ones_like(numbers), numbers)
    return torch.logical_or(twice == among - 1, twice == among - 2)


def _numbers(ranking: Ranking) -> Tensor | None:
    """How many elements are not NaN; None where all of them are not."""
    if not ranking.x.is_floating_point():
        return None
    count = ranking.place.dtype
    return counted(ranking.x == ranking.x, count).sum(-1, keepdim=True, dtype=count)


def _selected(x: Tensor, dim: int, keepdim: bool, count: torch.dtype, choose: Callable[[Ranking], Tensor]) -> Pair:
    ranking = Ranking.of(swapped(x, dim), False, count)
    chosen = choose(ranking).unsqueeze(-2)
    values, indices = swapped(ranking.value(chosen), dim), swapped(ranking.index(chosen), dim)
    if x.dim() == 0:
        values, indices = values.reshape([]), indices.reshape([])
    elif not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return values, long(indices)
