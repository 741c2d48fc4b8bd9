import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.elementwise import by_clamp as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite


def every_form(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    shrunk = F.hardsigmoid(x), F.softshrink(x), F.hardshrink(x), F.threshold(x, 0.1, 0.5), F.threshold(x, -0.1, 0)
    more = (
        F.hardshrink(x, -0.5),
        torch.sinc(x),
        torch.angle(x),
        torch.logit(x),
        torch.logit(x, 0.2),
        torch.sinc(x[0, 0]),
    )
    return *shrunk, *more, torch.clamp(x, min=y), torch.clamp(x, y, y + 1.0), torch.clamp(x, max=y)


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = torch.randn(2, 6), torch.randn(2, 6)
    trials = [(x, inputs[1]) for x, _ in adversarial_inputs(inputs)]
    check_rewrite(every_form, inputs, target="xnnpack", expect="by-clamp", tolerance=1e-6, lowered_inputs=trials)


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 3, width=32), st.floats(-3, 3, width=32), st.floats(-3, 3, width=32))
def test_every_threshold(limit: float, at: float, value: float) -> None:
    exact = torch.tensor([limit, -limit, at, value, 1e-45, -1e-45])
    x = torch.cat([torch.randn(30), exact, torch.nextafter(exact, torch.tensor(torch.inf))])
    for y in (x, *adversarial(x)):
        assert_same(F.hardshrink(y, limit), forms.hardshrink(y, limit))
        assert_same(F.hardshrink(y, -limit), forms.hardshrink(y, -limit))
        assert_same(torch.sinc(y), forms.sinc(y), 1e-6)
        assert_same(torch.angle(y), forms.angle(y))
        assert_same(torch.logit(y), forms.logit(y), 1e-6)
        assert_same(torch.logit(y, limit / 6), forms.logit(y, limit / 6), 1e-6)
        assert_same(F.softshrink(y, limit), forms.softshrink(y, limit))
        assert_same(F.threshold(y, at, value), forms.threshold(y, at, value))
        assert_same(F.hardsigmoid(y), forms.hardsigmoid(y), 1e-6)
        for low, high in ((x.flip(0), None), (None, x.flip(0)), (x.flip(0), x * 0.5)):
            assert_same(torch.clamp(y, low, high), forms.clamp(y, low, high))
        assert_same(torch.clamp_min(y, x.flip(0)), forms.clamp_min(y, x.flip(0)))
        assert_same(torch.clamp_max(y, x.flip(0)), forms.clamp_max(y, x.flip(0)))


def test_declines_say_why() -> None:
    x = torch.ones(2)
    with pytest.raises(Decline, match="infinite"):
        forms.threshold(x, float("inf"), 1.0)
    with pytest.raises(Decline, match="threshold is inf"):
        forms.hardshrink(x, float("inf"))
    with pytest.raises(Decline, match="is cut off at"):
        forms.logit(x, 0.7)
    with pytest.raises(Decline, match="int64"):
        forms.clamp(x, x.long())
    with pytest.raises(Decline, match="float16"):
        forms.hardsigmoid(x.half())
