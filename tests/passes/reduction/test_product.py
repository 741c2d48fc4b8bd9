import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.reduction import product
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

X = torch.rand(3, 4, 5) + 0.5


def every_form(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x = x.clamp(-100, 100)  # PyTorch multiplies in float64
    return x[0].prod(), x.cumprod(1), x.cumprod(0)


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    trials = list(adversarial_inputs((X,)))[:2]
    check_rewrite(every_form, (X,), target="tosa-fp", expect="product", tolerance=1e-4, lowered_inputs=trials)


@pytest.mark.slow
def test_in_int8_they_are_annotated() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.clamp(-100, 100)[:2].prod(1), x.clamp(-100, 100).cumprod(1)

    check_rewrite(model, (X,), target="tosa-int", expect="product", tolerance=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.sampled_from([0, 1, -1]), st.booleans(), st.integers(0, 2))
def test_the_forms_agree_with_eager(size: int, dim: int, keepdim: bool, zeros: int) -> None:
    x = torch.randn(3, size, 2)
    x.view(-1)[:zeros] = 0
    assert_same(x.cumprod(dim), product.cumprod(x, dim), 1e-5)
    assert_same(x.prod(dim, keepdim), product.prod_by_halves(x, dim, keepdim), 1e-5)
    assert_same(x.prod(), product.prod_of_all(x), 1e-5)
    assert_same(x.prod(), product.prod_of_all_by_halves(x), 1e-5)
    assert_same(x.half().cumprod(dim, dtype=torch.float32), product.cumprod(x.half(), dim, dtype=torch.float32), 1e-5)


def test_a_tensor_without_dimensions() -> None:
    for x in (torch.tensor(2.5), torch.tensor(float("nan")), torch.tensor(-0.0)):
        assert_same(x.prod(), product.prod_of_all_by_halves(x))
        assert_same(x.prod(0), product.prod_by_halves(x, 0))
        assert_same(x.cumprod(0), product.cumprod(x, 0))


def test_what_it_does_not_do_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="129 elements"):
        product.cumprod(torch.ones(129), 0)
    with pytest.raises(lowerfix.Decline, match="int64"):
        product.prod_of_all(torch.arange(3))
    with pytest.raises(lowerfix.Decline, match="0 elements"):
        product.prod_by_halves(torch.ones(0, 2), 0)


def test_a_product_that_is_taken_is_left_alone() -> None:
    program = export(lambda x: (x.prod(1), x.cumsum(1)), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
