import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix.errors import Decline
from lowerfix.passes.elementwise.powers import exp2, ldexp, power_of_number
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite

EXPONENTS = torch.tensor(
    [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -3.0, 0.5, 7.0, 127.0, 200.0, -140.0]
)
BASES = (2, 2.5, 0.5, 1, 0, -1, -2, -0.5, 10)


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    check_rewrite(
        lambda x: (torch.exp2(x), torch.special.exp2(x), 2**x, 0.3**x, (-2.0) ** x, 0**x, 1**x, torch.ldexp(x, x)),
        (torch.randn(12),),
        target="tosa-fp",
        expect="powers",
        tolerance=1e-6,
        lowered_inputs=[(EXPONENTS,)],
    )


@settings(max_examples=100, deadline=None)
@given(st.floats(width=32), st.sampled_from(BASES))
def test_any_exponent(value: float, base: float) -> None:
    x = torch.tensor([value])
    torch.testing.assert_close(power_of_number(base, x), torch.pow(base, x), equal_nan=True)
    torch.testing.assert_close(exp2(x), torch.exp2(x), equal_nan=True)
    torch.testing.assert_close(ldexp(x, x), torch.ldexp(x, x), equal_nan=True)


@pytest.mark.parametrize("base", BASES)
def test_exponents_at_which_powers_change(base: float) -> None:
    torch.testing.assert_close(power_of_number(base, EXPONENTS), torch.pow(base, EXPONENTS), equal_nan=True)


def test_types() -> None:
    exponents = torch.arange(-3, 4)
    for x in (torch.randn(7), torch.randn(7).half(), torch.arange(7)):
        result = ldexp(x, exponents)
        torch.testing.assert_close(result, torch.ldexp(x, exponents))
    torch.testing.assert_close(power_of_number(2.0, exponents), torch.pow(2.0, exponents))
    torch.testing.assert_close(exp2(exponents.bool()), torch.exp2(exponents.bool()))


def test_in_int8_it_is_an_exponential() -> None:
    x = torch.linspace(-3, 3, 13)
    with computing_in_int8():
        torch.testing.assert_close(power_of_number(2.5, x), torch.pow(2.5, x))
        with pytest.raises(Decline, match="exponential"):
            power_of_number(-2.0, x)


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="integer"):
        power_of_number(2, torch.arange(3))
    with pytest.raises(Decline, match="float64"):
        exp2(torch.rand(3, dtype=torch.float64))
