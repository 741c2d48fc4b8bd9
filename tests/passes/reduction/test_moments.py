import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.reduction import moments
from lowerfix.testing import assert_same, check_rewrite, export

X = torch.randn(3, 4, 5)


def every_form(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x = x.clamp(-100, 100)  # float32 overflows where PyTorch adds up in float64
    return (*torch.var_mean(x), *torch.std_mean(x, 1), *torch.var_mean(x, (1, 2), correction=0, keepdim=True))


@pytest.mark.slow
def test_pairs_go_whole() -> None:
    check_rewrite(every_form, (X,), target="tosa-fp", expect="moments", tolerance=1e-4)


@pytest.mark.slow
def test_pairs_and_deviations_go_whole_in_int8() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.clamp(-100, 100)
        return (*torch.var_mean(x), *torch.std_mean(x, 1), x.std(1))

    check_rewrite(model, (X,), target="tosa-int", expect="moments", tolerance=1e-4)


@pytest.mark.slow
def test_too_few_elements_give_nan_or_infinity_as_in_eager() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.clamp(-100, 100)
        return x.var(1, correction=4), x[:, :1].var(1)

    trials = [(torch.ones_like(X),), (torch.full_like(X, float("nan")),)]
    check_rewrite(model, (X,), target="tosa-fp", expect="moments", tolerance=1e-4, lowered_inputs=trials)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([(3, 4, 5), (1, 2), (4,), (1,), ()]),
    st.sampled_from([None, [0], [-1]]),
    st.sampled_from([None, 0, 1, 2, 9, 0.5]),
    st.booleans(),
)
def test_the_forms_agree_with_eager(
    shape: tuple[int, ...], dim: list[int] | None, correction: float | None, keepdim: bool
) -> None:
    x = torch.randn(shape)
    kwargs = {"correction": correction, "keepdim": keepdim}
    assert_same(torch.var_mean(x, dim, **kwargs), list(moments.var_mean(x, dim, **kwargs)), 1e-5)
    assert_same(torch.std_mean(x, dim, **kwargs), list(moments.std_mean(x, dim, **kwargs)), 1e-5)
    assert_same(torch.var(x, dim, **kwargs), moments.var(x, dim, **kwargs), 1e-5)
    assert_same(torch.std(x, dim, **kwargs), moments.std(x, dim, **kwargs), 1e-5)
    for unbiased in (False, True):
        if dim is not None:
            both = torch.std_mean(x, dim, unbiased, keepdim)
            assert_same(list(both), list(moments.std_mean_along_dimensions(x, dim, unbiased, keepdim)), 1e-5)
            assert_same(torch.var(x, dim, unbiased), moments.var_along_dimensions(x, dim, unbiased), 1e-5)
            assert_same(torch.std(x, dim, unbiased), moments.std_along_dimensions(x, dim, unbiased), 1e-5)
            both = torch.var_mean(x, dim, unbiased, keepdim)
            assert_same(list(both), list(moments.var_mean_along_dimensions(x, dim, unbiased, keepdim)), 1e-5)
        assert_same(list(torch.var_mean(x, unbiased)), list(moments.var_mean_of_all(x, unbiased)), 1e-5)
        assert_same(list(torch.std_mean(x, unbiased)), list(moments.std_mean_of_all(x, unbiased)), 1e-5)
        assert_same(torch.var(x, unbiased), moments.var_of_all(x, unbiased), 1e-5)
        assert_same(torch.std(x, unbiased), moments.std_of_all(x, unbiased), 1e-5)


def test_what_it_does_not_do_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="complex64"):
        moments.var(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(lowerfix.Decline, match="no element"):
        moments.var(torch.zeros(0, 2), [0])


def test_a_variance_that_is_taken_is_left_alone() -> None:
    program = export(lambda x: (x.var(1), x.mean(1)), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
