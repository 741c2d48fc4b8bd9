"""Dimensions of size one, by views with constant sizes: XNNPACK has no squeeze, and unsqueezes the last one only."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lowerfix.errors import Decline


def inserted(x: Tensor, dim: int) -> Tensor:
    """``x.unsqueeze(dim)``; as a view where all sizes are constants."""
    if not constant_sizes(x):
        return x.unsqueeze(dim)
    shape = list(x.shape)
    shape.insert(dim if dim >= 0 else dim + x.dim() + 1, 1)
    return x.reshape(shape)


def removed(x: Tensor, dim: int) -> Tensor:
    """``x.squeeze(dim)`` of a dimension that has the size one; as a view where all sizes are constants."""
    if not constant_sizes(x):
        return x.squeeze(dim)
    shape = list(x.shape)
    del shape[dim]
    return x.reshape(shape)


def picked(x: Tensor, dim: int, position: int) -> Tensor:
    """``x.select(dim, position)``; as a slice and a view where all sizes are constants."""
    if not constant_sizes(x):
        return x.select(dim, position)
    return removed(torch.ops.aten.slice.Tensor(x, dim, position, position + 1), dim)


def stacked(parts: Sequence[Tensor], dim: int) -> Tensor:
    """``torch.stack``; from views where all sizes are constants."""
    if len(parts) == 1:
        return inserted(parts[0], dim)
    return torch.cat([inserted(part, dim) for part in parts], dim)


def constant_sizes(x: Tensor) -> bool:
    return all(isinstance(size, int) for size in x.shape)


def of_rank(values: Sequence[int], rank: int) -> list[int]:
    """The numbers of a kernel, stride or padding, of which one stands for all dimensions."""
    return list(values) * rank if len(values) == 1 else list(values)


def check_elements(x: Tensor) -> None:
    """Decline what is no tensor of floats with constant sizes and at least one element."""
    if not x.is_floating_point():
        raise Decline(f"{x.dtype} is served otherwise")
    if not constant_sizes(x):
        raise Decline("a size is symbolic")
    if x.numel() == 0:
        raise Decline("there is no element")
