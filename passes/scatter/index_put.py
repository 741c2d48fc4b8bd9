"""Writing to indexed places, with int32 indices that count from the start, or by a mask.

**What it rewrites.** ``index_put`` with integer indices or with a Boolean mask, ``index_copy`` and ``put``: ``x[i] =
v``, ``cache[:, :, position] = new``, ``x[mask] = v``, ``x[i, :, j] += v``.

**The identity.** The indexed dimensions move to the front, the indices are flattened together, and the values get the
shape that the selection would have. Negative indices count from the end: ``where(i < 0, i + n, i)``. With a mask the
result is ``where(mask, v, x)``, as each value is the same for all places of the mask. Where one value is written to
several computed places, every place is compared with the indices, as one may be named twice; of constant indices that
name one place twice the last one counts.

**Why the backend needs it.** TOSA has no int64, and its SCATTER neither wraps negative indices nor may write to a place
twice; Arm takes a mask only
with a single value and without accumulation, and adds only once where an index occurs twice.

**What it leaves alone.** A mask with one value for each of its places; accumulation where an index that is not constant
may occur twice along a dimension of more than 2**22 places times indices (``x.index_add`` has the same limit). Writing
different values to one place without accumulation has no defined result in PyTorch.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.scatter._places import along, counted, wrapped
from lowerfix.rewriting import constant, never_negative, rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes int64 and negative indices, duplicates and masks in index_put; not in ExecuTorch 1.5.1"

LARGEST = 1 << 22


@rewrite(aten.index_put.default)
def index_put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """By SCATTER, with index arithmetic in int32."""
    return _put(x, indices, values, accumulate, torch.int32)


@rewrite(aten.index_put.default, cost=2)
def index_put_float(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """The same with index arithmetic in float32, for backends without int32 comparisons."""
    return _put(x, indices, values, accumulate, torch.float32)


@rewrite(aten.index_put.default, wrong="its SCATTER neither wraps negative indices nor adds twice to one place")
def index_put_corrected(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    _check_wrong(x, indices, accumulate)
    return _put(x, indices, values, accumulate, torch.int32)


@rewrite(aten.index_put.default, cost=2, wrong="its SCATTER neither wraps negative indices nor adds twice to one place")
def index_put_float_corrected(
    x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    _check_wrong(x, indices, accumulate)
    return _put(x, indices, values, accumulate, torch.float32)


@rewrite(aten.index_put.default, cost=0.5)
def index_put_by_mask(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """``x[..., mask, ...] = v`` where ``v`` does not depend on the place in the mask."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][1].dtype not in (torch.bool, torch.uint8):
        raise Decline("the indices are not one Boolean mask")
    [(dim, mask)] = given
    after = x.dim() - dim - mask.dim()
    places = values.dim() - after - 1
    if places >= 0 and values.shape[places] != 1:
        raise Decline("the values differ from place to place of the mask: which goes where depends on data")
    shape = list(values.shape)
    if places >= 0:  # the selection has one dimension instead of the mask's
        shape = shape[:places] + [1] * mask.dim() + shape[places + 1 :]
    mask = mask if mask.dtype == torch.bool else mask != 0
    mask = mask.reshape(list(mask.shape) + [1] * after)
    value = values.reshape([1] * (x.dim() - len(shape)) + shape)
    return torch.where(mask, x + value if accumulate else value, x)


@rewrite(aten.index_copy.default)
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``x[:, i] = source``; a negative index is an error in PyTorch."""
    if x.dim() == 0:
        return source.reshape([]).clone()
    dim = dim % x.dim()
    number = counted(index, x.shape[dim], torch.int32, False).reshape(-1)
    result: Tensor = aten.index_put.default(_front(x, [dim]), [number], _front(source, [dim]))
    return result.permute(_back([dim], x.dim()))


@rewrite(aten.put.default)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``x.reshape(-1)[i] = source``."""
    return _put(x.reshape(-1), [index], source.reshape(index.shape), accumulate, torch.int32).reshape(x.shape)


