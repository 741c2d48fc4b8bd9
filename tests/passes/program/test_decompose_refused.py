"""decompose-refused: what a partitioner keeps whole and then refuses does not end in a program that cannot run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.oracle import Answer, Refusal
from lowerfix.pipeline import oracle_for
from lowerfix.program import Stage
from lowerfix.report import Outcome, Report
from lowerfix.targets import Target, get
from lowerfix.testing import export

aten = torch.ops.aten
FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "zeros": lambda x: F.pad(x, (1, 2)),
    "value": lambda x: F.pad(x, (1, 1), value=2),
    "reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, 1), mode="replicate"),
}


def rewritten(program: torch.export.ExportedProgram, target: str) -> tuple[torch.export.ExportedProgram, Report]:
    report = Report()
    return lowerfix.apply(program, target=target, report=report), report


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.uint8])
def test_a_refused_pad_gets_a_program_that_runs(dtype: torch.dtype) -> None:
    """Stock lowering of the same program ends in "Missing out variants: {'aten::pad'}"."""
    floating = dtype is torch.bfloat16
    forms = list(FORMS.values()) if floating else [FORMS["zeros"], FORMS["value"]]

    def model(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(form(x) for form in forms)

    inputs = (torch.arange(32).reshape(1, 4, 8).to(dtype),)
    program = export(model, inputs)
    with pytest.raises(Exception, match="Missing out variants"):
        lowering.lower(program, "vgf", compile=False).pte()
    result, report = rewritten(program, "vgf")
    fired = [finding for finding in report.of(Outcome.REWRITTEN) if finding.pass_id == "decompose-refused"]
    assert {finding.op for finding in fired} == {"aten.pad.default"}
    assert "vgf keeps it whole and does not take it" in fired[0].reason
    assert fired[0].source
    lowered = lowering.lower(result, "vgf", compile=False)
    for expected, actual in zip(model(*inputs), lowering.execute(lowered, inputs), strict=True):
        assert torch.equal(expected, actual)
    assert lowered.pte()
    assert str(rewritten(result, "vgf")[0].graph) == str(result.graph)


@pytest.mark.slow
def test_other_kept_ops_and_other_targets() -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        return F.celu(x), F.selu(x)

    inputs = (torch.linspace(-3, 3, 8, dtype=torch.bfloat16),)
    result, report = rewritten(export(model, inputs), "tosa-fp")
    assert {finding.op for finding in report.of(Outcome.REWRITTEN)} >= {"aten.celu.default", "aten.selu.default"}
    lowered = lowering.lower(result, "tosa-fp", compile=False)
    lowered.pte()
    for expected, actual in zip(model(*inputs), lowering.execute(lowered, inputs), strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.slow
def test_what_the_backend_takes_stays_whole() -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        return F.pad(x, (1, 2)), F.celu(x), F.hardswish(x)

    program = export(model, (torch.randn(1, 4, 8),))
    result, report = rewritten(program, "vgf")
    assert aten.pad.default in [node.target for node in result.graph.nodes]
    assert not [finding for finding in report if finding.pass_id == "decompose-refused"]


def test_ops_that_the_runtime_computes_are_not_asked_about() -> None:
    kept = oracle_for(get("vgf"), Stage.FLOAT).kept
    assert "aten.pad.default" in kept
    assert "aten.linear.default" not in kept


def kept_by(refusing: Callable[..., Target], monkeypatch: pytest.MonkeyPatch, op: str) -> Target:
    from lowerfix import pipeline

    target = refusing(op)
    monkeypatch.setattr(type(pipeline.oracle_for(target, Stage.FLOAT)), "kept", frozenset([op]))
    return target


def test_another_rewrite_comes_first(refusing: Callable[..., Target], monkeypatch: pytest.MonkeyPatch) -> None:
    target = kept_by(refusing, monkeypatch, "aten.mish.default")
    report = Report()
    lowerfix.apply(export(F.mish, (torch.randn(8),)), target=target, report=report)
    assert {finding.pass_id for finding in report.of(Outcome.REWRITTEN)} == {"mish"}


def test_an_op_without_a_decomposition_is_reported(
    refusing: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = kept_by(refusing, monkeypatch, "aten.relu.default")
    report = Report()
    lowerfix.apply(export(torch.relu, (torch.randn(8),)), target=target, report=report, only="decompose-refused")
    [finding] = [finding for finding in report.of(Outcome.DECLINED) if finding.pass_id == "decompose-refused"]
    assert "it has no decomposition, and the runtime has no kernel for it" in finding.reason


def test_an_op_that_is_decomposed_anyway_is_left_to_that(
    refusing: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = kept_by(refusing, monkeypatch, "aten.hardswish.default")
    from lowerfix import pipeline

    oracle = pipeline.oracle_for(target, Stage.FLOAT)
    monkeypatch.setattr(oracle, "_probe", lambda questions: [Answer((Refusal("aten.clamp.default", "no"),))])
    report = Report()
    lowerfix.apply(export(F.hardswish, (torch.randn(8),)), target=target, report=report, only="decompose-refused")
    assert not report.of(Outcome.REWRITTEN)
