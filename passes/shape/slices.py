"""Pieces of a tensor, as slices with a start and an end.

**What it rewrites.** ``slice`` without an end, ``narrow``, ``narrow_copy``, ``unbind_copy``, and everything that cuts a
tensor up: ``chunk``, ``tensor_split``, ``hsplit``, ``vsplit``, ``dsplit`` and their unsafe forms.

**The identity.** A piece is the slice between two positions.

**Why the backend needs it.** Arm's partitioner refuses a slice that does not spell out its end, as decompositions leave
it, and its quantizer annotates only some of the ops that cut.

**What it leaves alone.** Positions that are computed, and symbolic sizes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes a slice without an end, and its quantizer all ops that cut; 1.5.1's do not"


@rewrite(aten.slice.Tensor)
def slice_in_full(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """With everything spelled out."""
    if start is not None and end is not None:
        raise Decline("it has a start and an end")
    if x.dim() == 0:
        raise Decline("it has no dimension to cut")
    size = _size(x, dim)
    first = _at(0 if start is None else start, size)
    last = max(_at(size if end is None else end, size), first)
    result: Tensor = aten.slice.Tensor(x, dim, first, last, step)
    return result


@rewrite(aten.narrow.default)
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """One piece."""
    first = start + _size(x, dim) if start < 0 else start
    result: Tensor = aten.slice.Tensor(x, dim, first, first + length)
    return result


@rewrite(aten.narrow_copy.default)
def narrow_copy(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of one piece."""
    return narrow(x, dim, start, length).clone()


@rewrite(aten.unbind_copy.int)
def unbind_copy(x: Tensor, dim: int = 0) -> list[Tensor]:
    """One piece for each position."""
    return [x.select(dim, position).clone() for position in range(_size(x, dim))]


@rewrite(aten.chunk.default, aten.unsafe_chunk.default)
def chunk(x: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    """So many pieces of the same size, the last one smaller."""
    return split(x, max(-(-_size(x, dim) // chunks), 1), dim)


@rewrite(aten.unsafe_split.Tensor, aten.split.Tensor, aten.split_copy.Tensor)
def split(x: Tensor, split_size: int, dim: int = 0) -> list[Tensor]:
    """Pieces of a size, the last one smaller."""
    size = _size(x, dim)
    if split_size == 0:
        return [x]
    return _cut(x, [min(at, size) for at in range(split_size, max(size, 1), split_size)], dim)


@rewrite(aten.unsafe_split_with_sizes.default, aten.split_with_sizes.default, aten.split_with_sizes_copy.default)
def split_with_sizes(x: Tensor, split_sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    """Pieces of these sizes."""
    return _cut(x, [sum(split_sizes[:n]) for n in range(1, len(split_sizes))], dim)


@rewrite(aten.tensor_split.sections)
def tensor_split(x: Tensor, sections: int, dim: int = 0) -> list[Tensor]:
    """So many pieces, the first ones larger by one."""
    size = _size(x, dim)
    small, larger = divmod(size, sections)
    return _cut(x, [n * small + min(n, larger) for n in range(1, sections)], dim)


@rewrite(aten.tensor_split.indices)
def tensor_split_at(x: Tensor, indices: Sequence[int], dim: int = 0) -> list[Tensor]:
    """Pieces between these positions."""
    return _cut(x, indices, dim)


@rewrite(aten.hsplit.int)
def hsplit(x: Tensor, sections: int) -> list[Tensor]:
    """Along the second dimension."""
    return tensor_split(x, sections, 0 if x.dim() == 1 else 1)


@rewrite(aten.hsplit.array)
def hsplit_at(x: Tensor, indices: Sequence[int]) -> list[Tensor]:
    """Along the second dimension, between positions."""
    return _cut(x, indices, 0 if x.dim() == 1 else 1)


@rewrite(aten.vsplit.int)
def vsplit(x: Tensor, sections: int) -> list[Tensor]:
    """Along the first dimension."""
    return tensor_split(x, sections, 0)


@rewrite(aten.vsplit.array)
def vsplit_at(x: Tensor, indices: Sequence[int]) -> list[Tensor]:
    """Along the first dimension, between positions."""
    return _cut(x, indices, 0)


@rewrite(aten.dsplit.int)
def dsplit(x: Tensor, sections: int) -> list[Tensor]:
    """Along the third dimension."""
    return tensor_split(x, sections, 2)


@rewrite(aten.dsplit.array)
def dsplit_at(x: Tensor, indices: Sequence[int]) -> list[Tensor]:
    """Along the third dimension, between positions."""
    return _cut(x, indices, 2)


def _cut(x: Tensor, at: Sequence[int], dim: int) -> list[Tensor]:
    size = _size(x, dim)
    ends = [*(_at(int(position), size) for position in at), size]
    starts = [0, *ends[:-1]]
    return [aten.slice.Tensor(x, dim, a, max(a, b)) for a, b in zip(starts, ends, strict=True)]


def _at(position: int, size: int) -> int:
    """A position as Python counts it, within the tensor."""
    return min(max(position + size if position < 0 else position, 0), size)


def _size(x: Tensor, dim: int) -> int:
    size = x.shape[dim] if x.dim() else 1
    if not isinstance(size, int):
        raise Decline(f"dimension {dim} has the symbolic size {size}")
    return size
