from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline, LowerfixError
from lowerfix.passes.scatter.index_put import index_copy, index_put, index_put_by_mask, index_put_float, put, put_float
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

aten = torch.ops.aten


class Cache(torch.nn.Module):
    """A cache of keys, written at computed positions in both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))

    def forward(self, position: Tensor, other: Tensor, key: Tensor) -> Tensor:
        self.keys[:, :, position] = key
        self.keys.index_copy_(2, other, key)
        return self.keys * 1.0


def forms(x: Tensor, v: Tensor, i: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    z = x.clone()
    z[mask[:, 0]] = v[0]
    return (z, aten.index_put.default(x, [None, i], x[:, :2]), aten.index_put.default(x, [i[:1].expand(2)], v, True))


@pytest.mark.slow
def test_computed_and_negative_indices_and_masks_go_whole() -> None:
    inputs = (torch.randn(6, 4), torch.randn(2, 4), torch.tensor([-1, 2]), torch.randn(6, 4) > 0)
    check_rewrite(
        forms,
        inputs,
        target="vgf",
        expect="index-put",
        allowed_left=["_to_dim_order_copy"],
        tolerance=1e-6,
        lowered_inputs=[(*list(adversarial_inputs(inputs))[20][:2], torch.tensor([3, -4]), inputs[3])],
    )


@pytest.mark.slow
def test_and_without_comparisons_of_integers() -> None:
    inputs = (torch.randn(6, 4), torch.randn(2, 4), torch.tensor([-1, 2]))
    check_rewrite(
        lambda x, v, i: aten.index_put.default(x, [i], v),
        inputs,
        target="tosa-fp",
        expect="index-put",
        allowed_left=["_to_dim_order_copy"],
        tolerance=1e-6,
    )


@pytest.mark.slow
def test_a_cache_is_written_in_place() -> None:
    model = Cache
    other, key = torch.tensor([5]), torch.randn(1, 2, 1, 4)
    inputs = (torch.tensor([3]), other, key)
    program = lowerfix.apply(export(model(), inputs), target="vgf")
    lowered = lowering.lower(program, "vgf", compile=False)
    assert set(lowered.cpu_ops) <= {"_to_dim_order_copy"}
    ours, eager = program.module(), model()
    for position in (3, 0, 7):
        assert_same(eager(torch.tensor([position]), other, key), ours(torch.tensor([position]), other, key))


@pytest.mark.slow
def test_in_int8() -> None:
    inputs = (torch.randn(6, 4), torch.randn(2, 4), torch.tensor([1, 4], dtype=torch.int32))
    checked = check_rewrite(
        lambda x, v, i: aten.index_put.default(x, [i], v, True),
        inputs,
        target="ethos-u85",
        expect="index-put",
        tolerance=1e-6,
    )
    assert checked.lowered.inner_quantize == 0


@pytest.mark.slow
@pytest.mark.parametrize("target", ["vgf", "tosa-fp"])
def test_a_place_that_is_named_twice_is_written_once(target: str) -> None:
    twice = torch.tensor([1, 4, 1])

    def written(x: Tensor, v: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        one, several = x.clone(), x.clone()
        one[i] = 0.5
        several[twice] = v
        return one, several, aten.index_put.default(x, [None, i], v[:1, :1])

    inputs = (torch.randn(6, 4), torch.randn(3, 4), torch.tensor([2, 2, -1]))
    check_rewrite(
        written, inputs, target=target, expect="index-put", allowed_left=["_to_dim_order_copy"], tolerance=1e-6
    )


def test_stock_lowering_adds_once_where_an_index_occurs_twice() -> None:
    """When this fails, Arm accumulates rightly, and a part of what the pass corrects can go."""
    inputs = (torch.zeros(6, 4), torch.ones(2, 4), torch.tensor([1, 1], dtype=torch.int32))
    program = export(lambda x, v, i: aten.index_put.default(x, [i], v, True), inputs)
    lowered = lowering.lower(program, "tosa-fp", compile=False)
    try:
        [result] = lowering.execute(lowered, list(inputs))
    except Exception as error:
        assert "TOSA" in str(error)  # noqa: PT017
    else:
        assert not torch.equal(result, program.module()(*inputs))


@st.composite
def cases(draw: Any) -> tuple[Tensor, list[Tensor | None], Tensor, bool]:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    dims = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    torch.manual_seed(draw(st.integers(0, 99)))
    common = draw(st.sampled_from([(2,), (2, 1), (2, 3), (1,), ()]))
    indices: list[Tensor | None] = [
        torch.randint(-size, size, common[draw(st.integers(0, len(common))) :]) if dim in dims else None
        for dim, size in enumerate(shape)
    ]
    x = torch.randn(shape)
    selected = aten.index.Tensor(x, indices)
    accumulate = draw(st.booleans())
    values = torch.randn(selected.shape[draw(st.integers(0, selected.dim())) :])
    return x, indices, values if accumulate else torch.full_like(values, 7.0), accumulate


@settings(max_examples=100, deadline=None)
@given(cases())
def test_any_indices(case: tuple[Tensor, list[Tensor | None], Tensor, bool]) -> None:
    expected = aten.index_put.default(*case)
    assert_same(expected, index_put(*case), 1e-5)
    assert_same(expected, index_put_float(*case), 1e-5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 3), st.integers(1, 3), st.booleans(), st.data()
)
def test_any_mask(shape: list[int], dim: int, rank: int, accumulate: bool, data: st.DataObject) -> None:
    dim = min(dim, len(shape) - 1)
    rank = min(rank, len(shape) - dim)
    x, mask = torch.randn(shape), torch.rand(shape[dim : dim + rank]) > 0.5
    after = shape[dim + rank :]
    values = torch.randn(data.draw(st.sampled_from([[], after, [1, *after], [*shape[:dim], 1, *after]])))
    indices = [None] * dim + [mask]
    expected = aten.index_put.default(x, indices, values, accumulate)
    assert_same(expected, index_put_by_mask(x, indices, values, accumulate))
    assert_same(expected, index_put_by_mask(x, [None] * dim + [mask.to(torch.uint8)], values, accumulate))


def test_copy_and_put() -> None:
    x = torch.randn(3, 4, 2)
    for dim in (0, 1, -1):
        index = torch.randperm(x.shape[dim])[:2]
        assert_same(x.index_copy(dim, index, x.narrow(dim, 0, 2)), index_copy(x, dim, index, x.narrow(dim, 0, 2)))
    scalar, index = torch.tensor(1.0), torch.tensor([0])
    assert_same(scalar.index_copy(0, index, torch.tensor([2.0])), index_copy(scalar, 0, index, torch.tensor([2.0])))
    places = torch.tensor([[0, -1], [5, 0]])
    for form in (put, put_float):
        assert_same(x.put(places, x[0, :2], True), form(x, places, x[0, :2], True), 1e-6)


def test_each_decline_says_why() -> None:
    x, mask = torch.randn(4, 4), torch.rand(4, 4) > 0.5
    with pytest.raises(Decline, match="differ from place to place"):
        index_put_by_mask(x, [mask], torch.randn(int(mask.sum()) + 2))
    with pytest.raises(Decline, match="not one Boolean mask"):
        index_put_by_mask(x, [torch.tensor([0])], torch.randn(1))
    with pytest.raises(Decline, match="depends on data"):
        index_put(x, [mask], torch.randn(1))
    with pytest.raises(Decline, match="may occur twice"):
        index_put(torch.zeros(4096), [torch.zeros(2048, dtype=torch.int32)], torch.zeros(2048), True)


@pytest.mark.slow
def test_a_constant_index_out_of_range_is_an_error() -> None:
    program = export(lambda x: x.index_copy(0, torch.tensor([1]), x[:1]), (torch.randn(4, 4),))
    lowerfix.apply(program, target="vgf")
    program = export(lambda x: aten.index_put.default(x, [torch.tensor([7])], x[:1]), (torch.randn(4, 4),))
    with pytest.raises(LowerfixError, match="out of range"):
        lowerfix.apply(program, target="vgf")


def test_an_int32_index_that_is_never_negative_is_left_alone() -> None:
    program = export(
        lambda x, v: aten.index_put.default(x, [torch.tensor([1, 2], dtype=torch.int32)], v),
        (torch.randn(6, 4), torch.randn(2, 4)),
    )
    report = lowerfix.Report()
    lowerfix.apply(program, target="vgf", report=report)
    assert "index-put" not in {finding.pass_id for finding in report.findings}
