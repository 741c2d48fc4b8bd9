import pytest
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import whole_powers as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    whole = x**3, x**-1, x**-2.0, x**4, x**3.0, x**5
    return *whole, torch.reciprocal(x), 1.0 / x, (x.abs() + 0.1) ** -0.5


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 6),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="whole-powers", tolerance=1e-6, lowered_inputs=trials)


@pytest.mark.parametrize("exponent", [*range(-8, 0), *range(1, 9), -0.5, 2.0, -3.0])
def test_every_exponent(exponent: float) -> None:
    x = torch.randn(30)
    for y in (x, x.abs(), *adversarial(x)):
        ours = forms.power(y, exponent)
        torch.testing.assert_close(ours, y**exponent, rtol=1e-5, atol=1e-37, equal_nan=True)


def test_reciprocal() -> None:
    for y in adversarial(torch.randn(30)):
        assert_same(y.reciprocal(), forms.reciprocal(y))


def test_declines_say_why() -> None:
    for exponent in (0, 0.5, 9, float("inf"), float("nan")):
        with pytest.raises(Decline, match="exponent"):
            forms.power(torch.ones(2), exponent)
    with pytest.raises(Decline, match="int64"):
        forms.power(torch.ones(2).long(), 2)
