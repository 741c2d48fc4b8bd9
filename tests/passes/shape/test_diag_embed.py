import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape.diag_embed import diag, diag_embed, diagflat, diagonal_scatter
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite


def forms(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x + 1
    z.diagonal().fill_(0)
    return torch.diag_embed(x, 1), torch.diag(y), torch.diagonal_scatter(x, y, -1), z


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tosa-fp", "ethos-u85"])
def test_all_of_it_goes_whole(target: str) -> None:
    inputs = (torch.randn(4, 4), torch.randn(3))
    check_rewrite(
        forms, inputs, target=target, expect="diag-embed", lowered_inputs=list(adversarial_inputs(inputs))[::6]
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(-4, 4), st.booleans(), st.data())
def test_any_diagonal(shape: list[int], offset: int, is_bool: bool, data: st.DataObject) -> None:
    x = torch.randn(shape)
    x = x > 0 if is_bool else torch.where(x > 1, float("nan"), x)
    first, second = data.draw(st.permutations(range(len(shape) + 1)))[:2]
    first -= data.draw(st.sampled_from([0, len(shape) + 1]))
    whole = torch.diag_embed(x, offset, first, second)
    assert_same(whole, diag_embed(x, offset, first, second))
    assert_same(torch.diagflat(x, offset), diagflat(x, offset))
    assert_same(torch.diag(x.reshape(-1), offset), diag(x.reshape(-1), offset))
    wide = torch.cat([whole, whole], first)
    source = ~x if is_bool else x.nan_to_num() + 1
    if offset == 0:
        theirs = torch.diagonal_scatter(wide, source, 0, first, second)
        assert_same(theirs, diagonal_scatter(wide, source, 0, first, second))


def test_a_matrix_is_left_to_another_pass() -> None:
    with pytest.raises(Decline, match="of a matrix"):
        diag(torch.randn(3, 3))
