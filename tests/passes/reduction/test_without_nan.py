import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.reduction.without_nan import nanmean, nansum
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

X = torch.randn(3, 4, 5)
VALUES = [0.0, -0.0, 1.0, -2.5, 0.3, float("nan"), float("inf"), -float("inf")]


def test_every_form_goes_whole_and_leaves_nan_out() -> None:
    check_rewrite(
        lambda x: (x.nansum(1, keepdim=True), x.nansum(), x.nanmean(1)),
        (X,),
        target="tosa-fp",
        expect="without-nan",
        tolerance=1e-5,
        lowered_inputs=list(adversarial_inputs((X,)))[:4],
    )


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from(VALUES), min_size=6, max_size=6),
    st.sampled_from([None, [0], [-1], [0, 1], []]),
    st.booleans(),
)
def test_the_forms_agree_with_eager(values: list[float], dim: list[int] | None, keepdim: bool) -> None:
    x = torch.tensor(values).reshape(2, 3)
    assert_same(x.nansum(dim, keepdim), nansum(x, dim, keepdim), 1e-6)
    assert_same(x.nanmean(dim, keepdim), nanmean(x, dim, keepdim), 1e-6)
    assert_same(x.half().nansum(dim, keepdim), nansum(x.half(), dim, keepdim), 1e-3)
    assert_same(x[0, 0].nansum(), nansum(x[0, 0]))
    assert_same(x[0, 0].nanmean(0, True), nanmean(x[0, 0], [0], True))


def test_what_it_does_not_do_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="no NaN"):
        nansum(torch.arange(4))
    with pytest.raises(lowerfix.Decline, match="float64"):
        nanmean(X, dtype=torch.float64)


def test_sum_and_mean_are_left_alone() -> None:
    program = export(lambda x: (x.sum(1), x.mean(1)), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
