import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lowerfix.errors import Decline
from lowerfix.passes.shape import strided_slice as forms
from lowerfix.testing import adversarial_inputs, check_rewrite


def every_form(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    stepped = x[:, 1:4, ::2], x[:, ::2], x[:, 1::4], x[..., 2:7:3], x[:, -5:-1:2]
    return *stepped, x.flip(1), x.flip(0, 2)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 6, 8),)
    lowered_inputs = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="strided-slice", lowered_inputs=lowered_inputs)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.data(),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.integers(2, 5),
)
def test_every_start_end_and_step(
    shape: list[int], data: st.DataObject, start: int | None, end: int | None, step: int
) -> None:
    x = torch.randn(shape)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    expected = torch.ops.aten.slice.Tensor(x, dim, start, end, step)
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    assert torch.equal(forms.flip(x, dims), x.flip(dims))
    assume(expected.numel())
    assert torch.equal(forms.slice_by_rows(x, dim, start, end, step), expected)


def test_declines_say_why() -> None:
    x = torch.randn(65)
    with pytest.raises(Decline, match="no step"):
        forms.slice_by_rows(x, 0, 1, 5)
    with pytest.raises(Decline, match="empty"):
        forms.slice_by_rows(x, 0, 5, 1, 2)
    with pytest.raises(Decline, match="65 positions"):
        forms.flip(x, [0])
    with pytest.raises(Decline, match="int64"):
        forms.flip(x.long(), [0])
