import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import error_function_by_clamp as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite

NAMES = ("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "erfinv")


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    return *(getattr(torch.special, name)(x) for name in NAMES), torch.erf(x[0, 0]), torch.erfinv(x[0, 1])


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 6),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(
        every_form, inputs, target="xnnpack", expect="error-function-by-clamp", tolerance=1e-6, lowered_inputs=trials
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_every_number(numbers: list[float]) -> None:
    x = torch.tensor(numbers)
    for y in (x, torch.randn(50) * 5, torch.rand(50) * 2 - 1, *adversarial(x)):
        for name in NAMES:
            tolerance = 2e-5 if name == "erfcx" else 1e-6  # e^(x^2) magnifies the rounding of x^2
            assert_same(getattr(torch.special, name)(y), getattr(forms, name)(y), tolerance)


def test_small_results_keep_their_digits() -> None:
    x = torch.logspace(-30, 0, 200)
    torch.testing.assert_close(forms.erf(x), torch.erf(x), rtol=1e-6, atol=0)
    torch.testing.assert_close(forms.erfinv(x), torch.erfinv(x), rtol=1e-6, atol=0)
    z = torch.linspace(0, 9, 200)
    torch.testing.assert_close(forms.erfc(z).double(), torch.erfc(z.double()), rtol=1e-5, atol=0)


def test_declines_say_why() -> None:
    for name in NAMES:
        with pytest.raises(Decline, match="float64"):
            getattr(forms, name)(torch.ones(2, dtype=torch.float64))
