"""The place of each element in the sorted order, by comparing every pair.

``place(i) = #(j that come before i)``, where ``j`` comes before ``i`` if it is larger, or equal and ``j < i``; NaN is
the largest, as in PyTorch. That is an order without ties, so every place is taken once.

With ``R(j, i)``, "``j`` is not after ``i`` by value alone", every pair has ``R(j, i)`` or ``R(i, j)``, and ``j < i``
decides where both hold. So ``j < i`` comes before ``i`` where ``R(j, i)``, and ``j > i`` does where ``R(i, j)`` does
not hold. One comparison of each pair ``j < i`` is enough: with ``A = R and j < i``, ``place(i) = sum_j A(j, i) + (n -
1 - i) - sum_j A(i, j)``.

What is counted in int32 needs integer arithmetic, and is exact when the program is quantized later; what is counted
in float32 is exact below 2**24.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lowerfix.errors import Decline

BLOCK = 1 << 22
"""Elements that are compared at a time."""

MOST_BLOCKS = 64
"""Blocks beyond which the graph gets too long."""

EXACT_IN_FLOAT = 1 << 24


@dataclass(frozen=True)
class Ranking:
    """The order of the elements along the last dimension.

    Attributes:
        x: what is ordered, with at least one dimension.
        place: of each element, counted from 0, in int32 or float32.
        block: how many elements are compared with all others at a time.
    """

    x: Tensor
    place: Tensor
    block: int

    @classmethod
    def of(cls, x: Tensor, descending: bool, count: torch.dtype) -> "Ranking":
        """Compare every pair along the last dimension."""
        n, block = _size(x, count)
        if n == 1:
            return cls(x, torch.zeros_like(x, dtype=count), block)
        key = x.to(torch.int8) if x.dtype == torch.bool else x
        number = _numbers(x, n, count)
        last, missing = key.unsqueeze(-2), None
        if x.is_floating_point():
            missing = torch.logical_not(key == key)
        before, after = [], []
        for start in range(0, n, block):
            end = min(n, start + block)
            rows = key[..., start:end].unsqueeze(-1) if block < n else key.unsqueeze(-1)
            first = rows >= last if descending else rows <= last
            if missing is not None:  # NaN comes first of all, or last
                absent = missing[..., start:end].unsqueeze(-1) if descending else missing.unsqueeze(-2)
                first = torch.logical_or(first, absent)
            earlier = number[..., start:end].unsqueeze(-1) < number.unsqueeze(-2)
            precedes = counted(torch.logical_and(first, earlier), count)
            before.append(precedes.sum(-2, dtype=count))
            after.append(precedes.sum(-1, dtype=count))
        place = sum(before[1:], before[0]) - _joined(after)
        return cls(x, place + ((n - 1) - number), block)

    def indices(self, first: int, end: int) -> Tensor:
        """Which elements have the places from ``first`` to ``end``, as int32."""
        return _joined([self.index(chosen) for chosen in self._chosen(first, end)])

    def values(self, first: int, end: int) -> Tensor:
        """The elements at the places from ``first`` to ``end``."""
        return _joined([self.value(chosen) for chosen in self._chosen(first, end)])

    def index(self, chosen: Tensor) -> Tensor:
        """The number, in int32, of the one element that a condition on the last dimension leaves."""
        number = _numbers(chosen, self.x.shape[-1], self.place.dtype)
        zero = torch.zeros((), dtype=self.place.dtype)
        index = torch.where(chosen, number, zero).sum(-1, dtype=self.place.dtype)
        return index if index.dtype == torch.int32 else index.to(torch.int32)

    def value(self, chosen: Tensor) -> Tensor:
        """The one element that a condition on the last dimension leaves, of ``[..., n]`` as ``[...,  m]``.

        Integers gather it, so that int8 does not have to hold minus infinity.
        """
        if self.place.dtype == torch.int32:
            return taken(self.x, self.index(chosen))
        lowest = -math.inf if self.x.is_floating_point() else torch.iinfo(self.x.dtype).min
        return torch.where(chosen, self.x.unsqueeze(-2), lowest).amax(-1)

    def _chosen(self, first: int, end: int) -> list[Tensor]:
        """For each place, which element has it: one more dimension before the last."""
        place = self.place.unsqueeze(-2)
        chosen = []
        for start in range(first, end, self.block):
            wanted = torch.arange(start, min(end, start + self.block), dtype=self.place.dtype)
            chosen.append(place == wanted.reshape([1] * (self.x.dim() - 1) + [-1, 1]))
        return chosen


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts, -1) if len(parts) > 1 else parts[0]


def taken(x: Tensor, index: Tensor) -> Tensor:
    """The elements of the last dimension that an int32 index names; the others match."""
    rows = x.reshape(-1, x.shape[-1])
    return rows.gather(1, index.reshape(rows.shape[0], index.shape[-1])).reshape(index.shape)


def swapped(x: Tensor, dim: int) -> Tensor:
    """A dimension exchanged with the last, and back; a tensor without dimensions gets one."""
    if x.dim() == 0:
        return x.reshape(1)
    return x if dim in (-1, x.dim() - 1) else x.transpose(dim, -1)


def most_pairs(x: Tensor, blocks: int) -> None:
    """Decline where comparing every pair takes more memory than some blocks."""
    n = x.shape[-1]
    if isinstance(n, int) and n * x.numel() > BLOCK * blocks:
        raise Decline(f"{n * x.numel()} pairs of elements are more than {BLOCK * blocks}")


def long(index: Tensor) -> Tensor:
    """An int32 index as int64, the last thing that is done to it: that cast may stay on the CPU."""
    return index.contiguous().to(torch.int64)


def _size(x: Tensor, count: torch.dtype) -> tuple[int, int]:
    """The number of elements in a row, and how many of them to compare with all at a time."""
    n = x.shape[-1]
    if x.dtype in (torch.int64, torch.float64) or x.is_complex():
        raise Decline(f"{x.dtype} is not compared on an accelerator; cast it to a narrower type")
    if not isinstance(n, int):
        raise Decline(f"the sorted dimension has the symbolic size {n}; export with that size constant")
    if n == 0 or x.numel() == 0:
        raise Decline("there is nothing to sort")
    if count == torch.float32 and n >= EXACT_IN_FLOAT:
        raise Decline(f"places among {n} elements are not exact in float32")
    block = max(1, min(n, BLOCK // max(1, x.numel())))
    if -(-n // block) > MOST_BLOCKS:
        raise Decline(f"sorting {n} elements takes {n * x.numel()} comparisons, more than {BLOCK * MOST_BLOCKS}")
    return n, block


def _numbers(x: Tensor, n: int, dtype: torch.dtype) -> Tensor:
    return torch.arange(n, dtype=dtype).reshape([1] * (x.dim() - 1) + [n])


def counted(condition: Tensor, count: torch.dtype) -> Tensor:
    """A condition as numbers; the float profile of TOSA has no cast of it."""
    if count == torch.int32:
        return condition.to(torch.int32)
    return torch.where(condition, torch.ones((), dtype=count), torch.zeros((), dtype=count))
