import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import exponential_units as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    return F.elu(x), F.elu(x, 0.5), F.selu(x), F.celu(x, 2.0), torch.expm1(x)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 6),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(
        every_form, inputs, target="xnnpack", expect="exponential-units", tolerance=1e-6, lowered_inputs=trials
    )


@settings(max_examples=50, deadline=None)
@given(st.floats(0.1, 5), st.floats(0.1, 3), st.floats(0.1, 3))
def test_every_constant(alpha: float, scale: float, input_scale: float) -> None:
    x = torch.randn(40) * 3
    for y in (x, *adversarial(x)):
        elu = torch.ops.aten.elu.default
        assert_same(elu(y, alpha, scale, input_scale), forms.elu(y, alpha, scale, input_scale), 2e-6)
        assert_same(F.celu(y, alpha), forms.celu(y, alpha), 2e-6)
        assert_same(F.selu(y), forms.selu(y), 2e-6)


def test_small_results_keep_their_digits() -> None:
    x = torch.tensor([1e-30, -1e-20, 3e-8, -1e-4, 0.5, -2.0, 30.0, -0.0])
    torch.testing.assert_close(forms.expm1(x), torch.expm1(x), rtol=5e-7, atol=0)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="float16"):
        forms.elu(torch.ones(2).half())
    with pytest.raises(Decline, match="negative scale"):
        forms.elu(torch.ones(2), 1.0, 1.0, -1.0)
