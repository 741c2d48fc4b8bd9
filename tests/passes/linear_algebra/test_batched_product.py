import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.linear_algebra.batched_product import matmul
from lowerfix.testing import assert_same, check_rewrite


def every_form(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    return torch.matmul(a, b), torch.matmul(a, c), torch.einsum("bhik,bhkj->bhij", a, b)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 5, 4), torch.randn(1, 3, 5, 2)
    check_rewrite(every_form, inputs, target="xnnpack", expect="batched-product", tolerance=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.data())
def test_every_shape(batches: list[int], data: st.DataObject) -> None:
    def some() -> list[int]:
        shape = [data.draw(st.sampled_from([1, size])) for size in batches]
        return shape[data.draw(st.integers(0, len(shape) - 1)) :]

    a, b = torch.randn(*some(), 2, 3), torch.randn(*some(), 3, 4)
    assert_same(torch.matmul(a, b), matmul(a, b), 1e-5)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="two batches"):
        matmul(torch.ones(2, 3, 4), torch.ones(4, 2))
    with pytest.raises(Decline, match="integers"):
        matmul(torch.ones(2, 3, 4).long(), torch.ones(2, 4, 2).long())
