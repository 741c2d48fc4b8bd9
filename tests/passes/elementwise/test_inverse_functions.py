import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import inverse_functions as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite

OF_ONE = ("atan", "asin", "acos", "asinh", "acosh", "atanh")


def every_form(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return *(getattr(torch, name)(x) for name in OF_ONE), torch.atan2(x, y), torch.atan2(y[0, 0], x[0, 0])


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = torch.randn(2, 8), torch.randn(2, 8)
    zero, infinity = 0.0, torch.inf
    corners = torch.cartesian_prod(*[torch.tensor([zero, -zero, infinity, -infinity])] * 2).reshape(2, 8, 2)
    trials = [corners.unbind(-1), *adversarial_inputs(inputs)]
    check_rewrite(
        every_form, inputs, target="xnnpack", expect="inverse-functions", tolerance=1e-6, lowered_inputs=trials
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(width=32, allow_subnormal=False), min_size=1, max_size=20))
def test_every_number(numbers: list[float]) -> None:
    x = torch.tensor(numbers)
    for y in (x, torch.rand(50) * 2 - 1, *adversarial(x)):
        for name in OF_ONE:
            expected, result = getattr(torch, name)(y), getattr(forms, name)(y)
            torch.testing.assert_close(result, expected, rtol=1e-6, atol=0, equal_nan=True)
        corner = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1.0]).unsqueeze(1)
        for other in (y.flip(0), -y, y * 1e-20, corner):
            for one, two in ((y, other), (other, y)):
                torch.testing.assert_close(
                    forms.atan2(one, two), torch.atan2(one, two), rtol=1e-6, atol=0, equal_nan=True
                )


def test_the_sign_of_zero_is_kept() -> None:
    zeros = torch.tensor([0.0, -0.0])
    for name in ("atan", "asin", "asinh", "atanh"):
        assert torch.signbit(getattr(forms, name)(zeros)).tolist() == [False, True]
    assert_same(torch.atan2(zeros, -zeros), forms.atan2(zeros, -zeros), 1e-6)


def test_declines_say_why() -> None:
    for name in OF_ONE:
        with pytest.raises(Decline, match="float16"):
            getattr(forms, name)(torch.ones(2).half())
    with pytest.raises(Decline, match="int64"):
        forms.atan2(torch.ones(2), torch.ones(2, dtype=torch.int64))
