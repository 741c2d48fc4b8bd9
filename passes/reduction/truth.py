"""any and all of numbers, as those of their comparison with zero.

**What it rewrites.** ``any`` and ``all`` of floats and integers: of everything, along one dimension or along several.

**The identity.** A number is true where it is not equal to zero; NaN is, -0 is not. PyTorch returns uint8 for uint8 and
bool otherwise.

**Why the backend needs it.** TOSA's REDUCE_ANY and LOGICAL_NOT take booleans only. Arm's partitioner accepts floats all
the same, and the lowering dies on them, or takes a float without dimensions for its own truth value.

**What it leaves alone.** Booleans. Integers where the backend does not compare them, as in TOSA's float profile.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm compares numbers with zero before REDUCE_ANY; ExecuTorch 1.5.1 hands them to it as they are"

WRONG = "it hands the number on as its own truth value"


@rewrite(aten.any.default)
@rewrite(aten.any.default, wrong=WRONG)
def any_of_numbers(x: Tensor) -> Tensor:
    """Of all elements."""
    return _typed(torch.any(_truth(x)) if x.dim() else _truth(x), x)


@rewrite(aten.any.dim)
@rewrite(aten.any.dim, wrong=WRONG)
def any_along_a_dimension(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Along one dimension."""
    return _typed(torch.any(_truth(x), dim, keepdim) if x.dim() else _truth(x), x)


@rewrite(aten.any.dims)
@rewrite(aten.any.dims, wrong=WRONG)
def any_along_dimensions(x: Tensor, dim: list[int] | None = None, keepdim: bool = False) -> Tensor:
    """Along several dimensions; without any, element by element, and with none given, along all."""
    truth = _truth(x)
    if x.dim() == 0 or (dim is not None and len(dim) == 0):
        return _typed(truth, x)
    return _typed(torch.any(truth, tuple(range(x.dim())) if dim is None else tuple(dim), keepdim), x)


@rewrite(aten.all.default)
@rewrite(aten.all.default, wrong=WRONG)
def all_of_numbers(x: Tensor) -> Tensor:
    """Of all elements."""
    return _typed(torch.all(_truth(x)) if x.dim() else _truth(x), x)


@rewrite(aten.all.dim)
@rewrite(aten.all.dim, wrong=WRONG)
def all_along_a_dimension(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Along one dimension."""
    return _typed(torch.all(_truth(x), dim, keepdim) if x.dim() else _truth(x), x)


@rewrite(aten.all.dims)
@rewrite(aten.all.dims, wrong=WRONG)
def all_along_dimensions(x: Tensor, dim: list[int] | None = None, keepdim: bool = False) -> Tensor:
    """Along several dimensions; without any, element by element, and with none given, along all."""
    truth = _truth(x)
    if x.dim() == 0 or (dim is not None and len(dim) == 0):
        return _typed(truth, x)
    return _typed(torch.all(truth, tuple(range(x.dim())) if dim is None else tuple(dim), keepdim), x)


def _truth(x: Tensor) -> Tensor:
    if x.dtype == torch.bool:
        raise Decline("it is of booleans already")
    if x.is_complex():
        raise Decline("complex numbers are not compared with zero here")
    return x != 0


def _typed(result: Tensor, x: Tensor) -> Tensor:
    return result.to(torch.uint8) if x.dtype == torch.uint8 else result
