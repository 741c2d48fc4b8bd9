"""Unpooling of maxima, as one write per value into a tensor of zeros.

**What it rewrites.** ``max_unpool2d`` and ``max_unpool3d``, with and without a batch.

**The identity.** In each plane every value goes to the position that its index names; all others are 0. The planes are
numbered by a constant, and the pair of plane and position is an ``index_put``.

**Why the backend needs it.** ExecuTorch decomposes both to int64 arithmetic, which stays on the CPU of Arm's targets.

**What it leaves alone.** Symbolic sizes. Where overlapping windows name one position twice, both values are that
position's maximum.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes max_unpool2d and max_unpool3d; not in ExecuTorch 1.5.1"


@rewrite(aten.max_unpool2d.default)
def max_unpool2d(x: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    return _unpooled(x, indices, output_size)


@rewrite(aten.max_unpool3d.default)
def max_unpool3d(x: Tensor, indices: Tensor, output_size: list[int], stride: list[int], padding: list[int]) -> Tensor:
    return _unpooled(x, indices, output_size)


def _unpooled(x: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    outer = list(x.shape[: x.dim() - len(output_size)])
    if not all(isinstance(size, int) for size in (*x.shape, *output_size)):
        raise Decline("its size is symbolic")
    planes, positions = math.prod(outer), math.prod(output_size)
    if x.numel() == 0:
        raise Decline("there is nothing to put anywhere")
    values = x.numel() // planes
    plane = torch.arange(planes, dtype=torch.int32).unsqueeze(1).expand(planes, values).reshape(-1)
    position = indices.to(torch.int32).reshape(-1)
    zeros = torch.zeros([planes, positions], dtype=x.dtype)
    result: Tensor = aten.index_put.default(zeros, [plane, position], x.reshape(-1))
    return result.reshape([*outer, *output_size])
