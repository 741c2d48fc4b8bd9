import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lowerfix.errors import Decline
from lowerfix.passes.shape import repeated as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.relu(x)
    row = y[:, :1]
    expanded = row.expand(2, 6, 8), y.expand(3, 2, 6, 8), row.expand(-1, 5, -1) + x[:, :5], y[:1].broadcast_to(2, 6, 8)
    repeated = y.repeat(1, 2, 1), y.repeat(3, 1, 2, 2), y.tile(2, 2)
    interleaved = y.repeat_interleave(2, 1), y.repeat_interleave(3)
    return *expanded, *repeated, *interleaved, torch.cat([y, y], -1), y.expand(2, 6, 8) * 2.0


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 6, 8),)
    lowered_inputs = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="repeated", lowered_inputs=lowered_inputs)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_every_shape(shape: list[int], data: st.DataObject) -> None:
    x = torch.randn(shape)
    new = data.draw(st.lists(st.integers(1, 3), max_size=2))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    times = data.draw(st.integers(1, 3))
    wider = [-1 if size > 1 else data.draw(st.integers(1, 3)) for size in shape]
    repeats = [data.draw(st.integers(1, 3)) for _ in [*new, *shape]]
    for y in (x, *adversarial(x)):
        assert_same(y.expand([*new, *wider]), forms.expand(y, [*new, *wider]))
        assert_same(y.repeat(repeats), forms.repeat(y, repeats))
        assert_same(y.repeat_interleave(times, dim), forms.repeat_interleave(y, times, dim))
        assert_same(y.repeat_interleave(times), forms.repeat_interleave(y, times))
        assert_same(torch.cat([y] * times, dim), forms.cat_with_itself([y] * times, dim))


def test_the_sign_of_zero_is_kept() -> None:
    assert torch.signbit(forms.expand(torch.tensor([-0.0]), [3])).all()


def test_an_expand_that_changes_nothing_is_its_argument() -> None:
    x = torch.randn(2, 3)
    assert forms.expand(x, [2, -1]) is x


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="different tensors"):
        forms.cat_with_itself([torch.ones(2), torch.ones(2)])
    with pytest.raises(Decline, match="int64"):
        forms.repeat(torch.ones(2, dtype=torch.int64), [2])
    with pytest.raises(Decline, match="empty"):
        forms.repeat(torch.ones(2), [0])
