"""Reflected, replicated and circular padding, as slices side by side.

**What it rewrites.** ``pad`` in its modes ``reflect``, ``replicate`` and ``circular``, ``reflection_pad1d`` to ``3d``,
and ``replication_pad1d`` to ``3d``.

**The identity.** Dimension by dimension, what is put before and after are elements of the tensor itself: in circular
padding a slice from the other end, in replicated padding the border again and again, in reflected padding the elements
next to the border, one by one in the opposite order. Values are moved, not computed.

**Why the backend needs it.** PyTorch decomposes ``reflect`` and ``replicate`` to int64 index arithmetic, and
``circular`` to writes into memory that nobody has filled; XNNPACK takes none of it.

**What it leaves alone.** Symbolic sizes; negative amounts; more than 64 elements to reflect, or to repeat, at one end.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "XNNPACK takes pad in all modes; ExecuTorch 1.5.1 takes it with a constant"

_MOST_SLICES = 64


@rewrite(aten.pad.default)
def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """By the name of the mode."""
    if mode == "constant":
        raise Decline("it pads with a constant")
    return _surrounded(x, pad, mode)


@rewrite(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def reflection_pad(x: Tensor, padding: Sequence[int]) -> Tensor:
    """Without the border itself."""
    return _surrounded(x, padding, "reflect")


@rewrite(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def replication_pad(x: Tensor, padding: Sequence[int]) -> Tensor:
    """The border itself."""
    return _surrounded(x, padding, "replicate")


def _surrounded(x: Tensor, amounts: Sequence[int], mode: str) -> Tensor:
    y = x
    for number, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        dim = x.dim() - 1 - number
        size = y.shape[dim]
        if not all(isinstance(n, int) for n in (size, before, after)):
            raise Decline("a size is symbolic; export with constant ones")
        if min(before, after) < 0:
            raise Decline("an amount is negative")
        if mode != "circular" and max(before, after) > _MOST_SLICES:
            raise Decline(f"{max(before, after)} elements at one end are that many slices; {_MOST_SLICES} are the most")
        if mode == "circular":
            first = _pieces(y, dim, [size - before] if before else [], before)
            last = _pieces(y, dim, [0] if after else [], after)
        elif mode == "replicate":
            first = _pieces(y, dim, [0])[:before] * before
            last = _pieces(y, dim, [size - 1])[:after] * after
        else:
            first = _pieces(y, dim, range(before, 0, -1))
            last = _pieces(y, dim, range(size - 2, size - 2 - after, -1))
        y = torch.cat([*first, y, *last], dim) if first or last else y
    return y.clone() if y is x else y


def _pieces(x: Tensor, dim: int, starts: Sequence[int], length: int = 1) -> list[Tensor]:
    return [aten.slice.Tensor(x, dim, start, start + length) for start in starts]
