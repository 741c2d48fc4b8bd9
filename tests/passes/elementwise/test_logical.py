import pytest
import torch

from lowerfix.errors import Decline
from lowerfix.passes.elementwise.logical import logical_and, logical_not, logical_or, logical_xor
from lowerfix.testing import check_rewrite

PAIRS = (
    (logical_and, torch.logical_and),
    (logical_or, torch.logical_or),
    (logical_xor, torch.logical_xor),
)


def test_of_floats_they_go_whole() -> None:
    values = torch.tensor([float("nan"), 0.0, -0.0, 1.0, -float("inf")])
    check_rewrite(
        lambda x, y: (torch.logical_xor(x, y > 0), torch.logical_not(x)),
        (torch.randn(5, 1), torch.randn(1, 5).round()),
        target="tosa-fp",
        expect="logical",
        lowered_inputs=[(values[:, None], values[None, :])],
    )


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float64])
def test_any_type(dtype: torch.dtype) -> None:
    x, y = torch.tensor([0, 1, 2, 0]).to(dtype), torch.tensor([0.0, float("nan"), 0.0, -1.0])
    for ours, theirs in PAIRS:
        assert torch.equal(ours(x, y), theirs(x, y))
    if dtype != torch.bool:
        assert torch.equal(logical_not(x), torch.logical_not(x))


def test_boolean_ones_are_declined() -> None:
    with pytest.raises(Decline, match="Boolean already"):
        logical_not(torch.ones(3, dtype=torch.bool))
    with pytest.raises(Decline, match="Boolean already"):
        logical_or(torch.ones(3, dtype=torch.bool), torch.ones(3, dtype=torch.bool))
