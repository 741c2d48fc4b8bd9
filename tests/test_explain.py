"""``explain`` tells what ``apply`` and the lowering then do, and what to do about the rest."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lowerfix
from lowerfix import lowering, targets
from lowerfix.errors import LowerfixError, first_line
from lowerfix.report import Finding, Report
from lowerfix.testing import edge_program, export

X = torch.linspace(-2, 2, 32).reshape(1, 4, 8)


class Mixed(nn.Module):
    """Something of each: rewritten, left with a way out, left without one, and two ops that split the program."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor, index: Tensor) -> Any:
        y = torch.lgamma(self.linear(x)) * 2
        z = y.argmin(-1)
        return y.softmax(-1), z, x.to(torch.bfloat16) * x.to(torch.bfloat16), x[:, index] + 1, x.double()


@pytest.fixture(scope="module")
def mixed() -> torch.export.ExportedProgram:
    return export(Mixed(), (X, torch.tensor([1, 0])))


@pytest.fixture(scope="module")
def report(mixed: torch.export.ExportedProgram) -> Report:
    return lowerfix.explain(mixed, target="vgf")


def only(report: Report, op: str, outcome: str = "left on the CPU") -> Finding:
    [finding] = {f.reason: f for f in report.of(outcome) if f.op == op}.values()
    return finding


def test_the_counts_are_those_of_the_lowering(mixed: torch.export.ExportedProgram, report: Report) -> None:
    text = str(mixed)
    for placement, program in ((report.before, mixed), (report.after, lowerfix.apply(mixed, target="vgf"))):
        assert placement is not None
        lowered = lowering.lower(program, "vgf", compile=False)
        names = {re.sub(r"^(aten|dim_order_ops)\.|\.default$", "", op): n for op, n in placement.cpu_ops.items()}
        assert (placement.delegates, names) == (lowered.delegates, lowered.cpu_ops)
        assert placement.left == sum(op.counts and op.delegate is None for op in placement.ops)
        assert {op.delegate for op in placement.ops} == {None, *range(placement.delegates)}
    assert report.before != report.after
    assert str(mixed) == text


def test_a_size_that_depends_on_data_in_a_delegate_is_what_the_lowering_dies_on() -> None:
    program = export(lambda x, keep: x[keep] * 2, (X[0], torch.tensor([True, False, True, True])))
    report = lowerfix.explain(program, target="vgf")
    assert report.after is not None
    assert "index.Tensor requires index dtype must be int32" in report.after.error
    assert any("promises={" in finding.fix for finding in report.of("declined"))
    with pytest.raises(Exception, match="pass") as caught:
        lowering.lower(lowerfix.apply(program, target="vgf"), "vgf", compile=False)
    assert "index.Tensor requires index dtype must be int32" in first_line(caught.value)


def test_what_is_left_has_a_reason_a_line_and_a_next_step(report: Report) -> None:
    assert report.target == "vgf"
    assert not report.whole
    gamma = report.findings[0]
    assert gamma.op == "aten.lgamma.default"
    assert gamma.saves == 1
    assert report.after is not None
    assert report.after.between == (gamma.node,)
    assert "no form of this op in TOSA (Not included in BaseTOSASupportList" in gamma.reason
    assert "no kernel for aten::lgamma.out" in gamma.reason
    assert gamma.help == "missing-out-variants"
    product = only(report, "aten.mul.Tensor")
    assert "torch.bfloat16" in product.reason
    assert 'lowerfix.compile_spec("vgf+bf16")' in product.fix
    assert 'allow="bfloat16-to-float32"' in product.fix
    for finding in report.of("left on the CPU"):
        assert __file__ in finding.source
        assert finding.reason
        assert finding.fix
        assert finding.help


def test_findings_are_ranked_and_what_apply_reports_is_among_them(
    mixed: torch.export.ExportedProgram, report: Report
) -> None:
    applied = Report()
    lowerfix.apply(mixed, target="vgf", report=applied)
    assert {(f.pass_id, f.node, f.reason) for f in applied if f.pass_id != "no-kernel"} <= {
        (f.pass_id, f.node, f.reason) for f in report
    }
    assert {"argmin", "index-to-int32"} <= {finding.pass_id for finding in report.of("rewritten")}
    outcomes = [finding.outcome.value for finding in report]
    assert outcomes[: len(report.of("left on the CPU"))] == ["left on the CPU"] * len(report.of("left on the CPU"))
    assert outcomes[-1] == "rewritten"
    saved = [finding.saves for finding in report.of("left on the CPU")]
    assert saved == sorted(saved, reverse=True)


