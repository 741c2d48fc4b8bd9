from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selection_inputs import SEEDS, SHAPES, SOME, special
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection.gather import gather, take, take_along_dim, take_along_dim_float, take_float
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite


@pytest.mark.slow
def test_of_an_index_input_only_the_cast_stays_outside() -> None:
    inputs = (torch.randn(2, 3, 4), torch.tensor([[0, 1, 2], [2, 2, 1]]))
    check_rewrite(
        lambda x, i: (x.gather(0, (i.to(torch.int32) % 2)[:, :, None].long()), x.gather(-1, i[:, :, None])),
        inputs,
        target="vgf",
        expect="gather",
        allowed_left=["_to_dim_order_copy"],
        lowered_inputs=list(adversarial_inputs(inputs)),
    )


@pytest.mark.slow
def test_negative_indices_without_int32_comparisons() -> None:
    inputs = (torch.randn(3, 4), torch.tensor([[0, -1, 2, -3]]), torch.tensor([-12, 11, -1]))
    check_rewrite(
        lambda x, i, j: (torch.take_along_dim(x, i, 0), torch.take(x, j)),
        inputs,
        target="tosa-fp",
        expect="gather",
        allowed_left=["_to_dim_order_copy"],
    )


@pytest.mark.slow
def test_as_in_eager_with_computed_indices() -> None:
    inputs = (torch.randn(2, 3, 4),)

    def model(x: Tensor) -> Any:
        best = x.argmax(1)
        return x.gather(1, best[:, None]), torch.take_along_dim(x, best[:1, None], 1), torch.take(x, best)

    check_rewrite(model, inputs, target="vgf", expect="gather", lowered_inputs=list(adversarial_inputs(inputs)))


@pytest.mark.slow
def test_int8_picks_quantized_elements() -> None:
    model = lambda x: x.gather(0, x.argmax(0, keepdim=True))  # noqa: E731
    check_rewrite(model, (torch.randn(3, 4, 5),), target="ethos-u85", expect="gather")


@SOME
@given(shape=SHAPES, seed=SEEDS, cut=st.booleans(), rows=st.integers(1, 4))
def test_every_rank_and_dimension(shape: Any, seed: int, cut: bool, rows: int) -> None:
    x = special(shape, seed)
    generator = torch.Generator().manual_seed(seed)
    for dim in range(-x.dim(), max(1, x.dim())):
        size = [max(1, n - cut) for n in shape]
        if size:
            size[dim] = rows
        index = torch.randint(shape[dim] if shape else 1, size, generator=generator)
        assert_same(x.gather(dim, index), gather(x, dim, index))
        if shape and not cut:
            index = index.narrow((dim + 1) % len(shape), 0, 1) if len(shape) > 1 else index
            assert_same(torch.take_along_dim(x, index, dim), take_along_dim(x, index, dim))
            negative = index - shape[dim]
            assert_same(torch.take_along_dim(x, negative, dim), take_along_dim(x, negative, dim))
            assert_same(torch.take_along_dim(x, negative, dim), take_along_dim_float(x, negative, dim))
        everywhere = index % x.numel()
        assert_same(torch.take_along_dim(x, everywhere), take_along_dim(x, everywhere))
        assert_same(torch.take(x, everywhere), take(x, everywhere))
        assert_same(torch.take(x, everywhere - x.numel()), take(x, everywhere - x.numel()))
        assert_same(torch.take(x, everywhere - x.numel()), take_float(x, everywhere - x.numel()))


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="nothing"):
        gather(torch.zeros(3), 0, torch.zeros(0, dtype=torch.int64))
    with pytest.raises(Decline, match="int32"):
        gather(torch.zeros(1).expand(1 << 31), 0, torch.zeros(1, dtype=torch.int64))
