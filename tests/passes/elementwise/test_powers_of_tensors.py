import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.powers_of_tensors import power, power_by_number
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite, export

INFINITY, NAN = float("inf"), float("nan")
SPECIAL = torch.tensor([NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 2.5, 3.4e38, -2e-38])
NUMBERS = (1.5, -1.5, -2.0, -3.0, 0.0, 0, 0.3, INFINITY, -INFINITY, NAN)


def test_every_form_is_right_on_the_reference_model() -> None:
    check_rewrite(
        lambda x, y: (x**y, x**1.5, x**-2.0, x**0.0),
        (torch.rand(14, 1) + 1, torch.rand(1, 14)),
        target="tosa-fp",
        expect="powers-of-tensors",
        tolerance=1e-6,
        lowered_inputs=[(SPECIAL[:, None], SPECIAL[None, :])],
    )


@pytest.mark.slow
def test_without_dimensions() -> None:
    check_rewrite(
        torch.pow,
        (torch.tensor(-2.0), torch.tensor(3.0)),
        target="tosa-fp",
        expect="powers-of-tensors",
        tolerance=1e-6,
    )


def test_the_backend_is_still_wrong_by_itself() -> None:
    inputs = (SPECIAL, SPECIAL)
    lowered = lowering.lower(export(torch.pow, inputs), "tosa-fp", compile=False)
    with pytest.raises(AssertionError, match="Non-valid TOSA"):  # retire the rewrite once this is right upstream
        lowering.execute(lowered, inputs)


def test_where_powers_change() -> None:
    x, y = SPECIAL[:, None], SPECIAL[None, :]
    torch.testing.assert_close(power(x, y), x**y, equal_nan=True)
    assert torch.equal(torch.signbit(power(x, y).nan_to_num(0)), torch.signbit((x**y).nan_to_num(0)))
    for number in NUMBERS:
        torch.testing.assert_close(power_by_number(SPECIAL, number), SPECIAL**number, equal_nan=True)


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32), st.floats(width=32) | st.integers(-9, 9).map(float))
def test_any_two_numbers(base: float, exponent: float) -> None:
    x, y = torch.tensor([base]), torch.tensor([exponent])
    torch.testing.assert_close(power(x, y), x**y, equal_nan=True)


def test_types() -> None:
    n, half = torch.arange(-2, 3), torch.rand(5).half()
    for x, y in ((n, torch.rand(5)), (half, n), (half, half)):
        torch.testing.assert_close(power(x, y), x**y, equal_nan=True)
    torch.testing.assert_close(power_by_number(n, 0.7), n**0.7, equal_nan=True)
    for x in (n.int(), n.bool(), half):
        torch.testing.assert_close(power_by_number(x, -2.0), x**-2.0)
    for exponent in (-1e30, -65.0):
        torch.testing.assert_close(power_by_number(SPECIAL, exponent), SPECIAL**exponent, equal_nan=True)


@pytest.mark.parametrize("number", [2, 3.0, -2, 1.0])
def test_whole_powers_are_left_alone(number: float) -> None:
    with pytest.raises(Decline, match="multiplied out"):
        power_by_number(SPECIAL, number)


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="integer"):
        power(torch.arange(3), torch.arange(3))
    with computing_in_int8(), pytest.raises(Decline, match="int8"):
        power(SPECIAL, SPECIAL)
    with pytest.raises(Decline, match="root"):
        power_by_number(SPECIAL, -0.5)
    with pytest.raises(Decline, match="float"):
        power_by_number(torch.arange(3), 2)
