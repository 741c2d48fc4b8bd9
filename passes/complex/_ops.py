"""What each op comes to when its complex tensors are pairs of real ones."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.complex import _pair
from lowerfix.passes.complex._fourier import Fourier
from lowerfix.passes.complex._pair import Operand, Pair, pair

aten = torch.ops.aten


class On(NamedTuple):
    """What an op is computed on.

    Attributes:
        dtype: of the parts.
        fourier: the Fourier transforms of the program.
    """

    dtype: torch.dtype
    fourier: Fourier


Served = Callable[..., Any]
"""Takes an ``On`` and what the op takes, complex tensors as pairs; returns what the op returns."""

Function = TypeVar("Function", bound=Served)

SERVED: dict[Any, Served] = {}


def serves(*targets: Any) -> Callable[[Function], Function]:
    """Register what some ops come to."""

    def register(function: Function) -> Function:
        SERVED.update(dict.fromkeys(targets, function))
        return function

    return register


# Ops that move elements, and linear ones: the same on either part -----------------------------------------------------

_MOVES = (
    aten.alias.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.detach.default,
    aten.lift_fresh_copy.default,
    aten.positive.default,
    aten.permute.default,
    aten.transpose.int,
    aten.t.default,
    aten.numpy_T.default,
    aten.mT.default,
    aten.movedim.int,
    aten.movedim.intlist,
    aten.swapaxes.default,
    aten.swapdims.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.expand.default,
    aten.broadcast_to.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
    aten.select.int,
    aten.slice.Tensor,
    aten.narrow.default,
    aten.diagonal.default,
    aten.index.Tensor,
    aten.index_select.default,
    aten.gather.default,
    aten.take_along_dim.default,
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.chunk.default,
    aten.unbind.int,
    aten.tensor_split.sections,
    aten.repeat.default,
    aten.tile.default,
    aten.repeat_interleave.self_int,
    aten.roll.default,
    aten.flip.default,
    aten.fft_fftshift.default,
    aten.fft_ifftshift.default,
    aten.tril.default,
    aten.triu.default,
    aten.zeros_like.default,
)

_JOINS = (
    aten.cat.default,
    aten.concat.default,
    aten.stack.default,
    aten.hstack.default,
    aten.vstack.default,
    aten.dstack.default,
)

_SUMS = (
    aten.sum.default,
    aten.sum.dim_IntList,
    aten.mean.default,
    aten.mean.dim,
    aten.cumsum.default,
)


_SCATTERS = (aten.slice_scatter.default, aten.select_scatter.default)


def _same_on_both(target: Any) -> Served:
    """The op on either part."""

    def served(on: On, *args: Any, **kwargs: Any) -> Any:
        results = [target(*_pick(args, part), **_pick(kwargs, part)) for part in (0, 1)]
        if isinstance(results[0], Tensor):
            return Pair(*results)
        return [Pair(*both) for both in zip(*results, strict=True)]

    return served


def _pick(values: Any, part: int) -> Any:
    """Arguments with one part of each pair."""
    if isinstance(values, Pair):
        return values[part]
    if isinstance(values, dict):
        return {key: _pick(value, part) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(_pick(value, part) for value in values)
    return values


def _join(target: Any) -> Served:
    """The op on either part of its list; a real tensor among complex ones is complex."""
    same = _same_on_both(target)

    def served(on: On, tensors: Sequence[Operand], *args: Any) -> Any:
        return same(on, [pair(tensor, on.dtype) for tensor in tensors], *args)

    return served


def _sum(target: Any) -> Served:
    """The op on either part, in the dtype of the parts."""
    same = _same_on_both(target)

    def served(on: On, z: Operand, *args: Any, dtype: Any = None) -> Any:
        return same(on, pair(z, on.dtype), *args)

    return served


def _scatter(target: Any) -> Served:
    """The op on either part of what is written to and of what is written."""
    same = _same_on_both(target)

    def served(on: On, z: Operand, source: Operand, *where: Any, **kwargs: Any) -> Any:
        return same(on, pair(z, on.dtype), pair(source, on.dtype), *where, **kwargs)

    return served


for _targets, _kind in ((_MOVES, _same_on_both), (_JOINS, _join), (_SUMS, _sum), (_SCATTERS, _scatter)):
    SERVED.update({_target: _kind(_target) for _target in _targets})


@serves(aten.constant_pad_nd.default, aten.pad.default)
def _padded(on: On, z: Pair, pad: Sequence[int], *mode_and_value: Any) -> Pair:
    mode = next((item for item in mode_and_value if isinstance(item, str)), "constant")
    value = next((item for item in mode_and_value if not isinstance(item, str) and item is not None), 0)
    if mode != "constant":
        return Pair(*(F.pad(part, list(pad), mode) for part in z))
    return Pair(
        F.pad(z.real, list(pad), value=complex(value).real), F.pad(z.imag, list(pad), value=complex(value).imag)
    )


@serves(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.view_copy.default)
def _reshape(on: On, z: Pair, shape: Sequence[int]) -> Pair:
    return Pair(*(torch.reshape(part, list(shape)) for part in z))


@serves(aten.view_as.default, aten.reshape_as.default)
def _shaped_as(on: On, z: Operand, other: Operand) -> Any:
    shape = (other.real if isinstance(other, Pair) else other).shape  # type: ignore[union-attr]
    return Pair(*(torch.reshape(part, shape) for part in pair(z, on.dtype)))


@serves(aten.copy.default)
def _copy(on: On, z: Pair, source: Operand, non_blocking: bool = False) -> Pair:
    return Pair(*(part.expand(z.real.shape).clone() for part in pair(source, on.dtype)))


@serves(aten.fill.Scalar, aten.full_like.default)
def _fill(on: On, z: Operand, value: complex, **kwargs: Any) -> Pair:
    like = z.real if isinstance(z, Pair) else z
    assert isinstance(like, Tensor)
    number = complex(value)
    return Pair(*(torch.full_like(like, part, dtype=on.dtype) for part in (number.real, number.imag)))


@serves(aten.ones_like.default)
def _ones_like(on: On, z: Operand, **kwargs: Any) -> Pair:
    return _fill(on, z, 1)


@serves(aten.matrix_H.default, aten.mH.default)
def _adjoint(on: On, z: Pair) -> Pair:
    return Pair(z.real.transpose(-1, -2), -z.imag.transpose(-1, -2))


@serves(operator.getitem)
def _getitem(on: On, values: Sequence[Any], index: int) -> Any:
    return values[index]


# In and out -----------------------------------------------------------------------------------------------------------


@serves(aten.view_as_complex.default, aten.view_as_complex_copy.default)
def _view_as_complex(on: On, x: Tensor) -> Pair:
    return Pair(x.select(-1, 0), x.select(-1, 1))


@serves(aten.view_as_real.default, aten.view_as_real_copy.default)
def _view_as_real(on: On, z: Pair) -> Tensor:
    return torch.stack([z.real, z.imag], -1)


@serves(aten.complex.default)
def _complex(on: On, real: Tensor, imag: Tensor) -> Pair:
    real, imag = torch.broadcast_tensors(real, imag)
    return Pair(real, imag)


@serves(aten.polar.default)
def _polar(on: On, size: Tensor, angle: Tensor) -> Pair:
    return _pair.polar(size, angle)


@serves(aten.real.default)
def _real(on: On, z: Pair) -> Tensor:
    return z.real.clone()


@serves(aten.imag.default)
def _imag(on: On, z: Pair) -> Tensor:
    return z.imag.clone()


@serves(aten.abs.default)
def _abs(on: On, z: Pair) -> Tensor:
    return _pair.absolute(z)


def power(on: On, z: Pair) -> Tensor:
    """The square of the absolute value."""
    return z.real * z.real + z.imag * z.imag


@serves(aten.angle.default)
def _angle(on: On, z: Pair) -> Tensor:
    return _pair.angle(z)


@serves(aten.to.dtype, aten._to_copy.default, aten.to.dtype_layout)
def _to(on: On, x: Operand, *args: Any, **kwargs: Any) -> Any:
    wanted = kwargs.get("dtype") or (args[0] if args else None)
    if wanted is None or wanted.is_complex:
        return pair(x, on.dtype)
    assert isinstance(x, Pair)
    return (x.real != 0) | (x.imag != 0) if wanted == torch.bool else x.real.to(wanted)


@serves(aten.type_as.default)
def _type_as(on: On, x: Operand, other: Operand) -> Any:
    return pair(x, on.dtype) if isinstance(other, Pair) else _to(on, x, other.dtype)  # type: ignore[union-attr]


# One element at a time ------------------------------------------------------------------------------------------------


@serves(aten.add.Tensor, aten.add.Scalar)
def _add(on: On, a: Operand, b: Operand, *, alpha: complex = 1) -> Pair:
    return _pair.add(on.dtype, a, b, alpha)


@serves(aten.sub.Tensor, aten.sub.Scalar, aten.subtract.Tensor)
def _sub(on: On, a: Operand, b: Operand, *, alpha: complex = 1) -> Pair:
    return _pair.sub(on.dtype, a, b, alpha)


@serves(aten.rsub.Tensor, aten.rsub.Scalar)
def _rsub(on: On, a: Operand, b: Operand, alpha: complex = 1) -> Pair:
    return _pair.rsub(on.dtype, a, b, alpha)


@serves(aten.mul.Tensor, aten.mul.Scalar, aten.multiply.Tensor)
def _mul(on: On, a: Operand, b: Operand) -> Pair:
    return _pair.mul(on.dtype, a, b)


@serves(aten.outer.default, aten.ger.default)
def _outer(on: On, a: Pair, b: Pair) -> Pair:
    return _pair.mul(on.dtype, Pair(*(part.unsqueeze(1) for part in pair(a, on.dtype))), b)


@serves(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor, aten.divide.Tensor)
def _div(on: On, a: Operand, b: Operand) -> Pair:
    return _pair.div(on.dtype, a, b)


@serves(aten.reciprocal.default)
def _reciprocal(on: On, z: Pair) -> Pair:
    return _pair.div(on.dtype, 1, z)


@serves(aten.square.default)
def _square(on: On, z: Pair) -> Pair:
    return _pair.mul(on.dtype, z, z)


@serves(aten.pow.Tensor_Scalar)
def _pow(on: On, z: Pair, exponent: complex) -> Pair:
    if exponent == 2:
        return _pair.mul(on.dtype, z, z)
    if exponent == 3:
        return _pair.mul(on.dtype, _pair.mul(on.dtype, z, z), z)
    raise Decline(f"the exponent is {exponent}; squares and cubes are products")


@serves(aten.exp.default)
def _exp(on: On, z: Pair) -> Pair:
    return _pair.exp(z)


@serves(aten.log.default)
def _log(on: On, z: Pair) -> Pair:
    return _pair.log(z)


@serves(aten.sgn.default)
def _sgn(on: On, z: Pair) -> Pair:
    return _pair.sgn(z)


@serves(aten.neg.default)
def _neg(on: On, z: Pair) -> Pair:
    return Pair(-z.real, -z.imag)


@serves(aten._conj.default, aten.conj.default, aten.conj_physical.default, aten._conj_physical.default)
def _conj(on: On, z: Pair) -> Pair:
    return Pair(z.real, -z.imag)


@serves(aten.resolve_conj.default, aten.resolve_neg.default)
def _as_it_is(on: On, z: Pair) -> Pair:
    return z


@serves(aten.eq.Tensor, aten.eq.Scalar)
def _eq(on: On, a: Operand, b: Operand) -> Tensor:
    (ar, ai), (br, bi) = _pair.parts(a, on.dtype), _pair.parts(b, on.dtype)
    return _compared(ar, br, torch.eq) & _compared(ai, bi, torch.eq)


@serves(aten.ne.Tensor, aten.ne.Scalar)
def _ne(on: On, a: Operand, b: Operand) -> Tensor:
    (ar, ai), (br, bi) = _pair.parts(a, on.dtype), _pair.parts(b, on.dtype)
    return _compared(ar, br, torch.ne) | _compared(ai, bi, torch.ne)


def _compared(a: Any, b: Any, compare: Callable[[Any, Any], Tensor]) -> Tensor:
    return compare(a, b) if isinstance(a, Tensor) else compare(b, a)


@serves(aten.isnan.default)
def _isnan(on: On, z: Pair) -> Tensor:
    return (z.real != z.real) | (z.imag != z.imag)


@serves(aten.isfinite.default)
def _isfinite(on: On, z: Pair) -> Tensor:
    return (z.real.abs() < float("inf")) & (z.imag.abs() < float("inf"))


@serves(aten.isinf.default)
def _isinf(on: On, z: Pair) -> Tensor:
    return (z.real.abs() == float("inf")) | (z.imag.abs() == float("inf"))


@serves(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def _where(on: On, condition: Tensor, a: Operand, b: Operand) -> Pair:
    (ar, ai), (br, bi) = _pair.parts(a, on.dtype), _pair.parts(b, on.dtype)
    return Pair(_chosen(condition, ar, br, on.dtype), _chosen(condition, ai, bi, on.dtype))


@serves(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(on: On, z: Pair, mask: Tensor, value: Operand) -> Pair:
    return _where(on, mask, value, z)


def _chosen(condition: Tensor, a: Any, b: Any, dtype: torch.dtype) -> Tensor:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        b = torch.full([], b, dtype=dtype)
    return torch.where(condition, a, b).to(dtype)


# Products of matrices -------------------------------------------------------------------------------------------------


@serves(aten.matmul.default, aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default)
def _matmul(on: On, a: Pair, b: Pair) -> Pair:
    return Pair(
        torch.matmul(a.real, b.real) - torch.matmul(a.imag, b.imag),
        torch.matmul(a.real, b.imag) + torch.matmul(a.imag, b.real),
    )


@serves(aten.linear.default)
def _linear(on: On, x: Pair, weight: Pair, bias: Pair | None = None) -> Pair:
    real = F.linear(x.real, weight.real, None if bias is None else bias.real) - F.linear(x.imag, weight.imag)
    imag = F.linear(x.real, weight.imag, None if bias is None else bias.imag) + F.linear(x.imag, weight.real)
    return Pair(real, imag)


@serves(aten.einsum.default)
def _einsum(on: On, equation: str, operands: Sequence[Operand], *, path: Any = None) -> Pair:
    if len(operands) == 1:
        z = pair(operands[0], on.dtype)
        return Pair(torch.einsum(equation, z.real), torch.einsum(equation, z.imag))
    if len(operands) != 2:
        raise Decline(f"it has {len(operands)} operands; multiply two at a time")
    a, b = (pair(operand, on.dtype) for operand in operands)
    return Pair(
        torch.einsum(equation, a.real, b.real) - torch.einsum(equation, a.imag, b.imag),
        torch.einsum(equation, a.real, b.imag) + torch.einsum(equation, a.imag, b.real),
    )
