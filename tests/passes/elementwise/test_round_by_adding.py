import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import round_by_adding as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    return (
        x.round(),
        torch.round(x, decimals=2),
        torch.round(x, decimals=-1),
        torch.round(x, decimals=0),
        x[0, 0].round(),
    )


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 6) * 20,)
    ties = (torch.tensor([[0.5, 1.5, 2.5, -0.5, -1.5, 8388607.5], [8388609.0, 0.49999997, 15.0, 25.0, -25.0, 1e30]]),)
    trials = [ties, *adversarial_inputs(inputs)]
    check_rewrite(every_form, inputs, target="xnnpack", expect="round-by-adding", lowered_inputs=trials)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.integers(-10, 10))
def test_every_number(numbers: list[float], decimals: int) -> None:
    x = torch.tensor(numbers)
    large = torch.rand(20) * 2.0 ** torch.randint(-3, 127, (20,))
    for y in (x, x.round() + 0.5, large, large.floor() + 0.5, *adversarial(x)):
        result = forms.round_by_adding(y)
        assert_same(y.round(), result)
        assert torch.equal(torch.signbit(y.round())[~y.isnan()], torch.signbit(result)[~y.isnan()])
        assert_same(torch.round(y, decimals=decimals), forms.round_decimals(y, decimals=decimals))


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="float64"):
        forms.round_by_adding(torch.ones(2, dtype=torch.float64))
    with pytest.raises(Decline, match="11 decimals"):
        forms.round_decimals(torch.ones(2), decimals=11)
