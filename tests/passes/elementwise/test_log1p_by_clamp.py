import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import log1p_by_clamp as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


@pytest.mark.slow
def test_xnnpack_takes_them() -> None:
    def every_form(x: Tensor) -> tuple[Tensor, ...]:
        return torch.log1p(x), F.logsigmoid(x)

    inputs = (torch.randn(2, 6),)
    # XNNPACK's logarithm of the largest floats is infinite.
    trials = [(x,) for (x,) in adversarial_inputs(inputs) if not (x.isfinite() & (x.abs() > 1e37)).any()]
    check_rewrite(every_form, inputs, target="xnnpack", expect="log1p-by-clamp", tolerance=1e-6, lowered_inputs=trials)


def test_pytorch_s_numbers() -> None:
    powers = 2.0 ** torch.arange(-140, 127)
    near = torch.tensor([-1.0, -1.0 + 2.0**-24, -2.0, 3e38])
    for x in (powers, -powers, near, torch.rand(999) - 0.5, *adversarial(torch.randn(30))):
        torch.testing.assert_close(forms.log1p(x), torch.log1p(x), rtol=3e-7, atol=0, equal_nan=True)
        assert_same(F.logsigmoid(x), forms.log_sigmoid(x), 1e-6)


def test_other_types_are_declined() -> None:
    for form in (forms.log1p, forms.log_sigmoid):
        with pytest.raises(Decline, match="float16"):
            form(torch.ones(2).half())
