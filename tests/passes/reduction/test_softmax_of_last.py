import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.reduction import softmax_of_last as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


@pytest.mark.slow
def test_xnnpack_takes_every_dimension() -> None:
    def every_form(x: Tensor) -> tuple[Tensor, ...]:
        return x.softmax(1), x.softmax(0), F.softmin(x, 1), x.softmax(-1)

    inputs = (torch.randn(2, 6, 8),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="softmax-of-last", tolerance=1e-6, lowered_inputs=trials)


def test_every_dimension() -> None:
    for shape in ((), (3,), (2, 3), (2, 3, 4, 2)):
        x = torch.randn(shape)
        for dim in range(-len(shape), max(len(shape) - 1, 1)):
            for y in (x, *adversarial(x)) if dim != -1 and len(shape) != 1 else ():
                assert_same(y.softmax(dim), forms.softmax(y, dim), 1e-6)
                assert_same(y.softmax(dim), forms.decomposed_softmax(y, dim, False), 1e-6)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="last dimension"):
        forms.softmax(torch.ones(2, 3), -1)
    with pytest.raises(Decline, match="another type"):
        forms.softmax(torch.ones(2, 3), 0, torch.float64)
