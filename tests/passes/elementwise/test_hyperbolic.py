import pytest
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import hyperbolic as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


@pytest.mark.slow
def test_xnnpack_takes_them() -> None:
    def every_form(x: Tensor) -> tuple[Tensor, ...]:
        return torch.sinh(x), torch.cosh(x)

    inputs = (torch.randn(2, 6),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="hyperbolic", tolerance=1e-6, lowered_inputs=trials)


def test_pytorch_s_numbers() -> None:
    small = torch.tensor([1e-20, -1e-8, 88.9, -88.9, 90.0, -0.0])
    for x in (torch.linspace(-80, 80, 999), small, *adversarial(torch.randn(30))):
        torch.testing.assert_close(forms.sinh(x), torch.sinh(x), rtol=1e-5, atol=1e-37, equal_nan=True)
        torch.testing.assert_close(forms.cosh(x), torch.cosh(x), rtol=1e-5, atol=0, equal_nan=True)
    x = torch.linspace(-1.5, 1.5, 99)
    assert_same(torch.tan(x), forms.tan(x), 1e-6)


def test_other_types_are_declined() -> None:
    with pytest.raises(Decline, match="float16"):
        forms.sinh(torch.ones(2).half())
