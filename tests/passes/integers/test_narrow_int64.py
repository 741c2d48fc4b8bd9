import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.integers.narrow_int64 import WHOLE_QUOTIENT, _divide, _floor_divide
from lowerfix.testing import adversarial_inputs, check_rewrite, export


def arithmetic(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    best, second = x.argmax(-1), (-x).argmax(-1)
    difference = best - second
    return (
        (best % 7).float() + (best // 7).float(),
        (difference // 4).float(),
        (difference % -5).float(),
        torch.fmod(difference, 3).float(),
        torch.div(difference, 4, rounding_mode="trunc").float(),
        (difference.abs() * 3 + 1).clamp(2, 20).float(),
        torch.where(difference < 0, difference + 16, difference).float(),
        torch.maximum(best, second).float() / 2,
        torch.stack([best, second]).sum(0).reshape(2, 3).float(),
        best / 4 + best * 0.5,
        best == second,
        (best != second).to(torch.float32),
        (x > 0).sum(-1).float(),
        difference.sum().float(),
    )


def mask(keep: torch.Tensor) -> tuple[torch.Tensor, ...]:
    position = keep.cumsum(-1) - 1
    return position.clamp(min=0).float(), (position.amax(-1) // 2).float(), (keep.sum(-1, keepdim=True) / 2)


@pytest.mark.slow
def test_arithmetic_on_positions_goes_whole() -> None:
    inputs = (torch.randn(6, 16),)
    trials = list(adversarial_inputs(inputs))
    check_rewrite(arithmetic, inputs, target="vgf", expect="narrow-int64", lowered_inputs=trials, lowered_tolerance=0)


@pytest.mark.slow
def test_sums_over_a_mask_go_whole_through_float32_where_int32_is_not_taken() -> None:
    inputs, more = (torch.rand(3, 8) > 0.4,), [(torch.zeros(3, 8) > 1,), (torch.zeros(3, 8) < 1,)]
    check_rewrite(mask, inputs, target="vgf", expect="narrow-int64", more_inputs=more, lowered_inputs=more)


@pytest.mark.slow
def test_without_integers_in_the_profile_it_is_float32() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        best = x.argmax(-1)
        return torch.where((best % 7) >= 3, best.clamp(max=9), best // 3).float()

    inputs = (torch.randn(6, 16),)
    checked = check_rewrite(function, inputs, target="tosa-fp", expect="narrow-int64", lowered_tolerance=0)
    assert "torch.float32 holds" in str(checked.report)


@pytest.mark.slow
def test_indices_that_were_computed_select_rows_on_ethos_u85() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.project, self.codes = torch.nn.Linear(8, 16), torch.nn.Embedding(16, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.codes(self.project(x).argmax(-1) // 2 + 3)

    check_rewrite(Model(), (torch.randn(6, 8),), target="ethos-u85", expect="narrow-int64", tolerance=1e-6)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.argmax(-1) * 1_000_000_007, "[0, 15000000105]"),
        (lambda x: x.argmax(-1) % (x[:, 0] > 0).long(), "its divisor may be zero"),
    ],
)
def test_what_is_not_proven_is_declined_with_its_interval(function, reason: str) -> None:  # type: ignore[no-untyped-def]
    report = lowerfix.Report()
    program = export(function, (torch.randn(6, 16),))
    result = lowerfix.apply(program, target="vgf", report=report, only="narrow-int64")
    assert any(reason in finding.reason for finding in report.of("declined")), report
    assert "int32" not in str(result.graph)


def test_it_does_not_trade_one_op_for_two_casts() -> None:
    program = export(lambda ids: ids.clamp(0, 9) + 1, (torch.tensor([3, 20]),))
    result = lowerfix.apply(program, target="vgf")
    assert str(result.graph) == str(program.graph)


@settings(max_examples=200, deadline=None)
@given(st.integers(WHOLE_QUOTIENT.low, WHOLE_QUOTIENT.high), st.integers(1, WHOLE_QUOTIENT.high), st.integers(-3, 3))
def test_a_quotient_in_float32_is_exact_even_where_division_is_not(a: int, b: int, off: int) -> None:
    x = torch.tensor([a, a // b * b, a // b * b + b - 1]).clamp(WHOLE_QUOTIENT.low, WHOLE_QUOTIENT.high)
    y = torch.tensor(b)
    for divisor in (b, y.float()):
        expected = torch.div(x, y, rounding_mode="floor")
        assert torch.equal(_floor_divide(x.float(), divisor).long(), expected)
        expected = torch.div(x, y, rounding_mode="trunc")
        assert torch.equal(_divide(x.float(), divisor, rounding_mode="trunc").long(), expected)
    skewed = (x.float() + 0.5) * (torch.tensor(1.0) / y) * (1 + off * 2.0**-24)  # a product that is a few units off
    assert torch.equal(skewed.floor().long(), torch.div(x, y, rounding_mode="floor"))
