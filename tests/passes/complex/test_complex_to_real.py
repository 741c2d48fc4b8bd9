import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix.passes.complex._fourier import Fourier
from lowerfix.passes.complex._ops import On
from lowerfix.passes.complex._pair import Pair
from lowerfix.passes.complex._spectra import SERVED
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

aten = torch.ops.aten
INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -2.5, INF, -INF, NAN, 3e38, 1e-30, 1e20]


def on_parts(target: Any, *args: Any, dtype: torch.dtype = torch.float32, **kwargs: Any) -> Any:
    """What the pass makes of one op, computed in eager: complex tensors go in as pairs and come out again."""

    def apart(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(apart, value))
        if not isinstance(value, Tensor) or not value.is_complex():
            return value
        return Pair(value.real.clone(), value.imag.clone())

    def together(value: Any) -> Any:
        if isinstance(value, Pair):
            return torch.complex(*value)
        return list(map(together, value)) if isinstance(value, (list, tuple)) else value

    def table(name: str, compute: Callable[[], Any], dtype: torch.dtype) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(compute())).to(dtype)

    return together(SERVED[target](On(dtype, Fourier(table)), *map(apart, args), **kwargs))


def check(target: Any, *args: Any, tolerance: float = 1e-5, **kwargs: Any) -> None:
    """One op on parts against the op itself; signs of zeros count."""
    expected, actual = target(*args, **kwargs), on_parts(target, *args, **kwargs)
    one, other = (list(x) if isinstance(x, (list, tuple)) else [x] for x in (expected, actual))
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        parts = ((a.real, b.real), (a.imag, b.imag)) if a.is_complex() else ((a, b),)
        for x, y in parts:
            assert_same(x.resolve_conj().contiguous(), y.contiguous(), tolerance)


def numbers(values: list[float] = SPECIAL) -> Tensor:
    """Every combination of special values as real and imaginary part; so many that vectorized kernels see all."""
    z = torch.tensor([complex(a, b) for a in values for b in values])
    return torch.cat([z, z[: -len(z) % 16]])


def every_two(values: list[float] = SPECIAL) -> tuple[Tensor, Tensor]:
    z = numbers(values)
    return z.repeat_interleave(len(z)), z.repeat(len(z))


BINARY = [aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.eq.Tensor, aten.ne.Tensor]


