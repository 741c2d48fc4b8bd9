import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix import lowering
from lowerfix.passes.elementwise.log_add_exp import logaddexp, logaddexp2
from lowerfix.testing import check_rewrite, export

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1e30, -100.0, 88.0])


def test_base_2_goes_whole() -> None:
    check_rewrite(
        torch.logaddexp2,
        (torch.randn(7, 1), torch.randn(1, 7)),
        target="tosa-fp",
        expect="log-add-exp",
        tolerance=1e-6,
        lowered_tolerance=1e-6,
        lowered_inputs=[(SPECIAL[:, None], SPECIAL[None, :])],
    )


def test_without_dimensions_it_is_valid_tosa() -> None:
    check_rewrite(
        torch.logaddexp, (torch.tensor(0.5), torch.tensor(-1.5)), target="tosa-fp", expect="log-add-exp", tolerance=1e-6
    )


def test_stock_lowering_without_dimensions_is_not_valid_tosa() -> None:
    """When this fails, upstream is right, and ``logaddexp_of_ranks`` can go."""
    inputs = (torch.tensor(0.5), torch.tensor(-1.5))
    lowered = lowering.lower(export(torch.logaddexp, inputs), "tosa-fp", compile=False)
    assert not lowered.cpu_ops
    with pytest.raises(Exception, match="Invalid TOSA graph"):
        lowering.execute(lowered, inputs)


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32), st.floats(width=32))
def test_any_two_numbers(a: float, b: float) -> None:
    x, y = torch.tensor([a]), torch.tensor([b])
    torch.testing.assert_close(logaddexp(x, y), torch.logaddexp(x, y), rtol=1e-6, atol=2e-7, equal_nan=True)
    torch.testing.assert_close(logaddexp2(x, y), torch.logaddexp2(x, y), rtol=1e-6, atol=2e-7, equal_nan=True)


def test_half_types() -> None:
    x, y = torch.randn(9).half(), torch.randn(9).half()
    torch.testing.assert_close(logaddexp(x, y), torch.logaddexp(x, y))
