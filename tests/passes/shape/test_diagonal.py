import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape.diagonal import diag, diagonal, linalg_diagonal, trace
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite


def forms(x: Tensor) -> tuple[Tensor, ...]:
    return x.diagonal(1) + 1, x.diagonal(-1, 1, 0).clone(), x.trace(), torch.diag(x) * 2


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tosa-fp", "ethos-u85"])
def test_diagonals_go_whole(target: str) -> None:
    inputs = (torch.randn(4, 5),)
    finite = [trial for trial in adversarial_inputs(inputs) if trial[0].abs().max() < 1e6]
    check_rewrite(forms, inputs, target=target, expect="diagonal", tolerance=1e-6, lowered_inputs=finite)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(-4, 4), st.data())
def test_any_diagonal(shape: list[int], offset: int, data: st.DataObject) -> None:
    x = torch.randn(shape)
    first, second = data.draw(st.permutations(range(len(shape))))[:2]
    first -= data.draw(st.sampled_from([0, len(shape)]))
    if -shape[first] < offset < shape[second]:
        assert_same(x.diagonal(offset, first, second), diagonal(x, offset, first, second))
        theirs = torch.linalg.diagonal(x, offset=offset, dim1=first, dim2=second)
        assert_same(theirs, linalg_diagonal(x, offset=offset, dim1=first, dim2=second))
    else:
        with pytest.raises(Decline, match="empty"):
            diagonal(x, offset, first, second)
    matrix = x.reshape(shape[0], -1)
    assert_same(torch.diag(matrix), diag(matrix))
    for dtype in (torch.float32, torch.int32):
        assert_same(matrix.to(dtype).trace(), trace(matrix.to(dtype)), 1e-5)


def test_a_vector_is_left_to_another_pass() -> None:
    with pytest.raises(Decline, match="makes a matrix"):
        diag(torch.randn(3))
