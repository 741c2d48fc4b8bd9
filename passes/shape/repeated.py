"""What is repeated, as a product with ones.

**What it rewrites.** ``expand``, ``repeat``, ``repeat_interleave`` with a number, and ``cat`` of a tensor with itself.

**The identity.** ``x * 1`` is ``x``, for NaN, infinities and both zeros too, and a product broadcasts: only the
repeated dimension of the ones is longer than one. An ``expand`` that changes nothing is its argument.

**Why the backend needs it.** XNNPACK takes none of them, and a ``cat`` of different tensors only.

**What it leaves alone.** Integers and Booleans, symbolic sizes, and empty results.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes expand and repeat; ExecuTorch 1.5.1's does not"


@rewrite(aten.expand.default)
def expand(x: Tensor, size: list[int], *, implicit: bool = False) -> Tensor:
    """Dimensions of size one made longer, and new ones."""
    added = len(size) - x.dim()
    shape = [1] * added + list(x.shape)
    wanted = [old if new == -1 else new for old, new in zip(shape, size, strict=True)]
    if wanted == list(x.shape):
        return x
    _check(x, [*shape, *wanted])
    y = x.reshape(shape) if added else x
    ones = [new if new != old else 1 for old, new in zip(shape, wanted, strict=True)]
    return y * torch.ones(ones, dtype=x.dtype) if math.prod(ones) > 1 else y


@rewrite(aten.repeat.default)
def repeat(x: Tensor, repeats: list[int]) -> Tensor:
    """The whole tensor, so many times along each dimension."""
    _check(x, [*x.shape, *repeats])
    added = len(repeats) - x.dim()
    y = x.reshape([1] * added + list(x.shape)) if added else x
    for dim, times in enumerate(repeats):
        if times > 1:
            y = _repeated(y, dim, times)
    return y if y is not x else x.clone()


@rewrite(aten.repeat_interleave.self_int)
def repeat_interleave(x: Tensor, repeats: int, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each element so many times in a row."""
    _check(x, [*x.shape, repeats])
    y, at = (x.reshape(-1), 0) if dim is None else (x, dim % max(x.dim(), 1))
    before, size, after = math.prod(y.shape[:at]), y.shape[at], math.prod(y.shape[at + 1 :])
    spread = y.reshape(before, size, 1, after) * torch.ones([1, 1, repeats, 1], dtype=x.dtype)
    return spread.reshape([*y.shape[:at], size * repeats, *y.shape[at + 1 :]])


@rewrite(aten.cat.default)
def cat_with_itself(tensors: list[Tensor], dim: int = 0) -> Tensor:
    """The same tensor, time after time."""
    first = tensors[0]
    if any(other is not first for other in tensors):
        raise Decline("it joins different tensors")
    _check(first, list(first.shape))
    return _repeated(first, dim % first.dim(), len(tensors)) if len(tensors) > 1 else first.clone()


def _repeated(x: Tensor, dim: int, times: int) -> Tensor:
    before, rest = math.prod(x.shape[:dim]), math.prod(x.shape[dim:])
    y = x.reshape(before, 1, rest) * torch.ones([1, times, 1], dtype=x.dtype)
    return y.reshape([*x.shape[:dim], x.shape[dim] * times, *x.shape[dim + 1 :]])


def _check(x: Tensor, sizes: list[int]) -> None:
    if not x.is_floating_point():
        raise Decline(f"a product of {x.dtype} is no cheaper")
    if not all(isinstance(size, int) for size in sizes):
        raise Decline("a size is symbolic")
    if 0 in sizes:
        raise Decline("the result is empty")
