"""Ops are written out where the backend takes what they are made of, and only there."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import Outcome, Report
from lowerfix.pipeline import Pipeline
from lowerfix.program import mutated_arguments
from lowerfix.testing import assert_same, check_rewrite, export

aten = torch.ops.aten


@pytest.mark.slow
def test_ops_that_the_quantizer_does_not_know_are_whole_in_int8() -> None:
    def forms(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.true_divide(x, 2 + y.abs()),
            torch.max(x, y),
            F.logsigmoid(x),
            torch.addr(x, x[0], y[1]),
            F.threshold(x, 0.5, -2.0),
            F.avg_pool1d(x[None], 2),
            torch.diag_embed(x),
            torch.deg2rad(x * 60),
        )

    torch.manual_seed(0)
    check_rewrite(forms, (torch.randn(4, 4), torch.randn(4, 4)), target="tosa-int", expect="decompose", tolerance=1e-6)


def test_ops_of_which_another_pass_knows_more_are_left_to_it() -> None:
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.max(x, F.mish(x)), torch.logical_not(x).to(torch.float32)

    report = Report()
    lowerfix.apply(export(both, (torch.randn(2, 3),)), target="ethos-u85", report=report)
    fired = {(finding.pass_id, finding.op) for finding in report.of(Outcome.REWRITTEN)}
    assert {("decompose", "aten.max.other"), ("mish", "aten.mish.default")} <= fired


def test_int8_is_not_padded_with_infinity() -> None:
    program = export(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True), (torch.randn(1, 2, 3, 6),))
    report = Report()
    after = lowerfix.apply(program, target="ethos-u85", report=report, only="decompose")
    assert "pad" not in str(after.graph)
    assert any("infinity" in finding.reason for finding in report.of("declined"))


def test_it_runs_last_but_for_what_looks_at_what_is_left() -> None:
    assert Pipeline.default().ids[-2:] == ("decompose", "no-kernel")


@pytest.mark.parametrize("op", [torch.relu, torch.sigmoid, torch.bernoulli])
def test_ops_that_are_taken_and_random_ones_stay(op: object) -> None:
    program = export(op, (torch.rand(2, 3),))  # type: ignore[arg-type]
    report = Report()
    after = lowerfix.apply(program, target="ethos-u85", report=report, only="decompose")
    assert str(after.graph) == str(program.graph)
    assert not [f for f in report.findings if f.pass_id == "decompose"]


def test_what_pytorch_defines_by_no_aten_ops_is_none_of_its_business() -> None:
    program = export(torch.fmod, (torch.randn(3), torch.randn(3)))
    report = Report()
    lowerfix.apply(program, target="ethos-u85", report=report, only="decompose")
    assert not [f for f in report.findings if f.pass_id == "decompose"]


def test_a_kernel_that_adds_in_place_is_made_functional() -> None:
    program = export(lambda x: F.rms_norm(x, [8]), (torch.randn(2, 8),))
    after = lowerfix.apply(program, target="ethos-u85")
    ops = [str(node.target) for node in after.graph.nodes if node.op == "call_function"]
    assert "aten.rms_norm.default" not in ops
    assert not [op for op in ops if op.split(".")[1].endswith("_")]
    x = torch.randn(2, 8)
    assert_same(F.rms_norm(x, [8]), after.module(check_guards=False)(x), 1e-6)


def test_a_definition_that_is_refused_too_is_declined_with_the_reason() -> None:
    report = Report()
    lowerfix.apply(export(torch.frac, (torch.randn(3),)), target="ethos-u85", report=report, only="decompose")
    [finding] = [f for f in report.findings if f.pass_id == "decompose"]
    assert finding.outcome is Outcome.DECLINED
    assert "trunc" in finding.reason


VALUES = st.lists(st.sampled_from([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -2.5, 3e38]), min_size=4)


@settings(max_examples=50, deadline=None)
@given(VALUES)
def test_the_definitions_give_the_same_numbers(values: list[float]) -> None:
    from lowerfix.passes.program.decompose import _definition

    x, y = torch.tensor(values), torch.tensor(values[::-1])
    for op, arguments in {
        aten.max.other: (x, y),
        aten.true_divide.Tensor: (x, y),
        aten.log_sigmoid.default: (x,),
        aten.threshold.default: (x, 0.5, -2.0),
        aten.logical_and.default: (x, y),
        aten.heaviside.default: (x, y),
        aten.diag_embed.default: (x,),
        aten.clamp_max.Tensor: (x, y),
    }.items():
        rewrite = _definition(op)
        assert rewrite is not None
        assert_same(op(*arguments), rewrite.function(*arguments), 1e-6)


def test_a_definition_that_works_in_place_keeps_its_numbers() -> None:
    program = export(lambda x: torch.diff(x, n=0) * 2, (torch.ones(3),))
    result = lowerfix.apply(program, target="tosa-int")
    assert not any(mutated_arguments(node) for node in result.graph.nodes)
    assert_same(program.module()(torch.ones(3)), result.module()(torch.ones(3)))
