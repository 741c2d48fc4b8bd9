import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lowerfix.errors import Decline
from lowerfix.passes.shape.windows import windows
from lowerfix.testing import assert_same, check_rewrite


@pytest.mark.slow
def test_more_than_sixteen_windows_go_whole_on_ethos_u55() -> None:
    checked = check_rewrite(
        lambda x: x.unfold(1, 4, 1) + 1, (torch.randn(3, 21),), target="ethos-u55", expect="windows"
    )
    assert checked.lowered.inner_quantize == 0


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(-3, 2), st.integers(1, 4), st.data())
def test_any_windows(shape: list[int], dim: int, step: int, data: st.DataObject) -> None:
    dim = max(-len(shape), min(dim, len(shape) - 1))
    size = data.draw(st.integers(1, shape[dim]))
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    assert_same(x.unfold(dim, size, step), windows(x, dim, size, step))


def test_a_scalar_has_one_window() -> None:
    x = torch.tensor(2.0)
    assert_same(x.unfold(0, 1, 1), windows(x, 0, 1, 1))


def test_empty_windows_are_declined() -> None:
    with pytest.raises(Decline, match="empty"):
        windows(torch.randn(3), 0, 0, 1)


def test_too_much_to_select_is_declined() -> None:
    with pytest.raises(Decline, match="elements to select"):
        windows(torch.zeros(1).expand(8192), 0, 4096, 1)
