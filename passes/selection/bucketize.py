"""bucketize and searchsorted by counting the boundaries below a value.

**What it rewrites.** ``bucketize`` and ``searchsorted``: one row of boundaries or many, ``right``, ``side``,
``out_int32``, ``sorter``.

**The identity.** The place where a value goes is the number of boundaries that are not at least as large (for
``right``: not larger). The negation puts NaN behind all of them, as the binary search does. It needs sorted
boundaries without NaN; the search does too.

**Why the backend needs it.** TOSA has no search, and Arm takes neither op.

**What it leaves alone.** int64 and float64 values, and more comparisons than fit memory.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection._ranking import BLOCK, counted
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes bucketize; it is not in its support list in ExecuTorch 1.5.1"


@rewrite(aten.bucketize.Tensor)
def bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Counted in int32."""
    return _place(boundaries, x, out_int32, right, torch.int32)


@rewrite(aten.bucketize.Tensor, cost=2, float_only=True)
def bucketize_float(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Counted in float32."""
    return _place(boundaries, x, out_int32, right, torch.float32)


@rewrite(aten.searchsorted.Tensor)
def searchsorted(
    boundaries: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Counted in int32."""
    ordered = boundaries if sorter is None else boundaries.gather(-1, sorter)
    return _place(ordered, x, out_int32, right or side == "right", torch.int32)


@rewrite(aten.searchsorted.Tensor, cost=2, float_only=True)
def searchsorted_float(
    boundaries: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Counted in float32."""
    ordered = boundaries if sorter is None else boundaries.gather(-1, sorter)
    return _place(ordered, x, out_int32, right or side == "right", torch.float32)


def _place(boundaries: Tensor, x: Tensor, out_int32: bool, right: bool, count: torch.dtype) -> Tensor:
    if x.dtype in (torch.int64, torch.float64) or boundaries.dtype != x.dtype:
        raise Decline(f"{x.dtype} values among {boundaries.dtype} boundaries are not compared on an accelerator")
    n = boundaries.shape[-1]
    if x.numel() == 0 or n == 0:
        raise Decline("there is nothing to look for")
    if x.numel() * n > 16 * BLOCK or n >= 1 << 24:
        raise Decline(f"{x.numel()} values among {n} boundaries are too many to compare all of them")
    rows = boundaries.unsqueeze(-2) if boundaries.dim() > 1 else boundaries.reshape([1] * x.dim() + [n])
    value = x.unsqueeze(-1)
    below = torch.logical_not(rows > value if right else rows >= value)
    place = counted(below, count).sum(-1, dtype=count)
    if count != torch.int32:
        place = place.to(torch.int32)
    return place if out_int32 else place.to(torch.int64)