@pytest.mark.parametrize("target", BINARY, ids=str)
def test_arithmetic_is_pytorchs_with_infinities_and_nan(target: Any) -> None:
    a, b = every_two()
    check(target, a, b)
    if target not in (aten.eq.Tensor, aten.ne.Tensor):
        real = torch.tensor(SPECIAL).repeat(-(-len(a) // len(SPECIAL)))[: len(a)]
        check(target, a, real)
        check(target, real, b)


@pytest.mark.parametrize("number", [2.0, 1, 0, -0.0, 1j, 2 - 3j, -1.5 + 4j, 0.5j - 3], ids=str)
@pytest.mark.parametrize("target", [aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.div.Tensor], ids=str)
def test_arithmetic_with_a_number(target: Any, number: complex) -> None:
    z = numbers()
    check(target, z, torch.tensor(number)) if not isinstance(number, complex) else None
    expected = target(z, number)
    assert_same(torch.view_as_real(expected), torch.view_as_real(on_parts(target, z, number)), 1e-5)


def test_arithmetic_with_alpha_and_reversed() -> None:
    a, b = numbers(), numbers().flip(0)
    for alpha in (2, -1.5, 1):
        check(aten.add.Tensor, a, b, alpha=alpha)
        check(aten.sub.Tensor, a, b, alpha=alpha)
    check(aten.rsub.Scalar, a, 1.0)
    check(aten.rsub.Scalar, a, 2 - 1j)
    check(aten.reciprocal.default, a)


def test_one_number_at_a_time() -> None:
    z = numbers()
    for target in (aten.abs.default, aten.angle.default, aten.exp.default, aten._conj.default, aten.real.default,
                   aten.imag.default, aten.isnan.default, aten.isinf.default, aten.neg.default,
                   aten.view_as_real.default, aten.resolve_conj.default):  # fmt: skip
        check(target, z)
    finite = numbers([0.0, -0.0, 1.0, -2.5, 3e18, -1e-18, 0.3])
    for target in (aten.square.default, aten.sgn.default, aten.log.default, aten.isfinite.default):
        check(target, finite)
    check(aten.pow.Tensor_Scalar, finite, 2)
    check(aten.pow.Tensor_Scalar, numbers([0.0, 1.0, -2.5, 30.0]), 3)
    check(aten.polar.default, torch.tensor(SPECIAL * 8), torch.tensor(SPECIAL * 8).sort().values)
    check(aten.complex.default, torch.tensor(SPECIAL), torch.tensor(SPECIAL).flip(0))
    check(aten.view_as_complex.default, torch.randn(3, 4, 2))


def test_an_absolute_value_neither_overflows_nor_vanishes() -> None:
    z = torch.tensor([3e38 + 1e38j, 1e-30 + 1e-30j, 2e-38j, 1e30 + 1e30j, complex(INF, NAN), complex(NAN, -INF)])
    check(aten.abs.default, z)


def test_every_combination_of_dtypes_is_promoted() -> None:
    def model(x: Tensor, y: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        z, w = torch.complex(x, x), torch.complex(y, y)
        products = (z * y, z * n, w + x, w * z)
        return (*map(torch.view_as_real, products), x.to(torch.complex64).real, z.to(torch.bool), z.to(torch.float64))

    inputs = (torch.randn(3, 4), torch.randn(3, 4, dtype=torch.float64), torch.arange(4))
    program = export(model, inputs)
    result = lowerfix.apply(program, target="vgf", only=["strip-guards", "complex-to-real"])
    assert not _complex(result)
    assert_same(model(*inputs), result.module()(*inputs), 1e-6)


def _assigned(z: Tensor) -> Tensor:
    """What an assignment to a slice becomes, in the functional form of a program."""
    y = torch.slice_scatter(torch.zeros_like(z), z[:, 1:] * 2, 1, 1, 3)
    return torch.select_scatter(y, aten.copy.default(z[:, 0], z[:, 1].real), 1, 0)


VIEWS: dict[str, Callable[[Tensor], Any]] = {
    "reshape": lambda z: z.reshape(3, 8),
    "view": lambda z: z.view(4, -1),
    "flatten": lambda z: z.flatten(1),
    "unflatten": lambda z: z.unflatten(-1, (2, 2)),
    "permute": lambda z: z.permute(2, 0, 1),
    "transpose": lambda z: z.transpose(0, -1).contiguous().view(-1),
    "mT": lambda z: z.mT,
    "mH": lambda z: z.mH,
    "movedim": lambda z: z.movedim(0, 2),
    "unsqueeze, squeeze": lambda z: z.unsqueeze(1).squeeze(1),
    "select": lambda z: z[:, 1],
    "slice": lambda z: z[:, 1:, ::2],
    "index": lambda z: z[:, [2, 0, -1]],
    "index_select": lambda z: z.index_select(1, torch.tensor([2, 0])),
    "expand": lambda z: z[:1].expand(5, -1, -1),
    "cat": lambda z: torch.cat([z, z * 2, z.real], 1),
    "stack": lambda z: torch.stack([z, -z], -2),
    "unbind": lambda z: z.unbind(1)[2] * z.unbind(1)[0],
    "chunk": lambda z: z.chunk(2, -1)[1],
    "split": lambda z: z.split([1, 2], 1)[1],
    "repeat": lambda z: z.repeat(1, 2, 1),
    "roll": lambda z: z.roll(1, -1),
    "flip": lambda z: z.flip(1),
    "pad": lambda z: torch.nn.functional.pad(z, (1, 2)),
    "pad with a number": lambda z: torch.nn.functional.pad(z, (1, 0), value=2.0),
    "tril": lambda z: z.tril(),
    "sum": lambda z: z.sum(1),
    "sum of all": lambda z: z.sum(),
    "mean": lambda z: z.mean((0, 2), keepdim=True),
    "cumsum": lambda z: z.cumsum(1),
    "where": lambda z: torch.where(z.real > 0, z, 1j),
    "where, real": lambda z: torch.where(z.real > 0, 0.0, z),
    "masked_fill": lambda z: z.masked_fill(z.imag > 0, 2.0),
    "matmul": lambda z: z @ z.mT,
    "einsum": lambda z: torch.einsum("abc,adc->abd", z, z.conj()),
    "assigned": lambda z: _assigned(z),
    "copied and filled": lambda z: torch.full_like(z, 2 - 1j) + torch.ones_like(z) * z,
    "outer": lambda z: torch.outer(z[0, 0], z[0, 1]),
    "zeros_like": lambda z: torch.zeros_like(z) + z,
    "z / |z|": lambda z: z / (z.abs() + 1e-6),
    "type_as": lambda z: z.real.type_as(z),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_sums_and_products(name: str) -> None:
    model = lambda x: torch.view_as_real(VIEWS[name](torch.view_as_complex(x)).resolve_conj())  # noqa: E731
    x = torch.randn(2, 3, 4, 2)
    program = export(model, (x,))
    result = lowerfix.apply(program, target="vgf", only="complex-to-real")
    assert not _complex(result)
    assert_same(model(x), result.module()(x), 1e-5)


# Fourier transforms ---------------------------------------------------------------------------------------------------

NORMS = st.sampled_from([None, "backward", "ortho", "forward"])
LENGTHS = st.integers(1, 24)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_transforms_of_one_dimension(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]))
    shape = data.draw(st.lists(st.integers(2, 9), min_size=1, max_size=3))
    kind = torch.float32 if name in ("rfft", "ihfft") else data.draw(st.sampled_from([torch.float32, torch.complex64]))
    n, dim = data.draw(st.none() | LENGTHS), data.draw(st.integers(-len(shape), len(shape) - 1))
    target = getattr(aten, f"fft_{name}").default
    check(target, torch.randn(shape, dtype=kind), n, dim, data.draw(NORMS), tolerance=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_transforms_of_several_dimensions(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]))
    shape = data.draw(st.lists(st.integers(2, 6), min_size=2, max_size=3))
    kind = torch.float32 if name in ("rfft", "ihfft") else data.draw(st.sampled_from([torch.float32, torch.complex64]))
    x, norm = torch.randn(shape, dtype=kind), data.draw(NORMS)
    sizes = data.draw(st.none() | st.lists(st.integers(1, 7), min_size=2, max_size=2))
    if data.draw(st.booleans()):
        check(getattr(aten, f"fft_{name}2").default, x, sizes, [-2, -1], norm, tolerance=1e-4)
        return
    dims = data.draw(st.none() | st.permutations(range(-len(shape), 0)).map(lambda p: list(p)[:2]))
    check(getattr(aten, f"fft_{name}n").default, x, sizes, dims, norm, tolerance=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2), st.booleans(), st.permutations([0, 1, 2]), st.integers(2, 7))
