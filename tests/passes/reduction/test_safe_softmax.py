import pytest
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.reduction import safe_softmax as forms
from lowerfix.testing import adversarial, assert_same, check_rewrite

aten = torch.ops.aten


def masked() -> Tensor:
    x = torch.randn(3, 4, 5)
    x[0] = -torch.inf
    x[1, :2] = -torch.inf
    x[:, 2, 3] = -torch.inf
    return x


def trials() -> list[Tensor]:
    return [masked(), *adversarial(torch.randn(3, 4, 5)), *adversarial(masked())]


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    return aten._safe_softmax.default(x, -1), aten._safe_softmax.default(x, 1), aten._safe_softmax.default(x, 0)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(3, 4, 5),)
    lowered_inputs = [(x,) for x in trials()]
    check_rewrite(
        every_form, inputs, target="xnnpack", expect="safe-softmax", tolerance=1e-6, lowered_inputs=lowered_inputs
    )


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_every_row(dim: int) -> None:
    for x in trials():
        assert_same(aten._safe_softmax.default(x, dim), forms.safe_softmax(x, dim), 1e-6)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="another type"):
        forms.safe_softmax(torch.ones(2), 0, torch.float64)
    with pytest.raises(Decline, match="float16"):
        forms.safe_softmax(torch.ones(2).half(), 0)
    with pytest.raises(Decline, match="no dimension"):
        forms.safe_softmax(torch.ones(()), 0)
