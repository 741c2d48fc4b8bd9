import pytest
import torch
import torch.nn.functional as F

import lowerfix
from lowerfix import lowering, runner
from lowerfix.oracle import Answer, Refusal, missing_kernel
from lowerfix.report import Outcome, Report
from lowerfix.testing import assert_same, export

aten = torch.ops.aten


def lowered(program: torch.export.ExportedProgram, report: Report | None = None) -> lowering.Lowered:
    return lowering.lower(lowerfix.apply(program, target="xnnpack", report=report), "xnnpack", compile=False)


@pytest.mark.slow
def test_what_has_no_kernel_runs() -> None:
    """No form of these goes whole: XNNPACK computes no comparisons."""

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.fmax(x, y), torch.copysign(x, y), torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))

    inputs = (torch.randn(3, 4), torch.tensor([[float("nan"), 0.0, -0.0, 1.0]]).expand(3, 4).contiguous())
    program, report = export(model, inputs), Report()
    with pytest.raises(RuntimeError):
        lowering.execute(lowering.lower(program, "xnnpack", compile=False), inputs)
    result = lowered(program, report)
    assert_same(list(model(*inputs)), list(lowering.execute(result, inputs)), 1e-6)
    reasons = [f.reason for f in report.of(Outcome.REWRITTEN) if f.pass_id == "no-kernel"]
    assert any("no kernel for aten::fmax.out" in reason for reason in reasons)
    again = lowerfix.apply(program, target="xnnpack")
    assert str(lowerfix.apply(again, target="xnnpack").graph) == str(again.graph)


@pytest.mark.slow
def test_what_nothing_can_stand_in_for_is_reported_with_its_line() -> None:
    report = Report()
    lowerfix.apply(export(torch.special.i0, (torch.randn(3),)), target="xnnpack", report=report)
    [finding] = report.of(Outcome.LEFT)
    assert finding.pass_id == "no-kernel"
    assert "has no kernel for aten::i0.out" in finding.reason
    assert finding.source


@pytest.mark.slow
def test_what_runs_is_left_alone() -> None:
    program = export(lambda x: (torch.eq(x, 1), F.grid_sample(x, x[..., :2])), (torch.rand(1, 2, 2, 2),))
    result = lowerfix.apply(program, target="xnnpack", only="no-kernel")
    assert str(result.graph) == str(program.graph)


@pytest.mark.slow
def test_a_program_that_returns_the_type_of_an_op_is_written() -> None:
    x = torch.randn(2, 3)
    values, indices = lowering.execute(lowered(export(lambda x: torch.max(x, 1), (x,))), (x,))
    assert_same(list(torch.max(x, 1)), [values, indices])


@pytest.mark.slow
def test_a_program_is_executed_in_another_process() -> None:
    x = torch.randn(1, 1, 2, 3, 3)
    works = lowering.lower(export(lambda x: x + 1, (x,)), "xnnpack", compile=False)
    dies = lowering.lower(export(lambda x: F.conv3d(x, x), (x,)), "xnnpack", compile=False)
    assert runner.failure(works.pte(), [x]) == ""
    assert "does not execute it" in runner.failure(dies.pte(), [x])
    assert "does not execute it" in runner.failure(b"no program", [x])
    runner._stop()
    assert runner.failure(works.pte(), [x]) == ""


def test_kernels_are_known_by_their_names() -> None:
    assert missing_kernel(aten.add.Tensor) == ""
    assert missing_kernel(aten.fmax.default) == "aten::fmax.out"
    assert missing_kernel(aten.sym_size.int) == ""
    assert missing_kernel(len) == ""
    dead = Answer((Refusal("aten.fmax.default", "no", kernel="aten::fmax.out"), Refusal("aten.eq.Scalar", "no")))
    assert dead.dead == "ExecuTorch's runtime has no kernel for aten::fmax.out"
    assert Answer((Refusal("aten.eq.Scalar", "no"),)).dead == ""
