from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.scatter import index_add as written
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

TWICE = torch.tensor([1, 1, 4])
KINDS = (torch.int32, torch.float32)


def forms(x: Tensor, source: Tensor, index: Tensor) -> tuple[Tensor, ...]:
    return (
        x.index_fill(0, index, 2.0),
        x.scatter_add(0, index[:, None], source),
        x.scatter_reduce(0, index[:, None].expand(3, 4), source, "mean", include_self=False),
    )


@pytest.mark.slow
def test_a_computed_index_goes_whole() -> None:
    inputs = (torch.randn(6, 4), torch.randn(3, 4), TWICE)
    check_rewrite(
        forms,
        inputs,
        target="vgf",
        expect="index-add",
        tolerance=1e-6,
        allowed_left=["_to_dim_order_copy"],
        lowered_inputs=list(adversarial_inputs(inputs))[20:24],
    )


@pytest.mark.slow
def test_and_without_comparisons_of_integers() -> None:
    inputs = (torch.randn(6, 4), torch.randn(3, 4), TWICE)
    check_rewrite(
        lambda x, source, index: x.index_add(0, index, source, alpha=2),
        inputs,
        target="tosa-fp",
        expect="index-add",
        tolerance=1e-6,
        allowed_left=["_to_dim_order_copy"],
    )


class Constant(torch.nn.Module):
    """Graph convolutions add so: the index belongs to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor([0, 2, 2, 1, 5, 5, 0, 3, 1, 1]))

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        return x.index_add(0, self.index, source)


@pytest.mark.slow
def test_an_int8_sum_over_a_constant_index() -> None:
    checked = check_rewrite(
        Constant(), (torch.randn(6, 4), torch.randn(10, 4)), target="ethos-u85", expect="index-add", tolerance=1e-6
    )
    assert checked.lowered.inner_quantize == 0


def test_stock_lowering_adds_once_where_an_index_occurs_twice() -> None:
    """When this fails, the rewrite of ``index_add`` that corrects Arm can go."""
    inputs = (torch.zeros(6, 4), torch.ones(10, 4))
    program = export(lambda x, source: x.index_add(0, torch.tensor([0, 2, 2, 1, 5, 5, 0, 3, 1, 1]), source), inputs)
    lowered = lowering.lower(program, "tosa-fp", compile=False)
    if not lowered.cpu_ops:
        [result] = lowering.execute(lowered, list(inputs))
        assert not torch.equal(result, program.module()(*inputs))


@st.composite
def cases(draw: Any) -> tuple[Tensor, int, Tensor, Tensor]:
    shape = draw(st.lists(st.integers(1, 4), min_size=0, max_size=3))
    rank = len(shape)
    dim = draw(st.integers(-max(rank, 1), max(rank, 1) - 1))
    torch.manual_seed(draw(st.integers(0, 99)))
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, 2.0])
    x = torch.randn(shape) if draw(st.booleans()) else special[torch.randint(0, 7, shape)]
    count = draw(st.sampled_from([1, 2, 12]))
    smaller = [count if rank and d == dim % rank else draw(st.integers(1, size)) for d, size in enumerate(shape)]
    index = torch.randint(0, shape[dim] if rank else 1, smaller)
    return x, dim, index, torch.randn([size + draw(st.integers(0, 1)) for size in smaller])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(case=cases(), include_self=st.booleans(), reduce=st.sampled_from(["sum", "prod", "mean", "amax", "amin"]))
def test_scatter_is_as_in_eager(
    kind: torch.dtype, case: tuple[Tensor, int, Tensor, Tensor], include_self: bool, reduce: str
) -> None:
    x, dim, index, source = case
    assert_same(x.scatter(dim, index, source), written.scatter(kind, x, dim, index, source))
    assert_same(x.scatter(dim, index, 3.0), written.scatter_value(kind, x, dim, index, 3.0))
    assert_same(x.scatter_add(dim, index, source), written.scatter_add(kind, x, dim, index, source), 1e-5)
    for name in ("add", "multiply"):
        theirs = torch.scatter(x, dim, index, source, reduce=name)
        assert_same(theirs, written.scatter_with_reduce(kind, x, dim, index, source, reduce=name), 1e-5)
        theirs = torch.scatter(x, dim, index, 2.0, reduce=name)
        assert_same(theirs, written.scatter_value_with_reduce(kind, x, dim, index, 2.0, reduce=name), 1e-5)
    theirs = x.scatter_reduce(dim, index, source, reduce, include_self=include_self)
    ours = written.scatter_reduce(kind, x, dim, index, source, reduce, include_self=include_self)
    assert_same(theirs, ours, 1e-5)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(case=cases(), include_self=st.booleans(), reduce=st.sampled_from(["prod", "mean", "amax", "amin"]))
def test_index_ops_are_as_in_eager(
    kind: torch.dtype, case: tuple[Tensor, int, Tensor, Tensor], include_self: bool, reduce: str
) -> None:
    x, dim, index, _ = case
    size = x.shape[dim] if x.dim() else 1
    index = index.movedim(dim, 0)[(slice(None),) + (0,) * (x.dim() - 1)] if x.dim() else index.reshape(1)
    shape = list(x.shape)
    if shape:
        shape[dim] = len(index)
    source = torch.randn(shape)
    assert_same(x.index_add(dim, index, source), written.index_add(kind, x, dim, index, source), 1e-5)
    theirs = x.index_reduce(dim, index, source, reduce, include_self=include_self)
    ours = written.index_reduce(kind, x, dim, index, source, reduce, include_self=include_self)
    assert_same(theirs, ours, 1e-5)
    index = index - size * torch.randint(0, 2, index.shape)  # only index_fill counts from the end
    assert_same(x.index_fill(dim, index, 2), written.index_fill(kind, x, dim, index, 2))
    value = torch.tensor(2.0)
    assert_same(x.index_fill(dim, index, value), written.index_fill_tensor(kind, x, dim, index, value))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int8, torch.bool])
def test_integers(dtype: torch.dtype) -> None:
    x, source = torch.tensor([1, 0, 7, 1]).to(dtype), torch.tensor([3, 0, 2] * 4).to(dtype)
    index = torch.tensor([0, 1, 1] * 4)
    for reduce in ("amax", "amin") if dtype == torch.bool else ("sum", "prod", "amax", "amin"):
        for include_self in (True, False):
            theirs = x.scatter_reduce(0, index, source, reduce, include_self=include_self)
            ours = written.scatter_reduce(torch.int32, x, 0, index, source, reduce, include_self=include_self)
            assert_same(theirs, ours)


def test_each_decline_says_why() -> None:
    x, index, big = torch.ones(3), torch.tensor([0, 1]), torch.zeros(65, dtype=torch.int64)
    with pytest.raises(Decline, match="mean of integers"):
        written.scatter_reduce(torch.int32, x.to(torch.int32), 0, index, x.to(torch.int32), "mean")
    with pytest.raises(Decline, match="last of equal ones counts"):
        written.scatter(torch.int32, x, 0, big, torch.ones(65))
    with pytest.raises(Decline, match="more than 4194304"):
        written.scatter_add(torch.int32, torch.ones(1 << 16), 0, big, torch.ones(65))
    with pytest.raises(Decline, match=r"more than torch\.float32 can number"):
        written.index_fill(torch.float32, torch.ones(1).expand((1 << 24) + 1), 0, index, 1.0)


def test_a_gather_beside_it_is_left_alone() -> None:
    index = torch.tensor([[0, 1]])
    program = export(lambda x, i: x.gather(0, i), (torch.randn(2, 2), index))
    assert not lowerfix.passes.get("index-add", target="vgf")(program).modified
