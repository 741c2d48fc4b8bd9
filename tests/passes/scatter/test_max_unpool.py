import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.scatter.max_unpool import max_unpool2d, max_unpool3d
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

aten = torch.ops.aten


@pytest.mark.slow
def test_unpooling_goes_whole() -> None:
    pooled, indices = F.max_pool2d(torch.randn(2, 3, 4, 6), 2, return_indices=True)

    def unpooled(x: Tensor, indices: Tensor) -> Tensor:
        return F.max_unpool2d(x, indices, 2) * 2

    inputs = (pooled, indices)
    check_rewrite(
        unpooled,
        inputs,
        target="vgf",
        expect="max-unpool",
        allowed_left=["_to_dim_order_copy"],
        lowered_inputs=list(adversarial_inputs(inputs))[::6],
    )


@pytest.mark.slow
def test_overlapping_windows_name_a_position_twice() -> None:
    pooled, indices = F.max_pool2d(torch.tensor([[[[1.0, 9, 2, 3, 8, 7]]]]), (1, 3), (1, 1), return_indices=True)
    assert indices.unique().numel() < indices.numel()

    def unpooled(x: Tensor, i: Tensor) -> Tensor:
        return aten.max_unpool2d.default(x, i, [1, 6]) * 2

    program = lowerfix.apply(export(unpooled, (pooled, indices)), target="tosa-fp")
    lowered = lowering.lower(program, "tosa-fp", compile=False)
    assert (lowered.delegates, set(lowered.cpu_ops)) == (1, {"_to_dim_order_copy"})
    assert_same([unpooled(pooled, indices)], list(lowering.execute(lowered, (pooled, indices))))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=2), st.integers(2, 5), st.integers(2, 5), st.integers(2, 4))
def test_any_size(outer: list[int], height: int, width: int, depth: int) -> None:
    pooled, indices = F.max_pool2d(torch.randn(*outer, height, width), 2, return_indices=True)
    theirs = F.max_unpool2d(pooled, indices, 2, output_size=[height, width])
    assert_same(theirs, max_unpool2d(pooled, indices, [height, width]))
    pooled, indices = F.max_pool3d(torch.randn(*outer, depth, height, width), 2, return_indices=True)
    size = [depth, height, width]
    theirs = F.max_unpool3d(pooled, indices, 2, output_size=size)
    assert_same(theirs, max_unpool3d(pooled, indices, size, [2, 2, 2], [0, 0, 0]))


def test_nothing_to_unpool_is_declined() -> None:
    with pytest.raises(Decline, match="nothing to put"):
        max_unpool2d(torch.zeros(0, 2, 2, 2), torch.zeros(0, 2, 2, 2, dtype=torch.int64), [4, 4])
