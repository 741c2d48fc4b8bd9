import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lowerfix.errors import Decline
from lowerfix.passes.shape import unit_dimensions as forms
from lowerfix.testing import adversarial_inputs, check_rewrite


def every_form(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.relu(x)
    added = y.unsqueeze(0), y.unsqueeze(2) * 2.0
    dropped = y[:, :1].squeeze(1), y[:1, :1].squeeze(), y[:1, :, :1].squeeze((0, 2))
    return *added, *dropped, y[:, 2], y[:, -1], *y[:, 1:4].unbind(1)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 6, 8),)
    lowered_inputs = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="unit-dimensions", lowered_inputs=lowered_inputs)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.data())
def test_every_dimension_and_position(shape: list[int], data: st.DataObject) -> None:
    x = torch.randn(shape)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    index = data.draw(st.integers(-shape[dim], shape[dim] - 1))
    at = data.draw(st.integers(-len(shape) - 1, len(shape)))
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    assert torch.equal(forms.unsqueeze(x, at), x.unsqueeze(at))
    assert torch.equal(forms.squeeze(x), x.squeeze())
    assert torch.equal(forms.squeeze_one(x, dim), x.squeeze(dim))
    assert torch.equal(forms.squeeze_some(x, dims), torch.ops.aten.squeeze.dims(x, dims))
    assert torch.equal(forms.select(x, dim, index), x.select(dim, index))
    ours, theirs = forms.unbind(x, dim), x.unbind(dim)
    assert all(map(torch.equal, ours, theirs))
    assert len(ours) == len(theirs)


def test_a_tensor_without_dimensions_has_none_to_drop() -> None:
    with pytest.raises(Decline, match="no dimension"):
        forms.squeeze(torch.tensor(1.0))
