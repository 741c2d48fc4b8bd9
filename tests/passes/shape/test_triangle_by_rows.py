import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape import triangle_by_rows as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    lower = x.tril(), x.tril(2), x.tril(-2), x[0].tril(9)
    return *lower, x.triu(), x.triu(2), x.triu(-2), x[0].triu(3)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 5, 4),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="triangle-by-rows", lowered_inputs=trials)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(-5, 5))
def test_every_diagonal(shape: list[int], diagonal: int) -> None:
    x = torch.randn(shape)
    rows, columns = shape[-2:]
    for y in (x, *adversarial(x)):
        if diagonal > -rows:
            assert_same(y.tril(diagonal), forms.tril(y, diagonal))
        if diagonal < columns:
            assert_same(y.triu(diagonal), forms.triu(y, diagonal))


def test_large_matrices_are_left_alone_where_many_rows_are_cut() -> None:
    x = torch.randn(200, 200)
    assert_same(x.tril(150), forms.tril(x, 150))
    assert_same(x.triu(150), forms.triu(x, 150))
    with pytest.raises(Decline, match="more than 64"):
        forms.tril(x)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="int64"):
        forms.tril(torch.ones(2, 2, dtype=torch.int64))
    with pytest.raises(Decline, match="nothing of it is kept"):
        forms.triu(torch.ones(2, 2), 2)
    with pytest.raises(Decline, match="no element"):
        forms.triu(torch.ones(0, 2))