def test_what_the_transforms_are_decomposed_to(normalization: int, flag: bool, dims: list[int], last: int) -> None:
    x, z = torch.randn(3, 4, 5), torch.randn(3, 4, 5, dtype=torch.complex64)
    check(aten._fft_r2c.default, x, dims[:2], normalization, flag, tolerance=1e-4)
    check(aten._fft_c2c.default, z, dims, normalization, flag, tolerance=1e-4)
    half = torch.fft.rfftn(torch.randn([last if d == dims[0] else 4 for d in range(3)]), dim=[dims[1], dims[0]])
    check(aten._fft_c2r.default, half, [dims[1], dims[0]], normalization, last, tolerance=1e-4)


@pytest.mark.parametrize("n", [2048, 2187, 3000, 4096])
def test_long_transforms_take_two_steps_and_are_as_accurate(n: int) -> None:
    torch.manual_seed(0)
    x, z = torch.randn(2, n), torch.randn(2, n, dtype=torch.complex64)
    exact = torch.fft.fft(z.to(torch.complex128))
    ours, theirs = on_parts(aten.fft_fft.default, z), torch.fft.fft(z)
    assert (ours - exact).abs().max() < 8 * (theirs - exact).abs().max()
    assert_same(torch.view_as_real(torch.fft.rfft(x)), torch.view_as_real(on_parts(aten.fft_rfft.default, x)), 1e-3)
    half = torch.fft.rfft(x)
    assert_same(torch.fft.irfft(half, n), on_parts(aten.fft_irfft.default, half, n), 1e-5)
    short = torch.randn(n // 3)
    assert_same(torch.fft.fft(short, n).real, on_parts(aten.fft_fft.default, short, n).real, 1e-3)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_short_time_transforms(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 20))
    hop, window = data.draw(st.integers(1, size)), data.draw(st.none() | st.integers(1, size))
    shape = data.draw(st.sampled_from([(50,), (2, 50)]))
    kind = data.draw(st.sampled_from([torch.float32, torch.complex64]))
    onesided = False if kind.is_complex else data.draw(st.booleans())
    shaped = None if data.draw(st.booleans()) else torch.rand(window or size) + 0.1
    check(aten.stft.default, torch.randn(shape, dtype=kind), size, hop, window, shaped, data.draw(st.booleans()),
          onesided, True, tolerance=1e-4)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_inverse_short_time_transforms(data: st.DataObject) -> None:
    size = data.draw(st.integers(4, 16))
    hop, center = data.draw(st.integers(1, size // 2)), data.draw(st.booleans())
    onesided, normalized = data.draw(st.booleans()), data.draw(st.booleans())
    window = torch.rand(size) + 0.5
    signal = torch.randn(2, 60)
    z = torch.stft(signal, size, hop, window=window, center=center, normalized=normalized, onesided=onesided,
                   return_complex=True)  # fmt: skip
    length = data.draw(st.none() | st.integers(20, 70 if center else 40))
    args = (z, size, hop, None, window, center, normalized, onesided, length)
    assert_same(aten.istft.default(*args), on_parts(aten.istft.default, *args), 1e-4)


@pytest.mark.parametrize("hop", [512, 700])
@pytest.mark.parametrize("onesided", [True, False])
def test_a_long_frame_is_transformed_and_then_added_to_its_neighbours(hop: int, onesided: bool) -> None:
    torch.manual_seed(0)
    window = torch.hann_window(2048) + 0.1
    z = torch.stft(torch.randn(9000), 2048, hop, window=window, onesided=onesided, return_complex=True)
    args = (z, 2048, hop, None, window, True, False, onesided)
    assert_same(aten.istft.default(*args), on_parts(aten.istft.default, *args), 1e-5)


@pytest.mark.parametrize("hop", [512, 700])
def test_a_long_frame_is_cut_out_and_then_transformed(hop: int) -> None:
    torch.manual_seed(0)
    check(aten.stft.default, torch.randn(1, 9000), 2048, hop, None, torch.hann_window(2048), return_complex=True,
          tolerance=1e-3)  # fmt: skip


# Whole models ---------------------------------------------------------------------------------------------------------


class Rope(torch.nn.Module):
    """Rotary embeddings as LLaMA computes them: the table is a complex buffer, two tensors are turned."""

    def __init__(self) -> None:
        super().__init__()
        angle = torch.outer(torch.arange(6.0), 1e4 ** -(torch.arange(0, 8, 2) / 8))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angle), angle))

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, ...]:
        return tuple(map(self.turn, (q, k)))

    def turn(self, x: Tensor) -> Tensor:
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        table = self.freqs_cis.view(1, z.shape[1], 1, z.shape[-1])
        return torch.view_as_real(z * table).flatten(3).type_as(x)


