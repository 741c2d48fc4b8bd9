import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.reduction.running_sum import cumsum
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


@pytest.mark.slow
def test_xnnpack_takes_it() -> None:
    def every_form(x: Tensor) -> tuple[Tensor, ...]:
        return x.cumsum(1), x.cumsum(-1), x.cumsum(0)

    inputs = (torch.randn(2, 6, 8),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="running-sum", tolerance=1e-5, lowered_inputs=trials)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.data())
def test_every_shape(shape: list[int], data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = torch.randn(shape)
    for y in (x, *adversarial(x)):
        if not (y.isfinite() & (y.abs() > 1e37)).any():  # there it depends on the order
            assert_same(y.cumsum(dim), cumsum(y, dim), 1e-5)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="integers"):
        cumsum(torch.ones(3).long(), 0)
    with pytest.raises(Decline, match="4097 elements"):
        cumsum(torch.ones(4097), 0)
    with pytest.raises(Decline, match="nothing"):
        cumsum(torch.tensor(1.0), 0)
