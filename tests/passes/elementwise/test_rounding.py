import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.rounding import round_decimals, round_ties_to_even
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite, export

TIES = torch.tensor(
    [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 0.5, 1.5, -2.5, 3.5, 0.49999997, 8388609.0, 4194304.5, -0.3]
)


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    check_rewrite(
        lambda x: (torch.round(x), torch.round(x, decimals=2), torch.round(x, decimals=-1), torch.round(x, decimals=0)),
        (torch.randn(13) * 5,),
        target="tosa-fp",
        expect="rounding",
        tolerance=1e-6,
        lowered_inputs=[(TIES,), (TIES * 10,)],
    )


def test_the_backend_is_still_wrong_by_itself() -> None:
    x = torch.tensor([2.5, 0.49999997])
    lowered = lowering.lower(export(torch.round, (x,)), "tosa-fp", compile=False)
    [result] = lowering.execute(lowered, (x,))
    assert result.tolist() == [3.0, 1.0], "round is right upstream: retire the pass"


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32) | st.integers(-1000, 1000).map(lambda n: n / 2), st.sampled_from([-3, -1, 0, 1, 2, 5]))
def test_any_number(value: float, decimals: int) -> None:
    x = torch.tensor([value])
    expected, actual = torch.round(x), round_ties_to_even(x)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(actual.signbit(), expected.signbit()) or bool(x.isnan())
    expected, actual = torch.round(x, decimals=decimals), round_decimals(x, decimals=decimals)
    torch.testing.assert_close(actual, expected, rtol=2e-7, atol=0, equal_nan=True)


def test_half_types_and_integers() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.tensor([0.5, 1.5, -2.5, 3.3]).to(dtype)
        assert torch.equal(round_ties_to_even(x), torch.round(x))
    assert torch.equal(round_decimals(torch.arange(3), decimals=0), torch.arange(3))


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="12 decimals"):
        round_decimals(TIES, decimals=12)
    with pytest.raises(Decline, match="integers are round"):
        round_ties_to_even(torch.arange(3))
    with computing_in_int8(), pytest.raises(Decline, match="table"):
        round_ties_to_even(TIES)
