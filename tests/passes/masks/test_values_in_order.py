import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lowerfix import Decline
from lowerfix.passes.masks.values_in_order import values_in_order
from lowerfix.testing import adversarial_inputs, check_rewrite


@given(
    mask=st.lists(st.booleans(), min_size=6, max_size=6).filter(lambda m: sum(m) >= 2),
    rank=st.sampled_from([1, 2]),
    dim=st.sampled_from([0, 1]),
    accumulate=st.booleans(),
    special=st.sampled_from([0.0, -0.0, float("nan"), float("inf")]),
)
@settings(max_examples=60, deadline=None)
def test_equal_to_eager(mask: list[bool], rank: int, dim: int, accumulate: bool, special: float) -> None:
    m = torch.tensor(mask) if rank == 1 else torch.tensor(mask).view(2, 3)
    x = torch.randn([2] * dim + list(m.shape) + [4])
    x.view(-1)[3] = special
    values = torch.randn([2] * dim + [sum(mask), 4])
    values.view(-1)[0] = special
    indices = [None] * dim + [m]
    expected = torch.ops.aten.index_put.default(x, indices, values, accumulate)
    torch.testing.assert_close(
        values_in_order(x, indices, values, accumulate), expected, rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize(
    ("mask", "values", "reason"),
    [
        (torch.ones(3, dtype=torch.bool), torch.randn(4), "the same value"),
        (torch.tensor([0, 1, 2]), torch.randn(3, 4), "not one Boolean mask"),
        (torch.ones(5000, dtype=torch.bool), torch.randn(5000, 4), "places to count"),
    ],
)
def test_declines(mask: torch.Tensor, values: torch.Tensor, reason: str) -> None:
    with pytest.raises(Decline, match=reason):
        values_in_order(torch.randn(len(mask), 4), [mask], values)


@pytest.mark.slow
def test_lowered_and_executed() -> None:
    def function(x: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.index_put((m,), v)

    inputs = (torch.randn(4, 3), torch.tensor([True, False, True, True]), torch.randn(3, 3))
    check_rewrite(
        function, inputs, target="vgf", expect="values-in-order", lowered_inputs=list(adversarial_inputs(inputs))
    )
