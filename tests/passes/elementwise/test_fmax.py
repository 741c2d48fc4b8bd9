import hypothesis.strategies as st
import torch
from hypothesis import given, settings

import lowerfix
from lowerfix.passes.elementwise.fmax import fmax, fmin
from lowerfix.testing import check_rewrite, export

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1.0, -1.0])


def test_nan_gives_way_in_one_delegate() -> None:
    check_rewrite(
        lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)),
        (torch.randn(6, 1), torch.randn(1, 6)),
        target="tosa-fp",
        expect="fmax",
        lowered_inputs=[(SPECIAL[:, None], SPECIAL[None, :])],
    )


@settings(max_examples=100, deadline=None)
@given(st.floats(width=32), st.floats(width=32))
def test_any_two_numbers(a: float, b: float) -> None:
    x, y = torch.tensor([a]), torch.tensor([b])
    torch.testing.assert_close(fmax(x, y), torch.fmax(x, y), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(fmin(x, y), torch.fmin(x, y), rtol=0, atol=0, equal_nan=True)


def test_types_are_promoted() -> None:
    n, x = torch.arange(-2, 3), torch.randn(5)
    for a, b in ((n, x), (n, n.flip(0)), (x.half(), n), (x.half(), x), (x, torch.tensor(0.5, dtype=torch.float64))):
        assert torch.equal(fmax(a, b), torch.fmax(a, b))
        assert torch.equal(fmin(a, b), torch.fmin(a, b))


def test_maximum_is_left_alone() -> None:
    program = export(torch.maximum, (torch.rand(4), torch.rand(4)))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
