import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.reduction import logcumsumexp_by_steps as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    return torch.logcumsumexp(x, 0), torch.logcumsumexp(x, -1), torch.logcumsumexp(x[:, :1], 1)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(3, 6),)
    check_rewrite(
        every_form,
        inputs,
        target="xnnpack",
        expect="logcumsumexp-by-steps",
        tolerance=1e-5,
        lowered_inputs=list(adversarial_inputs(inputs)),
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.data())
def test_every_dimension(shape: list[int], data: st.DataObject) -> None:
    x = torch.randn(shape)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    for y in (x, *adversarial(x)):
        assert_same(torch.logcumsumexp(y, dim), forms.logcumsumexp(y, dim), 1e-5)


def test_long_rows() -> None:
    x = torch.randn(2, 3000) * 5
    assert_same(torch.logcumsumexp(x, 1), forms.logcumsumexp(x, 1), 1e-5)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="float64"):
        forms.logcumsumexp(torch.ones(2, dtype=torch.float64), 0)
    with pytest.raises(Decline, match="nothing to add up"):
        forms.logcumsumexp(torch.ones(()), 0)
    with pytest.raises(Decline, match="4097 elements"):
        forms.logcumsumexp(torch.ones(4097), 0)
