import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from lowerfix.passes.elementwise.zero_times_log import entr, xlog1py, xlogy
from lowerfix.rewriting import computing_in_int8
from lowerfix.testing import check_rewrite

special = torch.special
SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, -0.5, 1e-8])


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    check_rewrite(
        lambda x, y: (
            torch.xlogy(x, y), torch.xlogy(x, 2.0), special.xlogy(0.0, y), special.xlogy(x, y), special.xlogy(x, 0),
            special.xlog1py(x, y), special.xlog1py(x, -0.5), special.xlog1py(3, y), special.entr(x),
        ),
        (torch.rand(9, 1), torch.rand(1, 9)),
        target="tosa-fp",
        expect="zero-times-log",
        tolerance=1e-6,
        lowered_tolerance=1e-6,
        lowered_inputs=[(SPECIAL[:, None], SPECIAL[None, :])],
    )  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.floats(width=32) | st.just(0.0), st.floats(width=32))
def test_any_two_numbers(a: float, b: float) -> None:
    x, y = torch.tensor([a]), torch.tensor([b])
    torch.testing.assert_close(xlogy(x, y), torch.xlogy(x, y), rtol=1e-6, atol=1e-45, equal_nan=True)
    torch.testing.assert_close(xlogy(a, y), torch.xlogy(a, y), rtol=1e-6, atol=1e-45, equal_nan=True)
    torch.testing.assert_close(xlog1py(x, y), special.xlog1py(x, y), rtol=1e-6, atol=1e-45, equal_nan=True)
    torch.testing.assert_close(entr(x), special.entr(x), rtol=1e-6, atol=1e-45, equal_nan=True)


def test_integers_and_half_types() -> None:
    n, x = torch.arange(4), torch.rand(4)
    for a, b in ((n, n), (n, x), (x.half(), n), (x.half(), x.half())):
        torch.testing.assert_close(xlogy(a, b), torch.xlogy(a, b))
        torch.testing.assert_close(xlog1py(a, b), special.xlog1py(a, b))


def test_in_int8_no_infinity_takes_up_the_range() -> None:
    with computing_in_int8():
        assert entr(torch.tensor([0.0, -1.0, 1.0])).tolist() == [0.0, 0.0, 0.0]
