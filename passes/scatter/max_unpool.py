"""Unpooling of maxima, as the largest value that names a position.

**What it rewrites.** ``max_unpool2d`` and ``max_unpool3d``, with and without a batch.

**The identity.** In each plane every value goes to the position that its index names; all others are 0: a
``scatter_reduce`` by ``amax`` into zeros.

**Why the backend needs it.** ExecuTorch decomposes both to int64 arithmetic, which stays on the CPU of Arm's targets.

TOSA's SCATTER may write a position once only, and overlapping windows name one twice.

**What it leaves alone.** Symbolic sizes; more positions times values than ``index-add`` compares. Where one position is
named twice, with values that are not the maximum of their windows any more, PyTorch keeps any of them.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.scatter.index_add import scatter_reduce
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes max_unpool2d and max_unpool3d; not in ExecuTorch 1.5.1"


@rewrite(aten.max_unpool2d.default)
def max_unpool2d(x: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    """With the indices compared as int32."""
    return _unpooled(torch.int32, x, indices, output_size)


@rewrite(aten.max_unpool2d.default, cost=2)
def max_unpool2d_float(x: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    """With the indices compared as float32, for backends without comparisons of integers."""
    return _unpooled(torch.float32, x, indices, output_size)


@rewrite(aten.max_unpool3d.default)
def max_unpool3d(x: Tensor, indices: Tensor, output_size: list[int], stride: list[int], padding: list[int]) -> Tensor:
    """With the indices compared as int32."""
    return _unpooled(torch.int32, x, indices, output_size)


@rewrite(aten.max_unpool3d.default, cost=2)
def max_unpool3d_float(
    x: Tensor, indices: Tensor, output_size: list[int], stride: list[int], padding: list[int]
) -> Tensor:
    """With the indices compared as float32."""
    return _unpooled(torch.float32, x, indices, output_size)


def _unpooled(kind: torch.dtype, x: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    outer = list(x.shape[: x.dim() - len(output_size)])
    if not all(isinstance(size, int) for size in (*x.shape, *output_size)):
        raise Decline("its size is symbolic")
    planes, positions = math.prod(outer), math.prod(output_size)
    if x.numel() == 0:
        raise Decline("there is nothing to put anywhere")
    flat, index = x.reshape(planes, -1), indices.to(torch.int32).reshape(planes, -1)
    zeros = torch.zeros([planes, positions], dtype=x.dtype)
    return scatter_reduce(kind, zeros, 1, index, flat, "amax", include_self=False).reshape([*outer, *output_size])
