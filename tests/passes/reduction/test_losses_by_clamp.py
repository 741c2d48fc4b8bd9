import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.reduction import losses_by_clamp as forms
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite

REDUCTIONS = ("none", "mean", "sum")


def every_form(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    smooth = [F.smooth_l1_loss(x, y, reduction=reduction, beta=0.7) for reduction in REDUCTIONS]
    huber = [F.huber_loss(x, y, reduction=reduction, delta=1.3) for reduction in REDUCTIONS]
    counts = [F.poisson_nll_loss(x, y * 3, log, full) for log in (True, False) for full in (True, False)]
    return *smooth, *huber, *counts, F.smooth_l1_loss(x, y, beta=0.0), F.huber_loss(x[0, 0], y[0, 0])


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    inputs = torch.randn(2, 6), torch.randn(2, 6)
    trials = [trial for trial in adversarial_inputs(inputs) if trial[0].abs().nan_to_num(0, 0).max() < 1e30]
    check_rewrite(every_form, inputs, target="xnnpack", expect="losses-by-clamp", tolerance=1e-6, lowered_inputs=trials)


@settings(max_examples=50, deadline=None)
@given(st.floats(0.0625, 100, width=32), st.sampled_from(range(3)))
def test_every_width(width: float, reduction: int) -> None:
    x = torch.randn(30) * width * 3
    for y in (x, *adversarial(x)):
        for other in (x.flip(0), y - width, y + width, y):
            expected = F.smooth_l1_loss(y, other, reduction=REDUCTIONS[reduction], beta=width)
            assert_same(expected, forms.smooth_l1_loss(y, other, reduction, width), 1e-5)
            expected = F.huber_loss(y, other, reduction=REDUCTIONS[reduction], delta=width)
            assert_same(expected, forms.huber_loss(y, other, reduction, width), 1e-5)


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("full", [True, False])
def test_every_count(log: bool, full: bool) -> None:
    x, y = torch.rand(30) * 5, torch.rand(30) * 5
    y[:3] = torch.tensor([0.0, 1.0, 2.0])
    aten = torch.ops.aten.poisson_nll_loss.default
    for reduction in range(3):
        for one, other in [(x, y), *((z, y) for z in adversarial(x)), *((x, z) for z in adversarial(y))]:
            assert_same(
                aten(one, other, log, full, 1e-8, reduction),
                forms.poisson_nll_loss(one, other, log, full, 1e-8, reduction),
                1e-5,
            )


def test_declines_say_why() -> None:
    x = torch.ones(2)
    with pytest.raises(Decline, match="beta is nan"):
        forms.smooth_l1_loss(x, x, beta=float("nan"))
    with pytest.raises(Decline, match="delta is 0"):
        forms.huber_loss(x, x, delta=0)
    with pytest.raises(Decline, match="float64"):
        forms.huber_loss(x.double(), x)