def test_rotary_embeddings_go_whole_with_infinities_and_nan() -> None:
    inputs = (torch.randn(1, 6, 2, 8), torch.randn(1, 6, 2, 8))
    checked = check_rewrite(
        Rope(),
        inputs,
        target="vgf",
        expect="complex-to-real",
        tolerance=1e-6,
        lowered_inputs=list(adversarial_inputs(inputs))[::5],
    )
    assert not any(tensor.is_complex() for tensor in checked.after.state_dict.values())
    assert len(checked.after.state_dict) == 2  # both tensors read the same table


def test_rotary_embeddings_of_a_sequence_of_any_length() -> None:
    class Dynamic(Rope):
        def turn(self, x: Tensor) -> Tensor:
            z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(z * self.freqs_cis[: z.shape[1]].unsqueeze(1)).flatten(3)

    sequence = torch.export.Dim("sequence", min=2, max=6)
    inputs = (torch.randn(1, 4, 2, 8), torch.randn(1, 4, 2, 8))
    program = torch.export.export(Dynamic(), inputs, dynamic_shapes=({1: sequence}, {1: sequence}))
    result = lowerfix.apply(program, target="vgf", only="complex-to-real")
    assert not _complex(result)
    for length in (2, 5):
        x = torch.randn(1, length, 2, 8)
        assert_same(program.module()(x, x), result.module()(x, x), 1e-6)


def _tame(x: Tensor) -> Tensor:
    """Finite numbers of moderate size: a transform mixes them, so that an infinity or a NaN is all over it."""
    return torch.where(x.abs() < 100, x, 0.5)


