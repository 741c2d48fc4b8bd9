import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.reduction import mean_of_rows as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor) -> tuple[Tensor, ...]:
    means = x.mean(-1), x.mean(1, keepdim=True), x.mean((0, 2)), x.mean()
    return *means, x.sum(1), x.sum(), x.sum((0, 1), keepdim=True)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = (torch.randn(2, 6, 8),)
    lowered_inputs = list(adversarial_inputs(inputs))
    check_rewrite(
        every_form, inputs, target="xnnpack", expect="mean-of-rows", tolerance=1e-5, lowered_inputs=lowered_inputs
    )


def test_sums_of_whole_numbers_are_whole() -> None:
    """Some may count by them, and ask whether the count is a number."""
    inputs = tuple(torch.ones(count, count).tril()[:300] for count in (49, 300, 2111))
    assert all(torch.any(x.mean(1) * x.shape[1] != x.sum(1)) for x in inputs)
    check_rewrite(
        lambda *xs: tuple(x.sum(1) for x in xs),
        inputs,
        target="xnnpack",
        expect="mean-of-rows",
        tolerance=1e-5,
        lowered_tolerance=0.0,
    )


@pytest.mark.parametrize("count", [1, 4096, 8192, 8209, 3 * 4099])
def test_long_rows_take_few_ones(count: int) -> None:
    x = torch.randint(-9, 9, (2, count)).float()
    assert_same(x.sum(1), forms.sum_(x, [1]))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 4), max_size=4), st.data(), st.booleans())
def test_every_dimension(shape: list[int], data: st.DataObject, keepdim: bool) -> None:
    x = torch.randn(shape)
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True)) if shape else []
    dims = [d - len(shape) if data.draw(st.booleans()) else d for d in dims]
    for y in (x, *adversarial(x)):
        if y.abs().nan_to_num(0, 0).amax() > 1e37:
            continue  # whether a sum overflows depends on its order
        assert_same(torch.mean(y, dims, keepdim), forms.mean(y, dims, keepdim), 1e-5)
        assert_same(torch.sum(y, dims, keepdim), forms.sum_(y, dims, keepdim), 1e-5)
        assert_same(y.mean(), forms.mean_of_all(y), 1e-5)
        assert_same(y.sum(), forms.sum_of_all(y), 1e-5)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="integers"):
        forms.sum_of_all(torch.ones(2, dtype=torch.int64))
    with pytest.raises(Decline, match="another type"):
        forms.mean(torch.ones(2), [0], dtype=torch.float64)
    with pytest.raises(Decline, match="no element"):
        forms.mean(torch.ones(0, 2), [0])
