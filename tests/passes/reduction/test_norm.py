import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.reduction import norm
from lowerfix.testing import assert_same, check_rewrite, export

X = torch.randn(3, 4, 5).round()
VALUES = [0.0, -0.0, 1.0, -2.5, 0.3, float("nan"), float("inf"), -float("inf")]
ORDERS = [0, 1, 2, 3, 0.5, -1, math.inf, -math.inf]


@pytest.mark.slow
def test_a_count_of_what_is_not_zero_goes_whole() -> None:
    check_rewrite(
        lambda x: (torch.linalg.vector_norm(x, 0, dim=1), torch.linalg.vector_norm(x, 0)),
        (X,),
        target="tosa-fp",
        expect="norm",
        lowered_inputs=[(X * math.nan,), (torch.zeros_like(X),)],
    )


@pytest.mark.slow
def test_in_int8_every_order_is_annotated() -> None:
    check_rewrite(
        lambda x: [torch.linalg.vector_norm(x.clamp(-8, 8), p, dim=(0, 1)) for p in (0, 2, 3, math.inf)],
        (X,),
        target="tosa-int",
        expect="norm",
        tolerance=1e-5,
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(VALUES), min_size=6, max_size=6),
    st.sampled_from(ORDERS),
    st.sampled_from([None, [0], [-1], [0, 1]]),
    st.booleans(),
)
def test_the_forms_agree_with_eager(values: list[float], order: float, dim: list[int] | None, keepdim: bool) -> None:
    x = torch.tensor(values).reshape(2, 3)
    expected = torch.linalg.vector_norm(x, order, dim, keepdim)
    assert_same(expected, norm.vector_norm(x, order, dim, keepdim), 1e-5)
    half = torch.linalg.vector_norm(x.half(), order, dim, keepdim)
    assert_same(half, norm.vector_norm(x.half(), order, dim, keepdim), 1e-3)
    if dim is not None:
        older = torch.ops.aten.norm.ScalarOpt_dim(x, order, dim, keepdim)
        assert_same(older, norm.norm_along_dimensions(x, order, dim, keepdim), 1e-5)
    assert_same(torch.ops.aten.norm.Scalar(x, order), norm.norm_of_all(x, order), 1e-5)
    assert_same(torch.linalg.vector_norm(x[0, 0], order), norm.vector_norm(x[0, 0], order), 1e-5)


def test_what_it_does_not_do_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="float64"):
        norm.vector_norm(X, dtype=torch.float64)
    with pytest.raises(lowerfix.Decline, match="no element"):
        norm.vector_norm(torch.zeros(0, 2), dim=[0])


def test_a_norm_that_is_taken_is_left_alone() -> None:
    program = export(lambda x: (torch.linalg.vector_norm(x, 2, dim=1), x.norm(1, dim=1)), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
