import pytest
import torch

import lowerfix
from lowerfix.passes.elementwise.where_with_numbers import where_else_number, where_numbers, where_then_number
from lowerfix.testing import check_rewrite, export


class ByHand(torch.nn.Module):
    """A step written by hand after a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return torch.where(y > 0, y, 0.25)


@pytest.mark.slow
def test_in_int8_it_is_one_delegate() -> None:
    checked = check_rewrite(ByHand(), (torch.randn(1, 4, 8),), target="ethos-u85", expect="where-with-numbers")
    assert checked.lowered.inner_quantize == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool])
@pytest.mark.parametrize("number", [2, 0.5, True, float("inf")])
def test_types_are_those_of_eager(dtype: torch.dtype, number: float) -> None:
    condition, x = torch.tensor([[True], [False]]), torch.tensor([0, 1, 1]).to(dtype)
    for ours, expected in (
        (where_else_number(condition, x, number), torch.where(condition, x, number)),
        (where_then_number(condition, number, x), torch.where(condition, number, x)),
        (where_numbers(condition, number, 3), torch.where(condition, number, 3)),
    ):
        assert ours.dtype == expected.dtype
        assert torch.equal(ours, expected)


def test_in_float_it_is_left_alone() -> None:
    program = export(lambda x: torch.where(x > 0, x, 0.25), (torch.randn(4),))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
