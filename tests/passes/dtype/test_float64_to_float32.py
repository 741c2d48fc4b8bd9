"""float64-to-float32: islands of float64 that end in float32, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import lowerfix
from lowerfix import lowering
from lowerfix.program import fake_tensors
from lowerfix.report import Outcome, Report
from lowerfix.targets import Target
from lowerfix.testing import assert_same, export

aten = torch.ops.aten
ID = "float64-to-float32"


class TimeEmbedding(nn.Module):
    """As flow-matching policies write it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, time: Tensor, x: Tensor) -> Tensor:
        period = 4e-3 * (4.0 / 4e-3) ** torch.linspace(0, 1, 4, dtype=torch.float64)
        angle = time[:, None] * (2 * torch.pi / period)[None]
        return self.linear(x + torch.cat([angle.sin(), angle.cos()], 1).type_as(x))


INPUTS = (torch.linspace(0, 1, 4), torch.randn(4, 8))


def float64(program: ExportedProgram) -> bool:
    return any(v.dtype is torch.float64 for n in program.graph.nodes for v in fake_tensors(n))


@pytest.mark.slow
def test_a_time_embedding_is_taken_whole_within_the_bound() -> None:
    model = TimeEmbedding().eval()
    report = Report()
    program = lowerfix.apply(export(model, INPUTS), target="vgf", report=report, allow=ID)
    assert not float64(program)
    [finding] = [finding for finding in report.of(Outcome.REWRITTEN) if finding.pass_id == ID]
    assert "vgf does not compute in float64" in finding.reason
    assert "of the sine or cosine of x: |x| * 2**-24" in finding.reason
    lowered = lowering.lower(program, "vgf", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    # Not among them: the largest float32, whose phase is infinite in float32.
    for time in (INPUTS[0], torch.rand(4), torch.tensor([0.0, -0.0, float("nan"), float("inf")])):
        expected = model(time, INPUTS[1])
        bound = 1571 * 2**-24 * 8
        assert_same(expected, program.module()(time, INPUTS[1]), bound)
        assert_same(expected, lowering.execute(lowered, (time, INPUTS[1]))[0], bound)
    assert lowered.pte()
    assert str(lowerfix.apply(program, target="vgf", allow=ID).graph) == str(program.graph)


@pytest.mark.slow
def test_on_an_npu_it_is_what_saves_the_quantizer() -> None:
    """Arm's quantizer fails on float64; the finding says so and where, and the pass makes it work."""
    program = export(TimeEmbedding(), INPUTS)
    report = Report()
    stock = lowerfix.apply(program, target="ethos-u85", report=report)
    with pytest.raises(Exception, match="float64"):
        lowering.quantize(stock, "ethos-u85", [INPUTS])
    [finding] = [finding for finding in report.of(Outcome.DECLINED) if finding.pass_id == ID]
    assert "its quantizer fails on a program that does" in finding.reason
    assert f'allow="{ID}" would help' in finding.reason
    assert "test_float64_to_float32.py" in finding.source
    rewritten = lowerfix.apply(program, target="ethos-u85", allow=ID)
    quantized = lowerfix.apply(lowering.quantize(rewritten, "ethos-u85", [INPUTS]), target="ethos-u85")
    lowered = lowering.lower(quantized, "ethos-u85", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})


@pytest.fixture
def target(refusing: Callable[..., Target]) -> Target:
    return refusing("aten.sin.default", "aten.mul.Tensor")


def allowed(model: Any, inputs: tuple[Any, ...], target: Target, **options: Any) -> tuple[ExportedProgram, Report]:
    report = Report()
    return lowerfix.apply(export(model, inputs, **options), target=target, report=report, allow=ID), report


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.double().sin().float(),
        lambda x: x.double().sin().half(),
        lambda x: (x.double().sin() * torch.arange(4, dtype=torch.float64)).sum(-1).float(),
        lambda x: torch.split(x.double().sin(), 2, -1)[0].float(),
        lambda x: torch.where(x > 0, x.double().sin(), torch.full((), 2.0, dtype=torch.float64)).float(),
        lambda x: (x.double().sin()[None].expand(2, 3, 4).float(), x.double().sin().to(torch.bfloat16)),
        lambda x: x.double().sin().t().float(),
        lambda x: x.double().sin().type_as(x) + x.double().sin().to(x),
        lambda x: x.to(torch.int32).double().sin().float(),
    ],
)
def test_islands(model: Callable[[Tensor], Any], target: Target) -> None:
    x = torch.linspace(-2, 2, 12).reshape(3, 4)
    program, report = allowed(model, (x,), target)
    assert ID in {finding.pass_id for finding in report.of(Outcome.REWRITTEN)}
    assert not float64(program)
    assert_same(model(x), program.module()(x), 2**-7)


def test_a_float64_input_is_cast_and_keeps_its_type(target: Target) -> None:
    x = torch.linspace(-2, 2, 4, dtype=torch.float64)

    def model(x: Tensor) -> Tensor:
        return x.sin().float()

    program, _ = allowed(model, (x,), target)
    [sine] = program.graph.find_nodes(op="call_function", target=aten.sin.default)
    assert sine.meta["val"].dtype is torch.float32
    assert_same(model(x), program.module()(x), 1e-6)


def test_symbolic_sizes(target: Target) -> None:
    def model(x: Tensor) -> Tensor:
        return (x.double().sin() * torch.arange(x.shape[0], dtype=torch.float64)).float()

    program, _ = allowed(model, (torch.ones(3),), target, dynamic_shapes=(({0: torch.export.Dim("n", max=32)},),))
    assert not float64(program)
    assert_same(model(torch.ones(7)), program.module()(torch.ones(7)), 1e-5)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda x: x.double().sin(), "read by an output of the program, where a small error could matter"),
        (lambda x: x.double().sin() > 0.5, r"read by node 'gt' \(aten.gt.Scalar\)"),
        (lambda x: (x.double().sin() * 10).to(torch.int32), r"read by node 'to_1' \(aten.to.dtype\)"),
        (lambda x: torch.rand_like(x.double().sin()).float(), "aten.rand_like.default is not known to compute alike"),
    ],
)
def test_what_does_not_end_in_float32_is_declined(model: Callable[..., Any], reason: str, target: Target) -> None:
    import re

    program, report = allowed(model, (torch.linspace(-2, 2, 4),), target)
    assert float64(program)
    reasons = [finding.reason for finding in report.of(Outcome.DECLINED) if finding.pass_id == ID]
    assert any(re.search(reason, text) for text in reasons), reasons


def test_one_path_that_ends_elsewhere_keeps_what_leads_to_it(target: Target) -> None:
    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.double().sin()
        return y, (y * 2).float()

    x = torch.linspace(-2, 2, 4)
    program, _ = allowed(model, (x,), target)
    kinds = {n.target: n.meta["val"].dtype for n in program.graph.nodes if n.op == "call_function"}
    assert kinds[aten.sin.default] is torch.float64
    assert kinds[aten.mul.Tensor] is torch.float32
    assert_same(model(x), program.module()(x), 1e-6)


def test_the_default_changes_nothing_and_tells(target: Target) -> None:
    program = export(lambda x: x.double().sin().float(), (torch.ones(4),))
    report = Report()
    assert float64(lowerfix.apply(program, target=target, report=report))
    [finding] = [finding for finding in report.of(Outcome.DECLINED) if finding.pass_id == ID]
    assert finding.reason.startswith("refusing does not compute in float64")
    assert f'allow="{ID}" would help: an error of about 2**-24' in finding.reason
