import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lowerfix import Decline
from lowerfix.passes.masks.repeat_interleave import repeat_interleave, repeated_places
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite


@given(repeats=st.lists(st.integers(0, 4), min_size=1, max_size=5), dim=st.sampled_from([0, 1, -2, None]))
@settings(max_examples=50, deadline=None)
def test_equal_to_eager(repeats: list[int], dim: int | None) -> None:
    if sum(repeats) == 0:
        repeats[0] = 1
    times, size = torch.tensor(repeats), sum(repeats)
    count = len(repeats)
    x = torch.randn(count, count) if dim is not None else torch.randn(count)
    expected = torch.repeat_interleave(x, times, dim, output_size=size)
    assert_same(expected, repeat_interleave(x, times, dim, size))
    assert_same(torch.repeat_interleave(times, output_size=size), repeated_places(times, size))


def test_one_number_for_all_rows_and_a_single_element() -> None:
    x, two = torch.arange(3), torch.tensor([2])
    assert_same(torch.repeat_interleave(x, two, output_size=6), repeat_interleave(x, two, output_size=6))
    assert_same(torch.repeat_interleave(x[0], two, output_size=2), repeat_interleave(x[0], two, output_size=2))


def test_declines() -> None:
    x = torch.randn(3)
    with pytest.raises(Decline, match="give repeat_interleave the output_size"):
        repeat_interleave(x, torch.tensor([1, 2, 3]))
    with pytest.raises(Decline, match="nothing to repeat"):
        repeat_interleave(x, torch.tensor([0, 0, 0]), output_size=0)
    with pytest.raises(Decline, match="would be compared"):
        repeat_interleave(torch.randn(5000), torch.ones(5000, dtype=torch.int64), output_size=5000)


@pytest.mark.slow
def test_lowered_and_executed() -> None:
    def function(x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        return torch.repeat_interleave(x, times, dim=1, output_size=7)

    inputs = (torch.randn(2, 4), torch.tensor([1, 0, 4, 2], dtype=torch.int32))
    check_rewrite(
        function, inputs, target="vgf", expect="repeat-interleave", lowered_inputs=list(adversarial_inputs(inputs))
    )
