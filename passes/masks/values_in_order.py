"""Assigning a list of values to where a mask is true, one after the other, as a selection by the mask's running count.

**What it rewrites.** ``x[mask] = values`` with one value, or row, for each true place of the mask.

**The identity.** The n-th true place, in row-major order, gets the n-th value: its number is the running count of true
places less one. What is selected elsewhere is not used. The count is taken in float32, which is exact for so few.

**Why the backend needs it.** Arm's ``index_put`` takes a mask only with a single value; XNNPACK takes none.

**What it leaves alone.** Values that are the same for all places (``index-put`` serves them); symbolic sizes; masks of
more than 4096 places, as Arm's running sum takes the square of that many steps. A mask with another number of true
places than there are values is an error in PyTorch, and undefined here.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes a mask with several values in index_put; not in ExecuTorch 1.5.1"

LONGEST = 4096


@rewrite(aten.index_put.default, cost=1.5)
def values_in_order(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][1].dtype != torch.bool:
        raise Decline("the indices are not one Boolean mask")
    [(dim, mask)] = given
    after = x.dim() - dim - mask.dim()
    at = values.dim() - after - 1
    if at < 0 or values.shape[at] == 1:
        raise Decline("all places get the same value")
    if not all(isinstance(size, int) for size in (*mask.shape, *values.shape)):
        raise Decline("its size is symbolic")
    if not 0 < mask.numel() <= LONGEST or values.shape[at] == 0:
        raise Decline(f"the mask has {mask.numel()} places to count, none or more than {LONGEST}")
    flat = mask.reshape(-1)
    running = torch.cumsum(torch.where(flat, torch.ones(()), torch.zeros(())), 0)
    number = torch.clamp(running - 1.0, 0.0, float(values.shape[at] - 1)).to(torch.int32)
    chosen = torch.index_select(values, at, number)
    shape = list(values.shape)
    chosen = chosen.reshape(shape[:at] + list(mask.shape) + shape[at + 1 :])
    wide = mask.reshape(list(mask.shape) + [1] * after)
    return torch.where(wide, x + chosen if accumulate else chosen, x)
