import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.square_root import power_of_half, sqrt
from lowerfix.testing import check_rewrite, export

INFINITY, NAN = float("inf"), float("nan")
SPECIAL = torch.tensor([NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0, 3.4e38, 2e-38, 2.0, -4.0])


def test_every_number_is_right_on_the_reference_model() -> None:
    check_rewrite(
        lambda x: (torch.sqrt(x), x**0.5, x**-0.5),
        (torch.rand(11) + 1,),
        target="tosa-fp",
        expect="square-root",
        tolerance=1e-6,
        lowered_inputs=[(SPECIAL,)],
    )


def test_the_sign_of_a_zero_is_kept() -> None:
    program = lowerfix.apply(export(torch.sqrt, (SPECIAL,)), target="tosa-fp")
    result = lowering.execute(lowering.lower(program, "tosa-fp", compile=False), (SPECIAL,))[0]
    assert torch.equal(torch.signbit(result[3:5]), torch.tensor([False, True]))


def test_another_backend_is_left_alone() -> None:
    program = lowerfix.apply(export(torch.sqrt, (SPECIAL,)), target="xnnpack")  # which has a square root
    assert [node.target for node in program.graph.nodes if node.op == "call_function"] == [torch.ops.aten.sqrt.default]


def test_the_backend_is_still_wrong_by_itself() -> None:
    lowered = lowering.lower(export(torch.sqrt, (SPECIAL,)), "tosa-fp", compile=False)
    with pytest.raises(AssertionError, match="Non-valid TOSA"):  # retire the rewrite once this is right upstream
        lowering.execute(lowered, (SPECIAL,))


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, allow_subnormal=False))
def test_any_number(value: float) -> None:
    x = torch.tensor([value])
    torch.testing.assert_close(sqrt(x), torch.sqrt(x), rtol=3e-7, atol=0, equal_nan=True)
    for exponent in (0.5, -0.5):
        torch.testing.assert_close(power_of_half(x, exponent), x**exponent, rtol=3e-7, atol=0, equal_nan=True)


def test_types() -> None:
    for x in (torch.arange(5), torch.rand(3).half(), torch.rand(3).bfloat16()):
        torch.testing.assert_close(sqrt(x), torch.sqrt(x))


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="no square root"):
        power_of_half(SPECIAL, 1.5)
    with pytest.raises(Decline, match="float64"):
        sqrt(torch.rand(3, dtype=torch.float64))
