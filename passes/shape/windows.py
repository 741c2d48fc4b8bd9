"""Sliding windows, as slices laid side by side.

**What it rewrites.** ``unfold`` and ``unfold_copy`` of a tensor along one dimension, as for the frames of a signal.

**The identity.** Element ``k`` of window ``n`` is element ``n * step + k``. For each ``k`` these are a slice with that
step; the slices are stacked along a new last dimension. Of few windows that are longer than their number, the windows
are stacked instead. Long windows in great number are selected by a stored index.

**Why the backend needs it.** Ethos-U55 takes ``unfold_copy`` of 16 windows at most, and has no selection by an index;
no Arm target takes it of a scalar.

**What it leaves alone.** Symbolic sizes; empty windows; more than 2**22 elements to select where neither the windows
nor their number are 16 at most.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Ethos-U55 takes unfold_copy of more than 16 windows; not in ExecuTorch 1.5.1"

MOST_SLICES = 16
LARGEST = 1 << 22


@rewrite(aten.unfold.default, aten.unfold_copy.default)
def windows(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    if size == 0:
        raise Decline("the windows are empty")
    if x.dim() == 0:
        return x.reshape(1).clone()
    dim = dimension % x.dim()
    length = x.shape[dim]
    if not isinstance(length, int):
        raise Decline(f"the dimension has the symbolic size {length}")
    count = (length - size) // step + 1
    if size <= MOST_SLICES and size <= count:
        reach = (count - 1) * step + 1
        return torch.stack([aten.slice.Tensor(x, dim, k, k + reach, step) for k in range(size)], -1)
    if count <= MOST_SLICES:
        framed = torch.stack([x.narrow(dim, n * step, size) for n in range(count)], dim)
    else:
        if x.numel() // length * count * size > LARGEST:
            raise Decline(f"{count} windows of {size} are more than {LARGEST} elements to select")
        index = (torch.arange(count) * step).unsqueeze(1) + torch.arange(size)
        picked = torch.index_select(x, dim, index.reshape(-1).to(torch.int32))
        framed = picked.reshape([*x.shape[:dim], count, size, *x.shape[dim + 1 :]])
    order = [d for d in range(x.dim() + 1) if d != dim + 1] + [dim + 1]
    return framed if order == list(range(x.dim() + 1)) else framed.permute(order)
