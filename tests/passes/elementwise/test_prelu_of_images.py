import pytest
import torch
from torch import Tensor, nn

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.prelu_of_images import prelu
from lowerfix.testing import adversarial, adversarial_inputs, assert_same, check_rewrite, export


class Activations(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.each = nn.PReLU(), nn.PReLU(6)
        self.each.weight.data.normal_()

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.one(x), self.each(x), self.each(x[:, :, 0] + 1.0), self.each(x.reshape(1, 6, 2, 2, 2))


@pytest.mark.slow
def test_xnnpack_takes_any_rank() -> None:
    inputs = (torch.randn(1, 6, 8),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(Activations(), inputs, target="xnnpack", expect="prelu-of-images", lowered_inputs=trials)


def test_an_image_stays_as_it_is() -> None:
    program = export(nn.PReLU(6), (torch.randn(1, 6, 4, 4),))
    assert str(lowerfix.apply(program, target="xnnpack").graph) == str(program.graph)
    with pytest.raises(Decline, match="image"):
        prelu(torch.ones(1, 2, 3, 4), torch.ones(2))


def test_every_rank() -> None:
    for shape in ((), (5,), (2, 3), (2, 3, 4), (2, 3, 2, 2, 2)):
        x = torch.randn(shape)
        for y in (x, *adversarial(x)):
            assert_same(torch.prelu(y, torch.tensor([0.3])), prelu(y, torch.tensor([0.3])))
            if len(shape) > 1:
                assert_same(torch.prelu(y, torch.arange(3.0)), prelu(y, torch.arange(3.0)))
