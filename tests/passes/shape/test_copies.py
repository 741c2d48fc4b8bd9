import pytest
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape import copies as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    return torch.diff(x * 2.0, n=0), torch.ops.aten.alias_copy.default(x - 1.0)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 6),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="copies", lowered_inputs=trials)


def test_every_number() -> None:
    for x in adversarial(torch.randn(2, 6)):
        assert_same(torch.diff(x, 0, prepend=x[:, :1], append=x), forms.diff(x, 0, -1, x[:, :1], x))
        assert_same(torch.ops.aten.alias_copy.default(x), forms.alias_copy(x))


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="higher order"):
        forms.diff(torch.ones(3))
