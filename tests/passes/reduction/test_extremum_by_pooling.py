import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.reduction import extremum_by_pooling as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    return x.amax(-1), x.amax(1, keepdim=True), x.amin((0, 2)), x.amax(), x.max(), x.min()


@pytest.mark.slow
def test_xnnpack_takes_every_form_nan_included() -> None:
    inputs = (torch.randn(2, 6, 8),)
    lowered_inputs = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="extremum-by-pooling", lowered_inputs=lowered_inputs)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data(), st.booleans())
def test_every_dimension(shape: list[int], data: st.DataObject, keepdim: bool) -> None:
    x = torch.randn(shape)
    dims = data.draw(st.lists(st.integers(-len(shape), -1), unique=True))
    for y in (x, *adversarial(x)):
        assert_same(torch.amax(y, dims, keepdim), forms.amax(y, dims, keepdim))
        assert_same(torch.amin(y, dims, keepdim), forms.amin(y, dims, keepdim))


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="int64"):
        forms.amax(torch.ones(2, dtype=torch.int64))
    with pytest.raises(Decline, match="no element"):
        forms.amax(torch.ones(0, 2), [0])
