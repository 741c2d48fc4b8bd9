import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.reduction import cross_entropy_of_probabilities as forms
from lowerfix.testing import assert_same, export

aten = torch.ops.aten

P = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.5, 1e-30, 1e-7, 0.999])
Y = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.3, 1.0, 0.2, 0.9])


def every_form(p: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    losses = [F.binary_cross_entropy(p, y, reduction=reduction) for reduction in ("none", "mean", "sum")]
    return *losses, F.binary_cross_entropy(p, y, weight), F.binary_cross_entropy(p[0], y[0])


def beyond(p: Tensor, y: Tensor) -> Tensor:
    """Without PyTorch's check of its values on the CPU."""
    return -(y * torch.log(p).clamp(min=-100) + (1 - y) * torch.log1p(-p).clamp(min=-100))


@pytest.mark.slow
def test_xnnpack_takes_every_form() -> None:
    """Not by ``check_rewrite``: PyTorch raises an error for what is no probability."""
    inputs = torch.rand(8), torch.rand(8), torch.rand(8)
    program = lowerfix.apply(export(every_form, inputs), target="xnnpack")
    lowered = lowering.lower(program, "xnnpack", compile=False)
    assert not lowered.cpu_ops
    for trial in (inputs, (P, Y, inputs[2])):
        assert_same(list(every_form(*trial)), list(lowering.execute(lowered, trial)), 1e-5)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_every_reduction(reduction: int) -> None:
    weight = torch.rand(8)
    for p, y, w in ((P, Y, None), (P, Y, weight), (P.reshape(2, 4), Y.reshape(2, 4), None), (P[0], Y[0], None)):
        expected = aten.binary_cross_entropy.default(p, y, w, reduction)
        assert_same(expected, forms.binary_cross_entropy(p, y, w, reduction), 1e-6)


def test_numbers_that_are_no_probabilities() -> None:
    p = torch.tensor([torch.nan, -1.0, 2.0, torch.inf, -torch.inf])
    assert_same(beyond(p, Y[:5]), forms.binary_cross_entropy(p, Y[:5], None, 0), 1e-6)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="float64"):
        forms.binary_cross_entropy(P.double(), Y)
    with pytest.raises(Decline, match="float16"):
        forms.binary_cross_entropy(P, Y, Y.half())
