"""Variance and mean in one op, as two; and the variance of too few elements.

**What it rewrites.** ``var_mean`` and ``std_mean`` in every form, and ``var`` and ``std`` where the correction is not
below the number of elements.

**The identity.** The pair is ``(var, mean)`` or ``(std, mean)`` of the same dimensions. The sum of squared distances is
divided by ``max(0, n - correction)``, which is zero where there are too few elements: NaN for a sum of zero or NaN,
infinity for any other.

**Why the backend needs it.** Arm's partitioner does not know the pairs, and its lowering divides by zero on the other.

**What it leaves alone.** Complex inputs, and reductions of no element.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes var_mean and std_mean, and a correction as large as the count; ExecuTorch 1.5.1 does not"


@rewrite(aten.var_mean.correction)
def var_mean(
    x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Variance and mean."""
    return _variance(x, dim, correction, keepdim), _mean(x, dim, keepdim)


@rewrite(aten.std_mean.correction)
def std_mean(
    x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean."""
    return _variance(x, dim, correction, keepdim, root=True), _mean(x, dim, keepdim)


@rewrite(aten.var_mean.dim)
def var_mean_along_dimensions(
    x: Tensor, dim: list[int] | None, unbiased: bool = True, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Variance and mean, in the older form."""
    return _variance(x, dim, unbiased, keepdim), _mean(x, dim, keepdim)


@rewrite(aten.std_mean.dim)
def std_mean_along_dimensions(
    x: Tensor, dim: list[int] | None, unbiased: bool = True, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean, in the older form."""
    return _variance(x, dim, unbiased, keepdim, root=True), _mean(x, dim, keepdim)


@rewrite(aten.var_mean.default)
def var_mean_of_all(x: Tensor, unbiased: bool = True) -> tuple[Tensor, Tensor]:
    """Variance and mean of all elements."""
    return _variance(x, None, unbiased, False), _mean(x, None, False)


@rewrite(aten.std_mean.default)
def std_mean_of_all(x: Tensor, unbiased: bool = True) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean of all elements."""
    return _variance(x, None, unbiased, False, root=True), _mean(x, None, False)


@rewrite(aten.var.correction)
def var(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    """The variance from its definition."""
    return _variance(x, dim, correction, keepdim)


@rewrite(aten.std.correction)
def std(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    """The standard deviation from the variance."""
    return _variance(x, dim, correction, keepdim, root=True)


@rewrite(aten.var.dim)
def var_along_dimensions(x: Tensor, dim: list[int] | None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """The variance, in the older form."""
    return _variance(x, dim, unbiased, keepdim)


@rewrite(aten.std.dim)
def std_along_dimensions(x: Tensor, dim: list[int] | None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """The standard deviation, in the older form."""
    return _variance(x, dim, unbiased, keepdim, root=True)


@rewrite(aten.var.default)
def var_of_all(x: Tensor, unbiased: bool = True) -> Tensor:
    """The variance of all elements."""
    return _variance(x, None, unbiased, False)


@rewrite(aten.std.default)
def std_of_all(x: Tensor, unbiased: bool = True) -> Tensor:
    """The standard deviation of all elements."""
    return _variance(x, None, unbiased, False, root=True)


def _variance(x: Tensor, dim: list[int] | None, correction: float | None, keepdim: bool, root: bool = False) -> Tensor:
    if not x.is_floating_point():
        raise Decline(f"the variance of {x.dtype} is not computed here")
    if x.dtype in (torch.float16, torch.bfloat16):
        return _variance(x.to(torch.float32), dim, correction, keepdim, root).to(x.dtype)
    dims = _dims(x, dim)
    y = x if x.dim() else x.unsqueeze(0)
    count = math.prod(y.shape[d] for d in dims)
    if count == 0:
        raise Decline("it is of no element")
    distance = y - torch.mean(y, dims, True)
    divisor = max(0.0, count - float(1 if correction is None else correction))
    # Its dimensions are dropped at the end: Arm's int8 arithmetic gives a value without dimensions one.
    result = torch.sum(distance * distance, dims, True) * (1.0 / divisor if divisor else math.inf)
    result = torch.sqrt(result) if root else result
    if keepdim and x.dim():
        return result
    dropped = {d % y.dim() for d in dims}
    return result.reshape([size for d, size in enumerate(y.shape) if d not in dropped])


def _mean(x: Tensor, dim: list[int] | None, keepdim: bool) -> Tensor:
    return torch.mean(x if x.dim() else x.unsqueeze(0), _dims(x, dim), keepdim and x.dim() > 0)


def _dims(x: Tensor, dim: list[int] | None) -> list[int]:
    return list(dim) if dim else list(range(max(x.dim(), 1)))
