import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.reduction.logcumsumexp import logcumsumexp
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

X = torch.randn(3, 4, 5)
VALUES = [0.0, -0.0, 1.5, -200.0, 90.0, 3e38, -3e38, float("nan"), float("inf"), -float("inf")]


@pytest.mark.slow
def test_it_goes_whole_with_infinities_and_nan_as_in_eager() -> None:
    check_rewrite(
        lambda x: (x.logcumsumexp(1), x.logcumsumexp(-1)),
        (X,),
        target="tosa-fp",
        expect="logcumsumexp",
        tolerance=1e-5,
        lowered_inputs=list(adversarial_inputs((X * 30,)))[::4],
    )


@pytest.mark.slow
def test_in_int8_it_is_one_delegate() -> None:
    check_rewrite(lambda x: x.logcumsumexp(1), (X,), target="tosa-int", expect="logcumsumexp", tolerance=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(VALUES), min_size=6, max_size=6), st.sampled_from([0, 1, -1]))
def test_the_formula_agrees_with_eager(values: list[float], dim: int) -> None:
    x = torch.tensor(values).reshape(2, 3)
    assert_same(x.logcumsumexp(dim), logcumsumexp(x, dim), 1e-5)
    assert_same(x.bfloat16().logcumsumexp(dim), logcumsumexp(x.bfloat16(), dim), 2e-2)
    assert_same(x[0, 0].logcumsumexp(0), logcumsumexp(x[0, 0], 0))


def test_what_it_does_not_do_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="would hold"):
        logcumsumexp(torch.zeros(1).expand(4096), 0)
    with pytest.raises(lowerfix.Decline, match="int64"):
        logcumsumexp(torch.arange(3), 0)


def test_logsumexp_is_left_alone() -> None:
    program = export(lambda x: x.logsumexp(1), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
