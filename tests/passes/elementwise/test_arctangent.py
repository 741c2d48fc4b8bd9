import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.arctangent import atan, atan2
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite, export

SPECIAL = torch.tensor(
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.0,
        3.4e38,
        -3.4e38,
        1.2e-38,
        1e-20,
        0.4142,
        2.4,
    ]
)
ROWS, COLUMNS = SPECIAL[:, None], SPECIAL[None, :]


@pytest.mark.slow
def test_every_quadrant_goes_whole_with_signed_zeros_and_infinities() -> None:
    check_rewrite(
        lambda y, x: (torch.atan2(y, x), torch.arctan2(y, x), torch.atan(y), torch.atan2(y, torch.ones_like(y))),
        (torch.randn(15, 1), torch.randn(1, 15)),
        target="tosa-fp",
        expect="arctangent",
        tolerance=1e-6,
        more_inputs=[(ROWS, COLUMNS)],
        lowered_tolerance=1e-6,
        lowered_inputs=[(ROWS, COLUMNS)],
    )


def test_the_backend_is_still_wrong_by_itself() -> None:
    x = torch.tensor([1.0, float("inf")])
    [result] = lowering.execute(lowering.lower(export(torch.atan, (x,)), "tosa-fp", compile=False), (x,))
    assert float((result - torch.atan(x))[0].abs()) > 1e-5, "atan is right upstream: retire the rewrite"
    assert bool(result[1].isnan())


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, allow_subnormal=False), st.floats(width=32, allow_subnormal=False))
def test_any_two_numbers(height: float, width: float) -> None:
    y, x = torch.tensor([height]), torch.tensor([width])
    torch.testing.assert_close(atan2(y, x), torch.atan2(y, x), rtol=5e-7, atol=1e-37, equal_nan=True)
    torch.testing.assert_close(atan(x), torch.atan(x), rtol=5e-7, atol=0, equal_nan=True)


def test_signs_of_zero() -> None:
    for y in (0.0, -0.0):
        for x in (0.0, -0.0, 1.0, -1.0):
            ours, theirs = (f(torch.tensor([y]), torch.tensor([x])) for f in (atan2, torch.atan2))
            torch.testing.assert_close(ours, theirs)
            assert torch.equal(ours.signbit(), theirs.signbit())


def test_types_and_shapes() -> None:
    a, b = torch.arange(-3, 4), torch.randn(2, 7)
    torch.testing.assert_close(atan2(a, b), torch.atan2(a, b))
    torch.testing.assert_close(atan2(a, a.flip(0)), torch.atan2(a, a.flip(0)))
    torch.testing.assert_close(atan2(b.half(), b.half()), torch.atan2(b.half(), b.half()))
    torch.testing.assert_close(atan2(b[0, 0], b[1, 1]), torch.atan2(b[0, 0], b[1, 1]))


def test_in_int8_it_is_made_of_tables() -> None:
    torch.manual_seed(0)  # two sizes below SMALLEST are beyond what it is for
    y, x = torch.randn(1000), torch.randn(1000)
    with computing_in_int8():
        torch.testing.assert_close(atan2(y, x), torch.atan2(y, x), rtol=0, atol=0.01)
        with pytest.raises(Decline, match="table"):
            atan(x)


def test_float64_is_declined() -> None:
    with pytest.raises(Decline, match="float64"):
        atan2(torch.rand(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64))
