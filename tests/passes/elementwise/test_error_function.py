import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix.errors import Decline
from lowerfix.passes.elementwise.error_function import erfc, erfcx, log_ndtr
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite

special = torch.special
SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 9.0, -9.0, 4.5, -1.0, 1e-8, 1e30, -20.0])


@pytest.mark.slow
def test_every_form_goes_whole_and_keeps_the_tail() -> None:
    checked = check_rewrite(
        lambda x: (torch.erfc(x), special.log_ndtr(x)),
        (torch.randn(12) * 3,),
        target="tosa-fp",
        expect="error-function",
        tolerance=1e-5,
        lowered_tolerance=1e-5,
        lowered_inputs=[(SPECIAL,)],
    )
    assert "erfc" not in str(checked.after.graph)


@settings(max_examples=200, deadline=None)
@given(st.floats(-9, 14, width=32))
def test_relative_accuracy(value: float) -> None:
    x = torch.tensor([value])
    exact = x.double()
    torch.testing.assert_close(erfc(x).double(), torch.erfc(exact), rtol=1e-6, atol=1e-37)
    torch.testing.assert_close(erfcx(x), special.erfcx(exact).float(), rtol=2e-6, atol=0)
    torch.testing.assert_close(log_ndtr(x), special.log_ndtr(exact).float(), rtol=1e-5, atol=1e-37)


def test_limits() -> None:
    for ours, theirs in ((erfc, torch.erfc), (erfcx, special.erfcx), (log_ndtr, special.log_ndtr)):
        torch.testing.assert_close(ours(SPECIAL), theirs(SPECIAL), rtol=1e-5, atol=1e-37, equal_nan=True)


def test_integers_and_half_types() -> None:
    n, x = torch.arange(-3, 4), torch.randn(9).half()
    for ours, theirs in ((erfc, torch.erfc), (log_ndtr, special.log_ndtr)):
        torch.testing.assert_close(ours(n), theirs(n))
    torch.testing.assert_close(erfc(x), torch.erfc(x))


def test_what_int8_cannot_hold_is_declined() -> None:
    with computing_in_int8():
        torch.testing.assert_close(erfc(SPECIAL), torch.erfc(SPECIAL), equal_nan=True)
        for function in (erfcx, log_ndtr):
            with pytest.raises(Decline, match="256 steps"):
                function(SPECIAL)
