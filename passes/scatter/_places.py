"""What the passes of this family share: which positions of a dimension an index names."""

import torch
from torch import Tensor

from lowerfix.errors import Decline, LowerfixError
from lowerfix.rewriting import constant, never_negative

EXACT = 1 << 24
"""Up to here float32 holds every integer."""


def counted(index: Tensor, size: int, kind: torch.dtype, negative: bool) -> Tensor:
    """An index as int32 or float32 numbers, checked; ``negative``: the op counts negative ones from the end."""
    if not isinstance(size, int):
        raise Decline(f"the dimension has the symbolic size {size}; its positions cannot be compared")
    if size > (EXACT if kind == torch.float32 else (1 << 31) - 1):
        raise Decline(f"the dimension has {size} positions, more than {kind} can number")
    values = constant(index)
    if values is not None and values.size:
        low, high = int(values.min()), int(values.max())
        if high >= size or low < (-size if negative else 0):
            raise LowerfixError(f"the constant index {high if high >= size else low} is out of range for size {size}")
    number = index if index.dtype == torch.int32 else index.to(torch.int32)
    return number if kind == torch.int32 else number.to(kind)


def wrapped(index: Tensor, size: int, kind: torch.dtype) -> Tensor:
    """An index in int32 that counts from the start, by arithmetic on ``kind``."""
    if never_negative(index):
        return counted(index, size, torch.int32, True)
    number = counted(index, size, kind, True)
    number = torch.where(number < 0, number + size, number)
    return number if kind == torch.int32 else number.to(torch.int32)


def along(dim: int, rank: int, start: int, end: int, kind: torch.dtype) -> Tensor:
    """The numbers from ``start`` to ``end``, laid along one dimension."""
    shape = [1] * rank
    shape[dim] = end - start
    return torch.arange(start, end, dtype=kind).reshape(shape)


def wrap(dim: int, rank: int) -> int:
    return dim + rank if dim < 0 else dim
