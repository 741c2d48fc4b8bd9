"""Adding, filling and reducing at indexed places, place by place.

**What it rewrites.** ``index_add``, ``index_fill`` and ``index_reduce``; ``scatter`` with a tensor or a value, with and
without ``reduce``; ``scatter_add`` and ``scatter_reduce`` with every reduction.

**The identity.** Every position along the dimension is compared with the index: where they are equal, the value is put
there, added, multiplied or compared, in the order of the index as PyTorch does it; elsewhere the tensor stays as it
is. Nothing is multiplied by a mask, so NaN and infinity stay where they are. Of more than eight indices all values for
one position are reduced at once, which adds them in another order. Without ``include_self`` the places that are named
start from 0, 1 or an infinity. A mean is the sum divided by the number of values.

**Why the backend needs it.** TOSA has a SCATTER for distinct indices and no int64. Arm adds, for ``index_add``, only
one of the values where an index occurs twice.

**What it leaves alone.** More than 2**22 positions times indices; more than 64 indices where the last of equal ones
counts; means of integers. ``index_fill`` counts negative indices from the end; to the others they are an error.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.scatter._places import along, counted
from lowerfix.rewriting import constant, never_negative, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes the scatter and index ops with int64 and repeated indices; not in ExecuTorch 1.5.1"

LARGEST = 1 << 22
UNROLLED = 8
UNROLLED_IN_ORDER = 64

Number = int | float | bool


def _alternatives(op: torch._ops.OpOverload, wrong: str = "") -> Callable[..., Callable[..., Tensor]]:
    """Declare a function twice: with the index compared as int32, and as float32 where integers are not compared."""

    def declare(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        for cost, kind in ((1.0, torch.int32), (2.0, torch.float32)):
            rewrite(op, cost=cost)(_named(function, kind, False))
            if wrong:
                rewrite(op, cost=cost, wrong=wrong)(_named(function, kind, True))
        return function

    return declare


def _named(function: Callable[..., Tensor], kind: torch.dtype, corrects: bool) -> Callable[..., Tensor]:
    def called(*args: object, **kwargs: object) -> Tensor:
        return function(kind, *args, **kwargs, **({"corrects": True} if corrects else {}))

    called.__name__ = f"{function.__name__}_{str(kind).removeprefix('torch.')}{'_corrected' if corrects else ''}"
    return called


@_alternatives(aten.index_add.default, wrong="it adds only one of the values for an index that occurs twice")
def index_add(
    kind: torch.dtype, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1, corrects: bool = False
) -> Tensor:
    values = constant(index)
    if corrects and values is not None and len(set(values.reshape(-1).tolist())) == values.size:
        raise Decline("no index occurs twice")
    return _each(kind, x, dim, index, source if alpha == 1 else source * alpha, "sum", True)


@_alternatives(aten.index_reduce.default)
def index_reduce(
    kind: torch.dtype, x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    return _each(kind, x, dim, index, source, reduce, include_self)


@_alternatives(aten.index_fill.int_Scalar)
def index_fill(kind: torch.dtype, x: Tensor, dim: int, index: Tensor, value: Number) -> Tensor:
    return _filled(kind, x, dim, index, torch.full((), value, dtype=x.dtype))


@_alternatives(aten.index_fill.int_Tensor)
def index_fill_tensor(kind: torch.dtype, x: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    return _filled(kind, x, dim, index, value.to(x.dtype))


@_alternatives(aten.scatter.src)
def scatter(kind: torch.dtype, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scattered(kind, x, dim, index, src, "last", True)


@_alternatives(aten.scatter.value)
def scatter_value(kind: torch.dtype, x: Tensor, dim: int, index: Tensor, value: Number) -> Tensor:
    return _scattered(kind, x, dim, index, torch.full((), value, dtype=x.dtype), "last", True)


@_alternatives(aten.scatter.reduce)
def scatter_with_reduce(kind: torch.dtype, x: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
    return _scattered(kind, x, dim, index, src, _REDUCTIONS[reduce], True)


@_alternatives(aten.scatter.value_reduce)
def scatter_value_with_reduce(
    kind: torch.dtype, x: Tensor, dim: int, index: Tensor, value: Number, *, reduce: str
) -> Tensor:
    return _scattered(kind, x, dim, index, torch.full((), value, dtype=x.dtype), _REDUCTIONS[reduce], True)


@_alternatives(aten.scatter_add.default)
def scatter_add(kind: torch.dtype, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scattered(kind, x, dim, index, src, "sum", True)


@_alternatives(aten.scatter_reduce.two)
def scatter_reduce(
    kind: torch.dtype, x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    return _scattered(kind, x, dim, index, src, reduce, include_self)


_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def _filled(kind: torch.dtype, x: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    y = x if x.dim() else x.reshape(1)
    dim = dim % y.dim()
    size, count = y.shape[dim], index.numel()
    if count == 0:
        return x.clone()
    number = counted(index, size, kind, True).reshape([count] + [1] * y.dim())
    _check_size(size * count)
    named = along(dim + 1, y.dim() + 1, 0, size, kind) == number
    if not never_negative(index):
        named = named | (along(dim + 1, y.dim() + 1, -size, 0, kind) == number)
    return torch.where(named.any(0), value, y).reshape(x.shape)


def _each(
    kind: torch.dtype, x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """The ops whose index has one dimension and names whole slices."""
    y = x if x.dim() else x.reshape(1)
    dim = dim % y.dim()
    number = counted(index, y.shape[dim], kind, False)
    number = number.reshape([index.numel() if d == dim else 1 for d in range(y.dim())])
    source = source if source.dim() == y.dim() else source.reshape(number.shape)
    return _reduced(y, dim, number, source, reduce, include_self).reshape(x.shape)


def _scattered(
    kind: torch.dtype, x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """The ops whose index has the rank of the tensor, and may be smaller than it."""
    y, number = (x, index) if x.dim() else (x.reshape(1), index.reshape(-1))
    if index.numel() == 0:
        return x.clone()
    dim = dim % y.dim()
    number = number if number.dim() == y.dim() else number.reshape([1] * y.dim())
    if source.dim():
        source = source.reshape(-1) if source.dim() < y.dim() else source
        for d, size in enumerate(number.shape):
            source = source if source.shape[d] == size else source.narrow(d, 0, size)
    region = [y.shape[d] if d == dim else number.shape[d] for d in range(y.dim())]
    part = y
    for d, size in enumerate(region):
        part = part if part.shape[d] == size else part.narrow(d, 0, size)
    number = counted(index, y.shape[dim], kind, False).reshape(number.shape)
    result = _reduced(part, dim, number, source, reduce, include_self)
    for d, size in enumerate(region):  # put back what the index does not reach
        if y.shape[d] != size:
            rest = y.narrow(d, size, y.shape[d] - size)
            for later in range(d + 1, y.dim()):
                rest = rest.narrow(later, 0, region[later])
            result = torch.cat([result, rest], d)
    return result.reshape(x.shape)


def _reduced(x: Tensor, dim: int, number: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """``number`` has the rank of ``x``; its dimension ``dim`` counts the values, the others are those of ``x`` or 1."""
    size, count = x.shape[dim], number.shape[dim]
    if reduce == "mean" and not x.is_floating_point():
        raise Decline("a mean of integers is rounded down, once, from a sum that may not fit")
    if not isinstance(count, int):
        raise Decline(f"the index has the symbolic size {count}")
    if x.is_complex():
        raise Decline("complex numbers are no numbers of the backend")
    if count == 0:
        return x.clone()
    places = along(dim, x.dim(), 0, size, number.dtype)
    if reduce == "last" or count <= UNROLLED:
        return _one_by_one(x, dim, number, source, places, reduce, include_self)
    _check_size(x.numel() * count)
    named = places.unsqueeze(dim + 1) == number.unsqueeze(dim)
    start = _START[reduce](x.dtype)
    values = source.unsqueeze(dim) if source.dim() else source
    values = torch.where(named, values, torch.full((), start, dtype=x.dtype)).expand(
        [*x.shape[: dim + 1], count, *x.shape[dim + 1 :]]
    )
    result = _TOGETHER[reduce](values, dim + 1).to(x.dtype)
    if include_self:
        result = _join(x, result, reduce)
    if reduce == "mean":
        hits = torch.where(named, torch.ones((), dtype=x.dtype), torch.zeros((), dtype=x.dtype)).sum(dim + 1)
        result = result / (hits + 1 if include_self else torch.clamp(hits, min=1))
    return torch.where(named.any(dim + 1), result, x)


def _one_by_one(
    x: Tensor, dim: int, number: Tensor, source: Tensor, places: Tensor, reduce: str, include_self: bool
) -> Tensor:
    count = number.shape[dim]
    if count > UNROLLED_IN_ORDER:
        raise Decline(f"of {count} indices the last of equal ones counts; up to {UNROLLED_IN_ORDER} are gone through")
    hits = [places == number.narrow(dim, n, 1) for n in range(count)]
    result = x
    if not include_self:
        named = hits[0]
        for hit in hits[1:]:
            named = named | hit
        result = torch.where(named, torch.full((), _START[reduce](x.dtype), dtype=x.dtype), x)
    for n, hit in enumerate(hits):
        value = source.narrow(dim, n, 1) if source.dim() else source
        result = torch.where(hit, value if reduce == "last" else _join(result, value, reduce), result)
    if reduce == "mean":
        one, none = torch.ones((), dtype=x.dtype), torch.zeros((), dtype=x.dtype)
        total = torch.where(hits[0], one, none)
        for hit in hits[1:]:
            total = total + torch.where(hit, one, none)
        result = result / (total + 1 if include_self else torch.clamp(total, min=1))
    return result


def _join(one: Tensor, other: Tensor, reduce: str) -> Tensor:
    if reduce in ("sum", "mean"):
        return one + other
    if reduce == "prod":
        return one * other
    return torch.maximum(one, other) if reduce == "amax" else torch.minimum(one, other)


_TOGETHER: dict[str, Callable[[Tensor, int], Tensor]] = {
    "sum": lambda values, dim: values.sum(dim),
    "mean": lambda values, dim: values.sum(dim),
    "prod": lambda values, dim: values.prod(dim),
    "amax": lambda values, dim: values.amax(dim),
    "amin": lambda values, dim: values.amin(dim),
}


def _lowest(dtype: torch.dtype) -> Number:
    return float("-inf") if dtype.is_floating_point else 0 if dtype == torch.bool else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> Number:
    return float("inf") if dtype.is_floating_point else 1 if dtype == torch.bool else torch.iinfo(dtype).max


_START: dict[str, Callable[[torch.dtype], Number]] = {
    "sum": lambda dtype: 0,
    "mean": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "amax": _lowest,
    "amin": _highest,
}


def _check_size(elements: int) -> None:
    if elements > LARGEST:
        raise Decline(f"comparing each position with each index takes {elements} elements, more than {LARGEST}")
