import torch
import torch.nn.functional as F

import lowerfix
from lowerfix.testing import check_rewrite, export


class Skip(torch.nn.Module):
    """Two activations, and what has another range, side by side."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Conv2d(2, 2, 1), torch.nn.Conv2d(2, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, F.relu6(self.first(x)), F.relu(self.second(x))], 3)


def test_in_int8_it_is_one_delegate() -> None:
    checked = check_rewrite(Skip(), (torch.randn(1, 2, 4, 4),), target="ethos-u55", expect="clamp-before-cat")
    assert checked.lowered.inner_quantize == 0


def test_what_is_fused_and_what_is_in_float_is_left_alone() -> None:
    layer = torch.nn.Conv2d(2, 2, 1)
    for function, target in ((lambda x: F.relu6(layer(x)), "ethos-u55"), (Skip(), "vgf")):
        program = export(function, (torch.randn(1, 2, 4, 4),))
        result = lowerfix.apply(program, target=target, only="clamp-before-cat")
        assert str(result.graph) == str(program.graph)
