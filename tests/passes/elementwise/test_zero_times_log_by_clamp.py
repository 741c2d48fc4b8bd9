import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import zero_times_log_by_clamp as forms
from lowerfix.testing import adversarial, assert_same, check_rewrite

SPECIAL = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e30])


def every_form(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    numbers = torch.xlogy(x, 2.0), torch.xlogy(3.0, y), torch.special.xlog1py(x, 0), torch.special.xlog1py(-1, y)
    tensors = torch.xlogy(x, y), torch.special.xlog1py(x, y), torch.special.entr(x), torch.xlogy(x[0, 0], y[0, 0])
    return *numbers, *tensors


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = torch.randn(10, 10), torch.rand(10, 10)
    pairs = [tuple(t.reshape(10, 10) for t in torch.cartesian_prod(SPECIAL, SPECIAL).unbind(-1))]
    check_rewrite(
        every_form,
        inputs,
        target="xnnpack",
        expect="zero-times-log-by-clamp",
        more_inputs=pairs,
        lowered_inputs=pairs,
        tolerance=1e-6,
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_every_number(numbers: list[float]) -> None:
    x = torch.tensor(numbers)
    for y in (x, *adversarial(x)):
        assert_same(torch.special.entr(y), forms.entr(y), 1e-6)
        for other in (y, y.flip(0), x * 0.5, SPECIAL.unsqueeze(1)):
            assert_same(torch.xlogy(y, other), forms.xlogy(y, other), 1e-6)
            assert_same(torch.special.xlog1py(y, other), forms.xlog1py(y, other), 1e-6)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="float64"):
        forms.xlogy(torch.ones(2), torch.ones(2, dtype=torch.float64))
    with pytest.raises(Decline, match="complex"):
        forms.xlog1py(1j, torch.ones(2))  # type: ignore[arg-type]
    with pytest.raises(Decline, match="int64"):
        forms.entr(torch.ones(2, dtype=torch.int64))
