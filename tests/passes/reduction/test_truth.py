import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.passes.reduction import truth
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

X = torch.randn(3, 4, 5).round()
VALUES = [0.0, -0.0, 1.0, -2.5, 0.3, float("nan"), float("inf"), -float("inf")]


def every_form(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.any(1),
        torch.any(x, (0, 1), keepdim=True),
        x.all(),
        x[0, 0, 0].any(),
    )


@pytest.mark.slow
def test_numbers_of_every_kind_are_true_or_false_as_in_eager() -> None:
    zeros = torch.zeros_like(X)
    holes = torch.ones_like(X)
    holes[1, 2, 3] = -0.0
    trials = [(zeros,), (holes,), *list(adversarial_inputs((X,)))[::6]]
    check_rewrite(every_form, (X,), target="tosa-fp", expect="truth", lowered_inputs=trials)


@pytest.mark.slow
def test_stock_lowering_is_still_wrong_about_a_number() -> None:
    x = torch.tensor(0.5)
    try:
        lowered = lowering.lower(export(lambda x: x.any(), (x,)), "tosa-fp", compile=False)
        right = torch.equal(lowering.execute(lowered, (x,))[0], x.any()) and not lowered.cpu_ops
    except Exception:  # the lowering dies on it, or the executed graph
        right = False
    assert not right, "upstream is right now: this rewrite can go"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(VALUES), min_size=6, max_size=6), st.sampled_from([0, 1, -1]), st.booleans())
def test_the_forms_agree_with_eager(values: list[float], dim: int, keepdim: bool) -> None:
    for x in (torch.tensor(values).reshape(2, 3), torch.tensor(values).reshape(2, 3).nan_to_num(0).to(torch.uint8)):
        assert_same(x.any(), truth.any_of_numbers(x))
        assert_same(x.all(), truth.all_of_numbers(x))
        assert_same(x.any(dim, keepdim), truth.any_along_a_dimension(x, dim, keepdim))
        assert_same(x.all(dim, keepdim), truth.all_along_a_dimension(x, dim, keepdim))
        for dims in (None, [], [dim], [0, 1]):
            assert_same(torch.ops.aten.any.dims(x, dims, keepdim), truth.any_along_dimensions(x, dims, keepdim))
            assert_same(torch.ops.aten.all.dims(x, dims, keepdim), truth.all_along_dimensions(x, dims, keepdim))


def test_a_tensor_without_dimensions_and_an_empty_one() -> None:
    for x in (torch.tensor(0.0), torch.tensor(float("nan")), torch.tensor(3)):
        assert_same(x.any(0), truth.any_along_a_dimension(x, 0))
        assert_same(x.all(), truth.all_of_numbers(x))
    assert_same(torch.zeros(0, 2).all(0), truth.all_along_a_dimension(torch.zeros(0, 2), 0))


def test_booleans_are_left_alone() -> None:
    program = export(lambda x: ((x > 0).any(1), (x > 0).all()), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)


@pytest.mark.parametrize(("x", "reason"), [(X > 0, "booleans"), (X.to(torch.complex64), "complex")])
def test_what_it_does_not_do_is_declined_with_its_reason(x: torch.Tensor, reason: str) -> None:
    with pytest.raises(lowerfix.Decline, match=reason):
        truth.any_of_numbers(x)
