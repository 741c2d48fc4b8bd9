import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.sign import copysign, copysign_of_number, sign, signbit
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite, export

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 3.4e38, -1.2e-38])


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    check_rewrite(
        lambda x, y: (torch.sign(x), torch.sgn(x), torch.signbit(x), torch.copysign(x, y), torch.copysign(x, -2.0)),
        (torch.randn(9, 1), torch.randn(1, 9)),
        target="tosa-fp",
        expect="sign",
        lowered_inputs=[(SPECIAL[:, None], SPECIAL[None, :])],
    )


def test_the_backend_is_still_wrong_by_itself() -> None:
    x = torch.tensor([float("inf"), 2.0])
    [result] = lowering.execute(lowering.lower(export(torch.sign, (x,)), "tosa-fp", compile=False), (x,))
    assert bool(result[0].isnan()), "sign is right upstream: retire the rewrite"


@settings(max_examples=100, deadline=None)
@given(st.floats(width=32), st.floats(width=32, allow_nan=False))
def test_any_two_numbers(size: float, other: float) -> None:
    x, y = torch.tensor([size]), torch.tensor([other])
    torch.testing.assert_close(copysign(x, y), torch.copysign(x, y), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(copysign_of_number(x, other), torch.copysign(x, other), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(signbit(y), torch.signbit(y))
    assert torch.equal(sign(x), torch.sign(x))


def test_types() -> None:
    n = torch.arange(-2, 3)
    assert torch.equal(signbit(n), torch.signbit(n))
    assert torch.equal(copysign(n, torch.tensor(-1.0)), torch.copysign(n, torch.tensor(-1.0)))
    assert torch.equal(copysign_of_number(n, -0.0), torch.copysign(n, -0.0))
    assert torch.equal(copysign(SPECIAL.half()[3:7], n[:4]), torch.copysign(SPECIAL.half()[3:7], n[:4]))


def test_in_int8_and_of_integers_sign_is_left_alone() -> None:
    with computing_in_int8():
        assert torch.equal(signbit(torch.tensor([-0.0, -1.0])), torch.tensor([False, True]))
        with pytest.raises(Decline):
            sign(SPECIAL)
    with pytest.raises(Decline):
        sign(torch.arange(3))