def test_options_reach_apply(mixed: torch.export.ExportedProgram, report: Report) -> None:
    stages: list[str] = []
    other = lowerfix.explain(
        mixed,
        target="vgf",
        skip="argmin",
        allow=["bfloat16-to-float32"],
        progress=stages.append,
    )
    assert other.after is not None
    assert report.after is not None
    assert stages == ["without lowerfix: partitioning", "rewriting", "with lowerfix: partitioning"]
    assert set(other.seconds) == set(stages)
    assert "aten.argmin.default" in other.after.cpu_ops
    assert "aten.argmin.default" not in report.after.cpu_ops
    assert "aten.mul.Tensor" not in other.after.cpu_ops
    assert other.before == report.before
    masked = export(lambda x, keep: x[keep] * 2, (X[0], torch.tensor([True, False, True, True])))
    assert lowerfix.explain(masked, target="vgf", promises={"index": "all-true"}).whole


def test_a_dict_of_programs_is_counted_together() -> None:
    class Gamma(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.lgamma(x + 1) * 2

    one = export(Gamma(), (X,))
    report = lowerfix.explain({"encode": one, "decode": one}, target="tosa-fp")
    assert report.before == report.after
    assert report.after is not None
    assert (report.after.delegates, dict(report.after.cpu_ops)) == (4, {"aten.lgamma.default": 2})
    assert [f.node for f in report.of("left on the CPU")] == [
        "encode/aten_lgamma_default",
        "decode/aten_lgamma_default",
    ]


def test_what_the_backend_dies_on_is_told() -> None:
    """Arm's partitioner takes a negative padding, and its preprocess dies on it."""
    program = export(lambda x: F.pad(x, (-1, 0)) * 2, (X,))
    report = lowerfix.explain(program, target="tosa-fp")
    assert report.before is not None
    assert "aten.pad.default" in report.before.error
    assert "non-negative" in report.before.error
    assert report.whole
    report = lowerfix.explain(program, target="tosa-fp", skip="negative-pad")
    assert not report.whole
    assert "aten.pad.default" in str(report.after)


@pytest.mark.slow
def test_a_float_program_is_quantized_for_an_int8_target() -> None:
    class ConvMish(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Conv1d(4, 4, 1), nn.Conv1d(4, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.two(F.mish(self.one(x)))

    program = export(ConvMish(), (X,))
    report = lowerfix.explain(program, target="tosa-int", calibration=[(X,), (-X,)])
    assert report.before is not None
    assert report.after is not None
    assert report.before.delegates == 2
    assert "aten.log1p.default" in report.before.cpu_ops
    assert report.whole
    assert report.after.boundary_quantize == 2
    assert not any("not quantized" in finding.reason for finding in report)
    quantized = lowering.quantize(lowerfix.apply(program, target="tosa-int"), "tosa-int", [(X,)])
    report = lowerfix.explain(quantized, target="tosa-int")
    assert report.whole
    assert "quantizing" not in " ".join(report.seconds)


@pytest.mark.slow
def test_what_is_behind_a_mask_is_led_to_the_promise() -> None:
    program = export(lambda x, keep: (x[keep] * 2).exp() + 1, (X[0], torch.tensor([True, False, True, True])))
    report = lowerfix.explain(program, target="xnnpack")
    assert report.after is not None
    assert report.after.left >= 3
    step, casts = report.next_steps
    assert step.fix == 'promises={"index": "all-true"}, if that is so'
    assert step.ops + casts.ops == report.after.left  # the numbers 2 and 1 are cast
    assert lowerfix.explain(program, target="xnnpack", promises={"index": "all-true"}).whole


def test_what_stops_the_quantizer_is_told() -> None:
    """Arm's quantizer dies of a float64 that it meets beside an int8; the program is as it was."""
    program = export(lambda x: x.double().cumsum(0) * x + x, (X,))
    report = lowerfix.explain(program, target="tosa-int")
    assert report.before is not None
    assert report.before.error
    assert not report.whole


def test_what_cannot_be_explained_is_refused() -> None:
    program = export(nn.ReLU(), (X,))
    with pytest.raises(LowerfixError, match="got a ReLU"):
        lowerfix.explain(nn.ReLU(), target="vgf")  # type: ignore[arg-type]
    with pytest.raises(LowerfixError, match="got a GraphModule for method 'one'"):
        lowerfix.explain({"one": program.graph_module}, target="vgf")  # type: ignore[dict-item]
    with pytest.raises(LowerfixError, match="Edge dialect"):
        lowerfix.explain(edge_program(program, "tosa-fp"), target="tosa-fp")
    with pytest.raises(LowerfixError, match="Did you mean 'vgf'"):
        lowerfix.explain(program, target="vfg")


def test_partitioning_leaves_the_partitioner_as_it_was() -> None:
    program = export(nn.ReLU(), (X,))
    lowerfix.explain(program, target="tosa-fp")
    lowered = lowering.lower(program, targets.get("tosa-fp"), compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
