import pytest
import torch
from torch import Tensor

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.elementwise import float_numbers as forms
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export


def every_form(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    numbers = x * 2, 1 - x, x + 1, x - 1, x / 2, torch.rsub(x, 3, alpha=2)
    factors = torch.add(x, y, alpha=2), torch.sub(x, y, alpha=0.5), torch.rsub(x, y, alpha=2)
    whole = torch.arange(6)
    integers = x * whole, x / (whole + 1), whole - x, torch.add(whole, x, alpha=2), torch.add(x, whole, alpha=3)
    return (
        *numbers,
        *factors,
        *integers,
        torch.addcmul(x, x, y, value=2),
        torch.addcdiv(x, x, y, value=3),
        torch.lerp(x, y, 0.3),
    )


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = torch.randn(2, 6), torch.randn(2, 6)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(every_form, inputs, target="xnnpack", expect="float-numbers", tolerance=1e-6, lowered_inputs=trials)


@pytest.mark.parametrize("name", ["add", "sub", "rsub", "mul", "div"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_numbers_and_factors(name: str, dtype: torch.dtype) -> None:
    x, y = torch.randn(2, 3).to(dtype), torch.randn(3).to(dtype)
    ours, theirs = getattr(forms, name), getattr(torch, name)
    for number in (3, -1, 0.5):
        assert_same(theirs(x, number), ours(x, number), 1e-3)
        if name not in ("mul", "div"):
            assert_same(theirs(x, y, alpha=number), ours(x, y, alpha=number), 1e-3)
            assert_same(theirs(x, 2, alpha=number), ours(x, 2, alpha=number), 1e-3)


def test_a_number_may_come_first_as_decompositions_write_it() -> None:
    x = torch.randn(2, 3)
    assert_same(1 - x, forms.sub(1, x))
    assert_same(2 + x, forms.add(2, x))
    assert_same(2 * x, forms.mul(2, x))
    assert_same(3 / x, forms.div(3, x), 1e-6)


def test_what_is_computed_of_integers_is_left_alone() -> None:
    x, y = torch.randn(2, 3), torch.arange(3)
    for form in (forms.add, forms.sub, forms.mul, forms.div):
        with pytest.raises(Decline, match="float32 and"):
            form(x, y)
        with pytest.raises(Decline, match="int64"):
            form(y, x)


def test_between_two_ends() -> None:
    x, y = torch.randn(2, 3), torch.randn(3)
    for weight in (0, 0.3, 0.5, 1, 2.5):
        assert_same(torch.lerp(x, y, weight), forms.lerp(x, y, weight), 1e-6)


def test_integers_are_left_alone() -> None:
    program = export(lambda n, x: (n * 2 + 1, x * 2.5), (torch.arange(6), torch.randn(6)))
    assert str(lowerfix.apply(program, target="xnnpack").graph) == str(program.graph)


def test_declines_say_why() -> None:
    x = torch.ones(2)
    with pytest.raises(Decline, match="no float"):
        forms.add(x.long(), 1)
    with pytest.raises(Decline, match="int64"):
        forms.add(x, x.long())
    with pytest.raises(Decline, match="no number"):
        forms.mul(x, x)
