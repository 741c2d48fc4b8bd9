"""Quantiles by the place of each element in the sorted order.

**What it rewrites.** ``quantile`` and ``nanquantile`` for one ``q`` or several, of all elements or along a dimension,
with every interpolation.

**The identity.** The quantile lies at place ``r = q (n - 1)`` of the sorted row: ``lower``, ``higher`` and
``nearest`` round it, ``linear`` and ``midpoint`` interpolate between the elements around it as ``torch.lerp`` does.
An element's place is the number of elements before it. For ``quantile`` a row with a NaN gives NaN; for
``nanquantile`` ``n`` counts the others, which come first.

**Why the backend needs it.** TOSA has no sort, and what these are decomposed to sorts.

**What it leaves alone.** A symbolic length, float64, and rows so long that comparing every pair of elements is out of
the question.
"""

import numpy as np
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection._ranking import Ranking, counted, swapped
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes sort; it is not in its support list in ExecuTorch 1.5.1"


@rewrite(aten.quantile.scalar)
def quantile(
    x: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """At a constant place, with places that are counted in int32."""
    return _at_constant(x, q, dim, keepdim, interpolation, torch.int32)


@rewrite(aten.quantile.scalar, cost=2, float_only=True)
def quantile_float(
    x: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """At a constant place, with places that are counted in float32."""
    return _at_constant(x, q, dim, keepdim, interpolation, torch.float32)


@rewrite(aten.quantile.scalar, aten.nanquantile.scalar, cost=0.5)
def quantile_of_one(
    x: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """A single element, from which PyTorch interpolates to itself, so that infinity becomes NaN."""
    if x.numel() != 1 or not x.is_floating_point():
        raise Decline("it is of several elements")
    value = x.clone() if interpolation in _ROUNDED else x + (x - x)
    dropped = set() if keepdim else set(range(x.dim())) if dim is None else {dim % max(x.dim(), 1)}
    shape = [size for at, size in enumerate(x.shape) if at not in dropped]
    return value if shape == list(x.shape) else value.reshape(shape)


@rewrite(aten.quantile.default, float_only=True)
def quantile_of_tensor(
    x: Tensor, q: Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """At places that are computed from ``q``."""
    return _at_computed(x, q, dim, keepdim, interpolation, False)


@rewrite(aten.nanquantile.scalar, float_only=True)
def nanquantile(
    x: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """At places that are computed from the number of elements that are not NaN."""
    return _at_computed(x, torch.full((), q, dtype=x.dtype), dim, keepdim, interpolation, True)


@rewrite(aten.nanquantile.default, float_only=True)
def nanquantile_of_tensor(
    x: Tensor, q: Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """At places that are computed from ``q`` and the number of elements that are not NaN."""
    return _at_computed(x, q, dim, keepdim, interpolation, True)


def _at_constant(x: Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str, count: torch.dtype) -> Tensor:
    ranking = Ranking.of(_row(x, dim), False, count)
    rank = np.float32(q) * np.float32(ranking.x.shape[-1] - 1)  # in float32, as PyTorch computes it
    if interpolation in _ROUNDED:
        rank = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}[interpolation](rank)
    below, above = int(np.floor(rank)), int(np.ceil(rank))
    value = ranking.values(below, below + 1)
    if interpolation not in _ROUNDED:
        other = ranking.values(above, above + 1) if above > below else value
        weight = 0.5 if interpolation == "midpoint" else float(rank - np.float32(below))
        step = other - value
        value = value + weight * step if weight < 0.5 else other - step * (1 - weight)
    largest = ranking.x.amax(-1, keepdim=True)  # NaN where there is one
    value = torch.where(largest == largest, value, largest)
    return _result(value, x, dim, keepdim)[0]


def _at_computed(x: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str, skip: bool) -> Tensor:
    if q.dim() > 1 or q.numel() == 0:
        raise Decline("q is empty")
    ranking = Ranking.of(_row(x, dim), False, torch.float32)
    row, n = ranking.x, ranking.x.shape[-1]
    wanted = q.reshape([1] * (row.dim() - 1) + [-1])
    number = row == row
    if skip:
        count = counted(number, torch.float32).sum(-1, keepdim=True).to(x.dtype)
        rank = wanted * (count - 1)
        rank = torch.where(rank < 0, torch.zeros((), dtype=x.dtype), rank)
    else:
        largest = row.amax(-1, keepdim=True)  # NaN where there is one, which is the last in the order
        rank = torch.where(largest == largest, wanted * (n - 1), torch.full((), n - 1, dtype=x.dtype))
    if interpolation in _ROUNDED:
        rank = {"lower": torch.floor, "higher": torch.ceil, "nearest": torch.round}[interpolation](rank)
    below = torch.floor(rank)
    place = ranking.place.unsqueeze(-2)
    value = ranking.value(place == below.unsqueeze(-1))
    if interpolation not in _ROUNDED:
        other = ranking.value(place == torch.ceil(rank).unsqueeze(-1))
        weight = torch.full_like(rank, 0.5) if interpolation == "midpoint" else rank - below
        step = other - value
        value = torch.where(weight < 0.5, value + weight * step, other - step * (1 - weight))
    results = _result(value, x, dim, keepdim)
    return results[0] if q.dim() == 0 else torch.stack(results)


_ROUNDED = ("lower", "higher", "nearest")


def _row(x: Tensor, dim: int | None) -> Tensor:
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise Decline(f"the quantile of {x.dtype} is not computed on an accelerator")
    return x.reshape(-1) if dim is None or x.dim() == 0 else swapped(x, dim)


def _result(value: Tensor, x: Tensor, dim: int | None, keepdim: bool) -> list[Tensor]:
    """What stands in the last dimension, one by one, each with the shape of a reduction."""
    results = []
    for number in range(value.shape[-1]):
        one = value.narrow(-1, number, 1) if value.shape[-1] > 1 else value
        if dim is None or x.dim() == 0:
            one = one.reshape([1] * x.dim() if keepdim else [])
        else:
            one = swapped(one, dim)
            one = one if keepdim else one.squeeze(dim)
        results.append(one)
    return results
