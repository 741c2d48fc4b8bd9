import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix.errors import Decline
from lowerfix.passes.elementwise.hypot import hypot
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 2e38, 1e-30, -3.0, 4.0])


def test_it_goes_whole_and_does_not_overflow() -> None:
    check_rewrite(
        torch.hypot,
        (torch.randn(9, 1), torch.randn(1, 9)),
        target="tosa-fp",
        expect="hypot",
        tolerance=1e-6,
        lowered_tolerance=1e-6,
        lowered_inputs=[(SPECIAL[:, None], SPECIAL[None, :])],
    )


@settings(max_examples=100, deadline=None)
@given(st.floats(width=32, allow_subnormal=False), st.floats(width=32, allow_subnormal=False))
def test_any_two_numbers(a: float, b: float) -> None:
    x, y = torch.tensor([a]), torch.tensor([b])
    torch.testing.assert_close(hypot(x, y), torch.hypot(x, y), rtol=5e-7, atol=0, equal_nan=True)


def test_half_types_and_int8() -> None:
    x, y = torch.randn(50), torch.randn(50)
    torch.testing.assert_close(hypot(x.half(), y.half()), torch.hypot(x.half(), y.half()))
    with computing_in_int8():
        torch.testing.assert_close(hypot(x, y), torch.hypot(x, y))


def test_float64_is_declined() -> None:
    with pytest.raises(Decline, match="float64"):
        hypot(torch.rand(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64))
