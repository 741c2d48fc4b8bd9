import pytest
import torch
import torch.nn.functional as F

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.gelu_by_tanh import gelu
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite, export


def by_tanh(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


@pytest.mark.slow
def test_xnnpack_computes_it_in_this_form() -> None:
    inputs = (torch.randn(2, 6),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(by_tanh, inputs, target="xnnpack", expect="gelu-by-tanh", tolerance=1e-6, lowered_inputs=trials)


@pytest.mark.slow
def test_xnnpack_itself_computes_the_exact_form() -> None:
    """Fails once it does not: the rewrite may go then."""
    x = torch.linspace(-3, 3, 64)
    [result] = lowering.execute(lowering.lower(export(by_tanh, (x,)), "xnnpack", compile=False), [x])
    assert_same(F.gelu(x), result, 1e-5)
    assert (result - by_tanh(x)).abs().max() > 1e-4


def test_pytorch_s_numbers() -> None:
    x = torch.linspace(-10, 10, 1000)
    for y in (x, *adversarial(x)):
        assert_same(by_tanh(y), gelu(y, approximate="tanh"), 1e-6)


def test_backends_that_are_right_keep_it_and_so_does_the_exact_form() -> None:
    for model, target in ((by_tanh, "tosa-fp"), (F.gelu, "xnnpack")):
        program = export(model, (torch.randn(2, 6),))
        assert str(lowerfix.apply(program, target=target).graph) == str(program.graph)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="exact form"):
        gelu(torch.ones(2))
    with pytest.raises(Decline, match="float16"):
        gelu(torch.ones(2).half(), approximate="tanh")
