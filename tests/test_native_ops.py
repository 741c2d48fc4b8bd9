"""What a backend takes as it is stays as it is."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lowerfix
from lowerfix.testing import export

IMAGE, SIGNAL = torch.randn(1, 4, 6, 6), torch.randn(1, 4, 8)


class Several(nn.Module):
    def __init__(self, *layers: nn.Module | Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.modules_ = nn.ModuleList([layer for layer in layers if isinstance(layer, nn.Module)])
        self.functions = [layer for layer in layers if not isinstance(layer, nn.Module)]

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return *(module(x) for module in self.modules_), *(function(x) for function in self.functions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "x"),
    [
        (Several(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.PReLU(4), nn.BatchNorm2d(4), nn.Hardswish()), IMAGE),
        (Several(nn.ConvTranspose1d(4, 4, 3, stride=2), nn.Conv1d(4, 4, 3), nn.Linear(8, 8), nn.Softmax(-1)), SIGNAL),
        (Several(F.gelu, F.silu, F.leaky_relu, torch.exp, torch.sqrt, lambda x: x * 2.0, lambda x: x**2), SIGNAL),
    ],
    ids=["images", "signals", "functions"],
)
def test_xnnpack_keeps_what_it_takes(model: nn.Module, x: Tensor) -> None:
    program = export(model, (x,))
    assert str(lowerfix.apply(program, target="xnnpack").graph) == str(program.graph)
