import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import log_add_exp_by_clamp as forms
from lowerfix.testing import adversarial, assert_same, check_rewrite

SPECIAL = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0, -1.0, 88.0, -100.0, 1e30])


def every_form(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return torch.logaddexp(x, y), torch.logaddexp2(x, y), torch.logaddexp(x[0, 0], y[0, 0]), torch.logaddexp2(x, y[0])


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = torch.randn(10, 10), torch.randn(10, 10)
    pairs = [tuple(t.reshape(10, 10) for t in torch.cartesian_prod(SPECIAL, SPECIAL).unbind(-1))]
    check_rewrite(
        every_form,
        inputs,
        target="xnnpack",
        expect="log-add-exp-by-clamp",
        more_inputs=pairs,
        lowered_inputs=pairs,
        tolerance=1e-6,
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_every_number(numbers: list[float]) -> None:
    x = torch.tensor(numbers)
    for y in (x, *adversarial(x)):
        for other in (y, y.flip(0), x * 0.5, SPECIAL.unsqueeze(1)):
            assert_same(torch.logaddexp(y, other), forms.logaddexp(y, other), 1e-6)
            assert_same(torch.logaddexp2(y, other), forms.logaddexp2(y, other), 1e-6)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="float64"):
        forms.logaddexp(torch.ones(2), torch.ones(2, dtype=torch.float64))
    with pytest.raises(Decline, match="float16"):
        forms.logaddexp2(torch.ones(2).half(), torch.ones(2))
