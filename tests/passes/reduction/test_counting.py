import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.reduction import counting
from lowerfix.testing import assert_same, check_rewrite, export

X = torch.randn(3, 4, 5).round()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tosa-fp", "vgf"])
def test_counts_that_are_read_as_floats_or_int32_go_whole(target: str) -> None:
    empty = torch.zeros_like(X)
    check_rewrite(
        lambda x: (
            (x > 0).sum(1).to(torch.float32) / 4,
            (x > 0).sum((0, -1), keepdim=True, dtype=torch.float32),
            torch.count_nonzero(x, 1).to(torch.float32),
            torch.count_nonzero(x, (0, 1)).to(torch.float32),
        ),
        (X,),
        target=target,
        expect="counting",
        lowered_inputs=[(empty,), (empty + float("nan"),)],
    )


@pytest.mark.slow
def test_a_count_that_leaves_as_int64_keeps_only_that_cast_on_the_cpu() -> None:
    checked = check_rewrite(
        lambda x: (x > 0).sum(-1), (X,), target="tosa-fp", expect="counting", allowed_left=["_to_dim_order_copy"]
    )
    assert checked.lowered.cpu_ops == {"_to_dim_order_copy": 1}


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(-128, 127), min_size=12, max_size=12),
    st.sampled_from([torch.bool, torch.int8, torch.uint8, torch.int16]),
    st.sampled_from([[0], [-1], [0, 1], []]),
    st.booleans(),
)
def test_the_forms_agree_with_eager(values: list[int], dtype: torch.dtype, dims: list[int], keepdim: bool) -> None:
    x = torch.tensor(values).reshape(3, 4).to(dtype)
    for form in (counting.total_along_dimensions, counting.total_along_dimensions_in_float32):
        assert_same(x.sum(dims, keepdim), form(x, dims, keepdim))
        assert_same(x.sum(dims, dtype=torch.float32), form(x, dims, dtype=torch.float32))
    for form in (counting.total, counting.total_in_float32):
        assert_same(x.sum(), form(x))
    for form in (counting.count_along_dimensions, counting.count_along_dimensions_in_float32):
        assert_same(torch.count_nonzero(x, dims), form(x, dims))
    for form in (counting.count, counting.count_in_float32):
        assert_same(torch.count_nonzero(x), form(x))
        assert_same(torch.count_nonzero(x, 1), form(x, 1))
        assert_same(torch.count_nonzero(x[0, 0]), form(x[0, 0]))


def test_what_might_not_fit_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="nothing is known"):
        counting.total(torch.arange(4))
    with pytest.raises(lowerfix.Decline, match="does not hold"):
        counting.total_in_float32(torch.zeros(1, dtype=torch.int16).expand(600))
    with pytest.raises(lowerfix.Decline, match="does not hold"):
        counting.total(torch.zeros(1, dtype=torch.int16).expand(1 << 17))
    with pytest.raises(lowerfix.Decline, match="may wrap"):
        counting.total(torch.zeros(4, dtype=torch.bool), dtype=torch.int8)
    with pytest.raises(lowerfix.Decline, match="complex"):
        counting.count(torch.zeros(4, dtype=torch.complex64))


def test_sums_of_floats_are_left_alone() -> None:
    program = export(lambda x: (x.sum(), x.sum((0, 1))), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