@rewrite(aten.put.default, cost=2)
def put_float(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """The same with index arithmetic in float32."""
    return _put(x.reshape(-1), [index], source.reshape(index.shape), accumulate, torch.float32).reshape(x.shape)


def _put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool, kind: torch.dtype) -> Tensor:
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for _, index in given):
        raise Decline("the index is a Boolean mask: which places it names depends on data")
    dims = [dim for dim, _ in given]
    shape = list(torch.broadcast_shapes(*(index.shape for _, index in given)))
    rest = [x.shape[dim] for dim in range(x.dim()) if dim not in dims]
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    at = dims[0] if adjacent else 0
    value = values.expand(rest[:at] + shape + rest[at:])
    value = _front(value, list(range(at, at + len(shape)))).reshape([math.prod(shape), *rest])
    sizes = [x.shape[dim] for dim in dims]
    front = _front(x, dims)
    distinct = _distinct([index for _, index in given], sizes)
    last = None if accumulate or distinct else _last([index for _, index in given], sizes)
    if accumulate and not distinct:
        result = _added(front, [index for _, index in given], sizes, shape, value, kind)
    elif not distinct and math.prod(shape) > 1 and _one_value(values, len(rest) - at, len(shape)):
        result = _written(front, [index for _, index in given], sizes, shape, value, kind)
    elif last is not None:
        kept, named = (torch.tensor(numbers, dtype=torch.int32) for numbers in last)
        result = aten.index_put.default(front, [named], value.index_select(0, kept))
    else:
        numbers = [wrapped(index, size, kind) for (_, index), size in zip(given, sizes, strict=True)]
        places = [number.expand(shape).reshape(-1) for number in numbers]
        result = aten.index_put.default(front, places, value, accumulate)
    return result.permute(_back(dims, x.dim())) if dims != list(range(len(dims))) else result


def _one_value(values: Tensor, after: int, places: int) -> bool:
    """Whether all places get the same: the dimensions of the places are missing, or of size one."""
    sizes = list(values.shape[: values.dim() - after])[-places:] if values.dim() > after and places else []
    return all(size == 1 for size in sizes)


def _added(
    x: Tensor, indices: list[Tensor], sizes: list[int], shape: list[int], value: Tensor, kind: torch.dtype
) -> Tensor:
    """Each place of the leading dimensions gets the sum of the values whose indices name it."""
    total = math.prod(sizes)
    flat = x.reshape([total, *x.shape[len(sizes) :]])
    named = _comparison(flat, indices, sizes, shape, flat.numel(), kind)
    added = torch.where(named, value.unsqueeze(0), torch.zeros((), dtype=value.dtype)).sum(1).to(x.dtype)
    return torch.where(named.any(1), flat + added, flat).reshape(x.shape)


def _written(
    x: Tensor, indices: list[Tensor], sizes: list[int], shape: list[int], value: Tensor, kind: torch.dtype
) -> Tensor:
    """Each place of the leading dimensions that an index names gets the value, which is the same for all."""
    total = math.prod(sizes)
    flat = x.reshape([total, *x.shape[len(sizes) :]])
    named = _comparison(flat, indices, sizes, shape, total, kind)
    return torch.where(named.any(1), value[:1], flat).reshape(x.shape)


def _comparison(
    flat: Tensor, indices: list[Tensor], sizes: list[int], shape: list[int], places: int, kind: torch.dtype
) -> Tensor:
    """Whether an index (second dimension) names a place (first); the other dimensions are of size one."""
    total, count = flat.shape[0], math.prod(shape)
    if not isinstance(count, int) or places * count > LARGEST:
        raise Decline("there are too many places and values to compare each with each, as indices may occur twice")
    number: Tensor | None = None
    for index, size in zip(indices, sizes, strict=True):
        place = counted(index, size, kind, True)
        if not never_negative(index):
            place = torch.where(place < 0, place + size, place)
        number = place if number is None else number * size + place
    assert number is not None
    rank = flat.dim()
    number = number.expand(shape).reshape([1, count] + [1] * (rank - 1))
    return along(0, rank + 1, 0, total, kind) == number


def _check_wrong(x: Tensor, indices: list[Tensor | None], accumulate: bool) -> None:
    given = [index for index in indices if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in given):
        raise Decline("a mask has no negative places")
    for dim, index in enumerate(indices):
        if index is not None and constant(index) is not None:
            counted(index, x.shape[dim], torch.int32, True)
    if all(map(never_negative, given)) and not (accumulate and not _distinct(given, [LARGEST] * len(given))):
        raise Decline("no index is negative, and none is added to twice")


def _distinct(indices: list[Tensor], sizes: list[int]) -> bool:
    """Whether constant indices name each place at most once."""
    values = [constant(index) for index in indices]
    if len(values) != 1 or values[0] is None:
        return False
    places = {int(v) % sizes[0] for v in values[0].reshape(-1)}
    return len(places) == values[0].size


def _last(indices: list[Tensor], sizes: list[int]) -> tuple[list[int], list[int]] | None:
    """Of constant indices, the numbers of those that are the last to name their place, and the places."""
    values = [constant(index) for index in indices]
    if len(values) != 1 or values[0] is None:
        return None
    last = {int(place) % sizes[0]: number for number, place in enumerate(values[0].reshape(-1))}
    return list(last.values()), list(last)


def _front(x: Tensor, dims: list[int]) -> Tensor:
    if dims == list(range(len(dims))):
        return x
    return x.permute([*dims, *(dim for dim in range(x.dim()) if dim not in dims)])


def _back(dims: list[int], rank: int) -> list[int]:
    order = [*dims, *(dim for dim in range(rank) if dim not in dims)]
    return [order.index(dim) for dim in range(rank)]
