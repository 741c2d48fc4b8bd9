import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape import diagonal_by_padding as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    embedded = torch.diag_embed(x), torch.diag_embed(x, 2), torch.diag_embed(x, -1, 0, 2)
    flat = torch.diag(x[0]), torch.diagflat(x, -1), torch.diagflat(x[0, 0])
    scattered = (
        torch.diagonal_scatter(y, x[0], 2),
        torch.diagonal_scatter(y, x[0, :3], -2),
        y.diagonal_scatter(x[1, :2], 4),
    )
    return *embedded, *flat, *scattered


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = torch.randn(2, 4), torch.randn(5, 6)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="diagonal-by-padding", lowered_inputs=trials)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(-4, 4), st.data())
def test_every_offset(shape: list[int], offset: int, data: st.DataObject) -> None:
    x = torch.randn(shape)
    first, second = data.draw(st.permutations(range(-len(shape) - 1, 0)))[:2]
    for y in (x, *adversarial(x)):
        assert_same(torch.diag_embed(y, offset, first, second), forms.diag_embed(y, offset, first, second))
        assert_same(torch.diagflat(y, offset), forms.diagflat(y, offset))
        assert_same(torch.diag(y.reshape(-1), offset), forms.diag(y.reshape(-1), offset))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(-5, 5), st.data())
def test_every_matrix(shape: list[int], offset: int, data: st.DataObject) -> None:
    x = torch.randn(shape)
    first, second = data.draw(st.permutations(range(len(shape))))[:2]
    if -x.shape[first] < offset < x.shape[second]:
        source = torch.randn_like(x.diagonal(offset, first, second))
        for y in (x, *adversarial(x)):
            expected = torch.diagonal_scatter(y, source, offset, first, second)
            assert_same(expected, forms.diagonal_scatter(y, source, offset, first, second))


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="diagonal of a matrix"):
        forms.diag(torch.ones(2, 2))
    with pytest.raises(Decline, match="int64"):
        forms.diag_embed(torch.ones(2, dtype=torch.int64))
    with pytest.raises(Decline, match="no element"):
        forms.diagflat(torch.ones(0))
    with pytest.raises(Decline, match="float32 and"):
        forms.diagonal_scatter(torch.ones(2, 2), torch.ones(2, dtype=torch.float64))
