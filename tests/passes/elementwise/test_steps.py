import pytest
import torch

from lowerfix.errors import Decline
from lowerfix.passes.elementwise.steps import angle, heaviside
from lowerfix.testing import check_rewrite

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 1e-38])


@pytest.mark.slow
def test_both_go_whole() -> None:
    check_rewrite(
        lambda x, y: (torch.heaviside(x, y), torch.angle(x)),
        (torch.randn(8, 1), torch.randn(1, 8)),
        target="tosa-fp",
        expect="steps",
        lowered_inputs=[(SPECIAL[:, None], SPECIAL[None, :])],
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_types(dtype: torch.dtype) -> None:
    x = SPECIAL.to(dtype)
    torch.testing.assert_close(heaviside(x, x.flip(0)), torch.heaviside(x, x.flip(0)), equal_nan=True)
    torch.testing.assert_close(heaviside(x[3], x[5]), torch.heaviside(x[3], x[5]))
    if dtype != torch.float16:
        torch.testing.assert_close(angle(x), torch.angle(x), equal_nan=True)


def test_the_angle_of_an_integer() -> None:
    n = torch.arange(-2, 3)
    torch.testing.assert_close(angle(n), torch.angle(n))


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="integers"):
        heaviside(torch.arange(3), torch.arange(3))
    with pytest.raises(Decline, match="complex"):
        angle(torch.rand(3, dtype=torch.complex64))
