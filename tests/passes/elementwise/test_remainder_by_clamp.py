import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.elementwise import remainder_by_clamp as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite, export

SPECIAL = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, 1e30, -1e30])


def by_tensors(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    quotients = torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc"), x // y
    return torch.fmod(x, y), torch.remainder(x, y), *quotients


def every_form(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return torch.remainder(x, y), x // y, torch.fmod(x, 0.75), torch.div(x, -0.7, rounding_mode="trunc")


def pairs() -> tuple[Tensor, Tensor]:
    """Of which the quotients are below 2**24, or infinite, or no numbers."""
    x, y = torch.cartesian_prod(SPECIAL, SPECIAL).unbind(-1)
    far = ((x / y).abs() >= 2**24) & y.bool() & ~x.isinf()
    return torch.where(far, 1.0, x), y.clone()


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    def model(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return every_form(torch.clamp(x, -1e6, 1e6), torch.clamp(y, min=0.25))

    inputs = torch.randn(6, 6) * 9, torch.rand(6, 6) + 0.5
    trials = list(adversarial_inputs(inputs))
    check_rewrite(model, inputs, target="xnnpack", expect="remainder-by-clamp", tolerance=1e-6, lowered_inputs=trials)


@pytest.mark.slow
def test_special_numbers_on_xnnpack() -> None:
    x, y = pairs()
    program = lowerfix.apply(export(by_tensors, (x, y)), target="xnnpack")
    lowered = lowering.lower(program, "xnnpack", compile=False)
    assert not lowered.cpu_ops
    assert_same(list(by_tensors(x, y)), list(lowering.execute(lowered, [x, y])), 1e-6)


def test_special_numbers() -> None:
    x, y = pairs()
    named = forms.fmod(x, y), forms.remainder(x, y)
    rounded = [forms.div(x, y, rounding_mode=mode) for mode in ("floor", "trunc", "floor")]
    assert_same(by_tensors(x, y), (*named, *rounded))


@settings(max_examples=100, deadline=None)
@given(st.integers(-90, 80), st.integers(0, 46), st.integers(0, 2**32))
def test_every_size(size: int, quotient: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(100, generator=generator) * 2.0**size
    x = torch.randn(100, generator=generator) * 2.0 ** (size + quotient)
    near = (x / y).abs() < 2**47
    x = torch.where(near, x, y)
    for one in (x, (x / y).round() * y, y, -y):
        one = torch.where((one / y).abs() < 2**47, one, y)
        assert_same(torch.fmod(one, y), forms.fmod(one, y))
        assert_same(torch.remainder(one, y), forms.remainder(one, y))
        one = torch.where((one / y).abs() < 2**24, one, y)
        for mode in ("floor", "trunc", None):
            assert_same(torch.div(one, y, rounding_mode=mode), forms.div(one, y, rounding_mode=mode))


@settings(max_examples=50, deadline=None)
@given(st.floats(-1e6, 1e6, width=32).filter(lambda number: abs(number) > 1e-6))
def test_every_number(number: float) -> None:
    x = torch.cat([torch.randn(20), torch.arange(-9.0, 9.0)]) * number
    for y in (x, torch.full((3,), torch.nan), torch.tensor([torch.inf, -torch.inf, 0.0])):
        assert_same(torch.fmod(y, number), forms.fmod(y, number))
        assert_same(torch.remainder(y, number), forms.remainder(y, number))
        assert_same(torch.div(y, number, rounding_mode="floor"), forms.div(y, number, rounding_mode="floor"))


def test_large_quotients_are_rounded_as_well() -> None:
    x = next(iter(adversarial(torch.randn(50)))).abs() * 1e30
    for y in (torch.rand(50), torch.rand(50) * 1e-20):
        expected = torch.div(x, y, rounding_mode="floor")
        assert_same(expected, forms.div(x, y, rounding_mode="floor"), 1e-6)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="int64"):
        forms.fmod(torch.ones(2, dtype=torch.int64), 2)
    with pytest.raises(Decline, match="float64"):
        forms.remainder(torch.ones(2), torch.ones(2, dtype=torch.float64))
    with pytest.raises(Decline, match="dividend is a number"):
        forms.remainder(2.0, torch.ones(2))  # type: ignore[arg-type]
    with pytest.raises(Decline, match="complex"):
        forms.fmod(torch.ones(2), 1j)  # type: ignore[arg-type]
