from collections.abc import Callable

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.not_finite import isinf, isnan, nan_to_num
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite, export

NUMBERS = st.none() | st.floats(width=32)


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3.4028234663852886e38])
    check_rewrite(
        lambda x: (
            x.isnan(), x.isinf(), x.nan_to_num(), x.nan_to_num(1.0, 2.0, -3.0), x.nan_to_num(posinf=5.0)
        ),
        (torch.randn(6),),
        target="tosa-fp",
        expect="not-finite",
        lowered_inputs=[(special,)],
    )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32), NUMBERS, NUMBERS, NUMBERS)
def test_any_number(value: float, nan: float | None, high: float | None, low: float | None) -> None:
    x = torch.tensor([value])
    assert torch.equal(isnan(x), torch.isnan(x))
    assert torch.equal(isinf(x), torch.isinf(x))
    ours, theirs = nan_to_num(x, nan, high, low), torch.nan_to_num(x, nan, high, low)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_types() -> None:
    for x in (torch.arange(3), torch.tensor([1.0, float("inf"), float("nan")]).half()):
        assert torch.equal(nan_to_num(x), torch.nan_to_num(x))
        assert torch.equal(isinf(x), torch.isinf(x))
    with pytest.raises(Decline, match="complex"):
        isinf(torch.rand(3, dtype=torch.complex64))


@pytest.mark.parametrize("function", [isnan, isinf, nan_to_num])
def test_in_int8_they_are_left_alone(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with computing_in_int8(), pytest.raises(Decline, match="lost before they are found"):
        function(torch.rand(3))


def test_isfinite_is_left_alone() -> None:
    program = export(torch.isfinite, (torch.rand(4),))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
