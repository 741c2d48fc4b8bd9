"""Repeating each row so many times, as a selection by the running sum of the repeats.

**What it rewrites.** ``repeat_interleave`` with a tensor of repeats and an ``output_size``, as text-to-speech models
use it to stretch phonemes to frames.

**The identity.** The j-th row of the result is the first whose running sum of repeats is above j, so its place is how
many running sums are j or less. They are summed in float32, which is exact for sums below 2**24; the last is
``output_size``, or PyTorch raises an error.

**Why the backend needs it.** Neither Arm nor XNNPACK takes ``repeat_interleave``. Arm takes sums, comparisons and
selections.

**What it leaves alone.** Repeats without an ``output_size``, where the size of the result depends on data; symbolic
sizes; more than 2**22 rows times results, as each is compared with each.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes repeat_interleave; not in ExecuTorch 1.5.1"

LARGEST = 1 << 22


@rewrite(aten.repeat_interleave.self_Tensor)
def repeat_interleave(x: Tensor, repeats: Tensor, dim: int | None = None, output_size: int | None = None) -> Tensor:
    if dim is None:
        x, dim = x.reshape(-1), 0
    x = x.reshape(1) if x.dim() == 0 else x
    dim = dim % x.dim()
    places = _places(
        repeats.expand(x.shape[dim]) if repeats.dim() == 0 or repeats.shape[0] == 1 else repeats, output_size
    )
    return torch.index_select(x, dim, places)


@rewrite(aten.repeat_interleave.Tensor)
def repeated_places(repeats: Tensor, output_size: int | None = None) -> Tensor:
    """The number of the row that each row of a result comes from."""
    return _places(repeats, output_size).to(repeats.dtype)


def _places(repeats: Tensor, size: int | None) -> Tensor:
    if size is None:
        raise Decline("its size depends on data; give repeat_interleave the output_size")
    count = repeats.shape[0]
    if not isinstance(size, int) or not isinstance(count, int):
        raise Decline("its size is symbolic")
    if size == 0 or count == 0:
        raise Decline("there is nothing to repeat")
    if size * count > LARGEST:
        raise Decline(f"each of {count} rows would be compared with each of {size} results")
    number = repeats if repeats.dtype == torch.int32 else repeats.to(torch.int32)
    running = torch.cumsum(number.to(torch.float32), 0)
    past = running.unsqueeze(0) <= torch.arange(size, dtype=torch.float32).unsqueeze(1)
    place = torch.where(past, torch.ones(()), torch.zeros(())).sum(1)
    return torch.clamp(place, 0.0, float(count - 1)).to(torch.int32)
