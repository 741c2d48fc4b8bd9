import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.log1p import log1p_by_log, log1p_corrected
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite, export

SPECIAL = torch.tensor(
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        -2.0,
        -1.0,
        -0.9999999,
        -0.9,
        -0.3,
        -1e-6,
        -0.0,
        1e-30,
        1e-7,
        2e-3,
        3e38,
    ]
)


@pytest.mark.slow
def test_it_holds_below_zero_and_for_small_numbers() -> None:
    check_rewrite(
        lambda x: (torch.log1p(x), torch.special.log1p(x)),
        (torch.linspace(-0.99, 3, 14),),
        target="tosa-fp",
        expect="log1p",
        tolerance=1e-6,
        lowered_tolerance=1e-6,
        lowered_inputs=[(SPECIAL,)],
    )


def test_the_backend_is_still_wrong_by_itself() -> None:
    x = torch.tensor([-0.9, -2.0])
    lowered = lowering.lower(export(torch.log1p, (x,)), "tosa-fp", compile=False)
    [result] = lowering.execute(lowered, (x,))
    assert float((result - torch.log1p(x))[0].abs()) > 0.1, "log1p is right upstream: retire the pass"
    assert not result[1].isnan()


@settings(max_examples=100, deadline=None)
@given(st.floats(width=32))
def test_any_number(value: float) -> None:
    x = torch.tensor([value])
    torch.testing.assert_close(log1p_by_log(x), torch.log1p(x), rtol=5e-7, atol=1e-45, equal_nan=True)


def test_integers_and_half_types() -> None:
    torch.testing.assert_close(log1p_by_log(torch.arange(-1, 4)), torch.log1p(torch.arange(-1, 4)))
    for dtype in (torch.float16, torch.bfloat16):
        x = SPECIAL.to(dtype)
        torch.testing.assert_close(log1p_by_log(x), torch.log1p(x), equal_nan=True)


def test_the_table_of_an_npu_is_left_alone() -> None:
    with computing_in_int8(), pytest.raises(Decline, match="table"):
        log1p_corrected(torch.rand(3))
