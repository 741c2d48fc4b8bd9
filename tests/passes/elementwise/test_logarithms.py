import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.elementwise.logarithms import log2, log10
from lowerfix.testing import check_rewrite, export

SPECIAL = torch.tensor([float("nan"), float("inf"), -1.0, 0.0, -0.0, 1.0, 8.0, 1000.0, 3.4e38, 1.2e-38, 0.3, 0.99999])


def test_both_go_whole() -> None:
    check_rewrite(
        lambda x: (torch.log2(x), torch.log10(x), torch.log2(x.half())),
        (torch.rand(12) * 9,),
        target="tosa-fp",
        expect="logarithms",
        tolerance=1e-6,
        lowered_tolerance=1e-3,
        lowered_inputs=[(SPECIAL,)],
    )


@settings(max_examples=50, deadline=None)
@given(st.floats(width=32), st.sampled_from([torch.float32, torch.float16, torch.bfloat16]))
def test_any_number(value: float, dtype: torch.dtype) -> None:
    x = torch.tensor([value, 1.0]).to(dtype)
    bound = torch.finfo(dtype).eps
    for ours, theirs in ((log2, torch.log2), (log10, torch.log10)):
        torch.testing.assert_close(ours(x), theirs(x), rtol=2 * bound, atol=bound / 4, equal_nan=True)


def test_integers_and_booleans_have_a_float_logarithm() -> None:
    for x in (torch.arange(5), torch.arange(3, dtype=torch.uint8), torch.tensor([True, False])):
        torch.testing.assert_close(log2(x), torch.log2(x), rtol=3e-7, atol=0)


def test_log_is_left_alone() -> None:
    program = export(torch.log, (torch.rand(4),))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)


def test_float64_is_declined() -> None:
    with pytest.raises(Decline, match="float64"):
        log2(torch.rand(4, dtype=torch.float64))
