import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix.errors import Decline
from lowerfix.passes.elementwise.truncation import (
    fmod,
    fmod_by_number,
    frac,
    frac_by_difference,
    trunc,
    trunc_by_clamp,
    trunc_by_difference,
)
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3.4e38, -0.5, 2.5, -7.0, 1e-38, 6.0, 1e6])
DIVISORS = (1.0, 0.1, 3.0, -0.7, 6.283185307179586, 360.0, -2.0)


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    check_rewrite(
        lambda x, y: (x.trunc(), x.fix(), x.frac(), torch.fmod(x.clamp(-1e6, 1e6), y.abs().clamp(0.25)),
                      torch.fmod(x.clamp(-1e6, 1e6), 3.0), torch.fmod(x.clamp(-1e6, 1e6), -0.7)),
        (torch.randn(12) * 5, torch.rand(12) + 0.5),
        target="tosa-fp",
        expect="truncation",
        tolerance=1e-6,
        lowered_tolerance=1e-6,
        lowered_inputs=[(SPECIAL, torch.full((12,), 0.3)), (torch.ones(12), SPECIAL)],
    )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.floats(-(2.0**100), 2.0**100, width=32), st.floats(width=32))
def test_the_remainder_is_exact(value: float, divisor: float) -> None:
    x, y = torch.tensor([value]), torch.tensor([divisor])
    if 0 < abs(divisor) < 2.0**-100 or (divisor != 0 and abs(value / divisor) >= 2**47):
        return  # beyond what it is for
    torch.testing.assert_close(fmod(x, y.abs()), torch.fmod(x, y.abs()), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(fmod(x, -y.abs()), torch.fmod(x, y.abs()), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_the_remainder_by_a_number_is_exact(divisor: float) -> None:
    torch.manual_seed(0)
    x = torch.cat(
        [torch.randn(5000), torch.randn(5000) * 1e4, torch.arange(-50, 50) * divisor, SPECIAL[SPECIAL.abs() < 1e5]]
    )
    expected = torch.fmod(x, divisor)
    actual = fmod_by_number(x, divisor)
    assert torch.equal(actual, expected)
    assert torch.equal(actual.signbit(), expected.signbit())
    with computing_in_int8():
        torch.testing.assert_close(fmod_by_number(x[:5000], divisor), torch.fmod(x[:5000], divisor))


def test_the_sign_of_a_zero_is_kept() -> None:
    x = torch.tensor([-0.0, 0.0, -0.5, 0.5])
    assert torch.equal(trunc(x).signbit(), torch.trunc(x).signbit())
    assert torch.equal(frac(SPECIAL).nan_to_num(), torch.frac(SPECIAL).nan_to_num())


def test_integers() -> None:
    x, y = torch.arange(-7, 8), torch.tensor([3] * 15)
    assert torch.equal(fmod(x, y), torch.fmod(x, y))
    assert torch.equal(fmod_by_number(x, -3), torch.fmod(x, -3))
    assert torch.equal(trunc(x), x)
    torch.testing.assert_close(fmod_by_number(x, 2.5), torch.fmod(x, 2.5))


def test_without_comparisons_it_is_for_int8_only() -> None:
    with pytest.raises(Decline, match="negative zero"):
        trunc_by_clamp(SPECIAL)
    with computing_in_int8():
        torch.testing.assert_close(trunc_by_clamp(SPECIAL), torch.trunc(SPECIAL), equal_nan=True)


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="float64"):
        fmod_by_number(torch.rand(3, dtype=torch.float64), 2.0)
    with pytest.raises(Decline, match="too large or too small"):
        fmod_by_number(torch.rand(3), 0.0)


@pytest.mark.slow
def test_xnnpack_takes_it_as_a_difference() -> None:
    inputs = (torch.randn(12) * 5,)
    trials = [(SPECIAL,)]
    check_rewrite(lambda x: (x.trunc(), x.frac()), inputs, target="xnnpack", expect="truncation", lowered_inputs=trials)


def test_the_difference_has_the_sign_of_a_zero_too() -> None:
    for x in (SPECIAL, torch.linspace(-4, 4, 33)):
        ours, theirs = trunc_by_difference(x), x.trunc()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
        known = ~x.isnan()
        assert torch.equal(torch.signbit(ours)[known], torch.signbit(theirs)[known])
        torch.testing.assert_close(frac_by_difference(x), x.frac(), rtol=0, atol=0, equal_nan=True)