@pytest.mark.slow
def test_arithmetic_goes_whole_with_infinities_and_nan() -> None:
    def model(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z, w = torch.complex(x, y), torch.view_as_complex(torch.stack([y, x], -1))
        out = (z * w, z + w, z - 2 * w, z * (2 - 1j), z + 1, -z, torch.where(x > 0, z, w), z.conj() * x, z[:, 1:] * 1j)
        return (*map(torch.view_as_real, out), z.real, w.imag, z.abs(), z.angle())

    inputs = (torch.randn(2, 16), torch.randn(2, 16))
    passes = {"complex-to-real", "hypot", "arctangent"}
    check_rewrite(model, inputs, target="vgf", expect=passes, tolerance=1e-6,
                  lowered_inputs=list(adversarial_inputs(inputs))[::3])  # fmt: skip


@pytest.mark.slow
def test_quotients_and_products_of_matrices_go_whole() -> None:
    def model(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x, y = _tame(x), _tame(y)
        z, w = torch.complex(x, y), torch.complex(y, x + 0.25)
        results = [z / w, z / (2 - 3j), 1 / (z + 9), z @ w.mT, z.mean(-1), (z / 9).exp(), torch.polar(x, y)]
        return tuple(map(torch.view_as_real, results))

    inputs = (torch.randn(2, 16), torch.randn(2, 16))
    check_rewrite(model, inputs, target="tosa-fp", expect="complex-to-real", tolerance=1e-3, lowered_tolerance=1e-3)


@pytest.mark.slow
def test_transforms_go_whole() -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        x = _tame(x)
        z = torch.fft.rfft(x)
        return (
            z.abs() ** 2,
            torch.fft.irfft(z * 0.5, n=16),
            torch.fft.fft2(x).real,
            torch.fft.hfft(x),
            torch.fft.ihfft(x).imag,
            torch.fft.ifft(x, dim=0).imag,
            torch.fft.irfft2(x),
            torch.fft.rfftn(x, norm="ortho").real,
        )

    check_rewrite(model, (torch.randn(4, 16),), target="tosa-fp", expect="complex-to-real", tolerance=2e-3)


@pytest.mark.slow
def test_a_power_spectrum_is_one_program_of_xnnpack() -> None:
    model = lambda x: torch.fft.rfft(x.clamp(-100, 100)).abs() ** 2  # noqa: E731
    checked = check_rewrite(model, (torch.randn(1, 4, 32),), target="xnnpack", expect="complex-to-real", tolerance=1e-3)
    assert "aten.hypot.default" not in [str(node.target) for node in checked.after.graph.nodes]


SQUARES: dict[str, Callable[[Tensor], Tensor]] = {
    "power": lambda z: z.abs() ** 2,
    "square": lambda z: z.abs().square(),
    "product": lambda z: z.abs() * z.abs(),
    "power by name": lambda z: torch.pow(z.abs(), 2.0),
    "masked": lambda z: (z * (z.abs() > 1)).abs().pow(2),
}


@pytest.mark.parametrize("name", SQUARES)
def test_the_square_of_a_spectrums_size_needs_no_root(name: str) -> None:
    model = lambda x: SQUARES[name](torch.fft.rfft(x))  # noqa: E731
    x = torch.randn(8) + 5
    result = lowerfix.apply(export(model, (x,)), target="vgf", only="complex-to-real")
    assert not _complex(result)
    assert_same(model(x), result.module()(x), 1e-4)
    roots = [str(node.target) for node in result.graph.nodes].count("aten.hypot.default")
    assert roots == {"masked": 1, "product": 2}.get(name, 0)


def test_where_an_infinity_meets_nan_a_square_is_of_the_size() -> None:
    model = lambda x, y: torch.complex(x, y).abs() ** 2  # noqa: E731
    inputs = torch.tensor([INF, NAN, 1.0]), torch.tensor([NAN, -INF, 2.0])
    result = lowerfix.apply(export(model, inputs), target="vgf", only="complex-to-real")
    assert_same(model(*inputs), result.module()(*inputs), 1e-6)


class LogMel(torch.nn.Module):
    """The front end of Whisper."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("filters", torch.rand(8, 17))
        self.register_buffer("window", torch.hann_window(32))

    def forward(self, x: Tensor) -> Tensor:
        power = torch.stft(_tame(x), 32, 8, window=self.window, return_complex=True)[..., :-1].abs() ** 2
        return torch.log((self.filters @ power).clamp(min=1e-3))


@pytest.mark.slow
def test_a_spectrogram_goes_whole() -> None:
    passes = {"complex-to-real", "fold-constants"}
    check_rewrite(LogMel(), (torch.randn(1, 128),), target="vgf", expect=passes, tolerance=1e-3, lowered_tolerance=1e-3)


@pytest.mark.slow
def test_a_spectrogram_is_one_delegate_on_ethos_u85() -> None:
    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        x, window = x.clamp(-100, 100), torch.hann_window(32)
        size = torch.stft(x, 32, 8, window=window, center=False, return_complex=True).abs()
        return size, size**2

    passes = {"complex-to-real", "fold-constants", "hypot"}
    checked = check_rewrite(model, (torch.randn(1, 128),), target="ethos-u85", expect=passes, tolerance=1e-3,
                            least_signal_to_noise=30)  # fmt: skip
    assert checked.lowered.inner_quantize == 0


@pytest.mark.slow
def test_a_filter_in_the_frequency_domain_comes_back_to_a_signal() -> None:
    def model(x: Tensor) -> Tensor:
        window = torch.hann_window(16)
        z = torch.stft(_tame(x), 16, 4, window=window, return_complex=True)
        return torch.istft(z * (z.abs() > 1), 16, 4, window=window)

    x = torch.randn(1, 48)
    check_rewrite(model, (x,), target="vgf", expect={"complex-to-real", "conv-transpose1d"}, tolerance=1e-3)


# What is left alone ---------------------------------------------------------------------------------------------------


def _complex(program: torch.export.ExportedProgram) -> list[str]:
    return [
        node.name
        for node in program.graph.nodes
        if isinstance(node.meta.get("val"), Tensor) and node.meta["val"].is_complex()
    ]


DECLINED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "an op that is not served": (
        lambda x: torch.fft.rfft(x).tanh().real,
        (torch.randn(8),),
        "aten.tanh.default is not",
    ),
    "a complex input": (lambda z: z.real * 2, (torch.randn(8, dtype=torch.complex64),), "is complex; pass its parts"),
    "a complex result": (lambda x: torch.fft.rfft(x), (torch.randn(8),), "view_as_real"),
    "another power": (lambda x: (torch.fft.rfft(x) ** 2.5).real, (torch.randn(8),), "exponent is 2.5"),
    "a long prime": (lambda x: torch.fft.rfft(x).real, (torch.randn(4099),), "length 4099"),
}


@pytest.mark.parametrize("name", DECLINED)
def test_why_a_part_is_left_alone(name: str) -> None:
    model, inputs, reason = DECLINED[name]
    program, report = export(model, inputs), lowerfix.Report()
    result = lowerfix.apply(program, target="vgf", only="complex-to-real", report=report)
    assert str(result.graph) == str(program.graph)
    [finding] = report.of("declined")
    assert reason in finding.reason


def test_what_is_changed_in_place_is_changed_there() -> None:
    def model(x: Tensor) -> Tensor:
        z = torch.view_as_complex(x)
        z.mul_(1j)
        return torch.view_as_real(z) + 1

    program, x = export(model, (torch.randn(8, 2),)), torch.randn(8, 2)
    result = lowerfix.apply(program, target="vgf", only="complex-to-real")
    one, other = x.clone(), x.clone()
    assert_same(model(one), result.module()(other))
    assert_same(one, other)
    report = lowerfix.Report()
    module = lowerfix.apply(program.module(check_guards=False), target="vgf", only="complex-to-real", report=report)
    assert "in place" in report.of("declined")[0].reason
    assert_same(one + 1, module(x.clone()))


def test_a_transform_of_symbolic_length_is_left_alone() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.rfft(x).abs()

    program = torch.export.export(Model(), (torch.randn(2, 16),), dynamic_shapes=({1: torch.export.Dim("n", min=4)},))
    report = lowerfix.Report()
    result = lowerfix.apply(program, target="vgf", only="complex-to-real", report=report)
    assert str(result.graph) == str(program.graph)
    assert "symbolic" in report.of("declined")[0].reason


def test_one_part_is_declined_and_its_neighbours_are_not() -> None:
    model = lambda x: (torch.fft.rfft(x).tanh().real, torch.fft.fft(x).imag, x.angle(), x.abs(), x.real)  # noqa: E731
    x = torch.randn(8)
    program = export(model, (x,))
    result = lowerfix.apply(program, target="vgf", only="complex-to-real")
    assert _complex(result) == ["fft_rfft", "tanh"]
    names = [node.name for node in result.graph.nodes]
    assert {"angle", "abs_1"} <= set(names)
    assert_same(model(x), result.module()(x), 1e-5)


def test_a_table_and_a_matrix_are_stored_once() -> None:
    def model(x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.fft.fft2(x).real
        return x

    result = lowerfix.apply(export(model, (torch.randn(8, 8),)), target="vgf", only="complex-to-real")
    assert len(result.state_dict) == 2  # of a real signal, and of a complex one
