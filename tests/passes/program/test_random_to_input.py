"""random-to-input: the caller draws, by rules that give the same distributions."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

import lowerfix
from lowerfix import lowering
from lowerfix.program import draws_random
from lowerfix.report import Outcome, Report
from lowerfix.targets import Target
from lowerfix.testing import assert_same, export

aten = torch.ops.aten
ID = "random-to-input"
X = torch.linspace(-2, 2, 32).reshape(4, 8)


@pytest.fixture
def target(refusing: Callable[..., Target]) -> Target:
    return refusing()


def hoisted(model: Any, target: Any, *inputs: Tensor) -> tuple[ExportedProgram, list[str]]:
    """The rewritten program, and what the report says about each new input."""
    report = Report()
    program = model if isinstance(model, ExportedProgram) else export(model, inputs or (X,))
    result = lowerfix.apply(program, target=target, report=report, allow=ID)
    assert not any(map(draws_random, result.graph.nodes)), report
    return result, [f.reason for f in report.of(Outcome.REWRITTEN) if f.pass_id == ID]


@pytest.mark.slow
def test_a_program_that_draws_is_taken_whole_and_runs() -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        return (
            x + 0.1 * torch.rand_like(x),
            x * torch.randn(8) + torch.normal(x, 0.5),
            torch.bernoulli(x.sigmoid()),
            F.dropout(x, 0.3, True),
            x * torch.empty(4, 8).uniform_(-1, 1) + torch.empty(8).exponential_(2.0),
            x[torch.randperm(4)],
            torch.randint(0, 10, (4,)).float() + x[:, 0],
            torch.arange(16.0).reshape(8, 2)[torch.multinomial(x.softmax(-1), 1)],
        )

    program, reasons = hoisted(model, "vgf")
    assert len(reasons) == 10
    draws = (
        torch.rand(4, 8),
        torch.randn(8),
        torch.randn(4, 8),
        torch.rand(4, 8),
        torch.rand(4, 8),
        torch.randperm(4).to(torch.int32),
        torch.randint(0, 10, (4,), dtype=torch.int32),
        torch.rand(4, 8),
        torch.rand(4, 8),  # those of in-place ops come last
        torch.rand(8),
    )
    given = [(tuple(value.shape), value.dtype) for value in program.example_inputs[0][1:]]
    assert given == [(tuple(draw.shape), draw.dtype) for draw in draws]
    lowered = lowering.lower(program, "vgf", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    expected = tree_leaves(program.module()(X, *draws))
    assert_same(expected, list(lowering.execute(lowered, (X, *draws))), 1e-5)
    assert_same(expected[0], X + 0.1 * draws[0])
    assert_same(expected[5], X[draws[5]])
    assert lowered.pte()
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert_same(expected, torch.export.load(file).module()(X, *draws))
    assert_same(expected, program.run_decompositions().module()(X, *draws), 1e-6)
    assert str(lowerfix.apply(program, target="vgf", allow=ID).graph) == str(program.graph)


@pytest.mark.slow
def test_on_an_npu_the_noise_is_quantized_like_any_input() -> None:
    class Denoise(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x) + 0.1 * torch.randn_like(x)

    program, _ = hoisted(export(Denoise(), (X,)), "ethos-u85")
    inputs = (X, torch.randn(4, 8))
    quantized = lowerfix.apply(lowering.quantize(program, "ethos-u85", [inputs]), target="ethos-u85")
    lowered = lowering.lower(quantized, "ethos-u85", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert lowering.signal_to_noise(program.module()(*inputs), lowering.execute(lowered, inputs)[0]) > 20


def test_the_default_tells_what_draws_and_where(target: Target) -> None:
    report = Report()

    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 0.1 * torch.rand_like(x)

    program = export(Noisy(), (X,))
    assert str(lowerfix.apply(program, target=target, report=report).graph) == str(program.graph)
    [finding] = [finding for finding in report.of(Outcome.DECLINED) if finding.pass_id == ID]
    assert "it draws random numbers, which refusing does not" in finding.reason
    assert 'allow="random-to-input" would help: the caller has to draw the numbers' in finding.reason
    assert finding.op == "aten.rand_like.default"
    assert "test_random_to_input.py" in finding.source


def test_the_report_says_what_to_draw(target: Target) -> None:
    _, [reason] = hoisted(lambda x: x + torch.randint(3, 9, (4, 1)), target)
    assert "a further input 'randint_draw' for it, int32 of shape (4, 1), integers from 3 to 8" in reason


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        (lambda x: torch.rand_like(x), lambda x, u: u),
        (lambda x: torch.rand(4, 8, dtype=torch.float64) + x, lambda x, u: u + x),
        (lambda x: torch.normal(2.0, 3.0, (4, 8)) + x, lambda x, z: z * 3 + 2 + x),
        (lambda x: torch.normal(x, x.exp()), lambda x, z: z * x.exp() + x),
        (lambda x: torch.normal(1.0, x.exp()), lambda x, z: z * x.exp() + 1),
        (lambda x: x + torch.empty(4, 8).normal_(2, 3), lambda x, z: x + (z * 3 + 2)),
        (lambda x: torch.randint_like(x, 2, 5) + x, lambda x, i: i + x),
        (lambda x: torch.randint_like(x.to(torch.int64), 5), lambda x, i: i.to(torch.int64)),
        (lambda x: torch.bernoulli(x, 0.25), lambda x, u: (u < 0.25).float()),
        (lambda x: torch.bernoulli(x.to(torch.float64).sigmoid()), lambda x, u: (u < x.double().sigmoid()).double()),
        (lambda x: F.dropout(x, 0.25, True), lambda x, u: x * ((u < 0.75).float() * (1 / 0.75))),
        (lambda x: F.dropout(x, 1.0, True), lambda x, u: x * 0.0),
        (lambda x: F.dropout1d(x[None], 0.25, True), lambda x, u: x * ((u < 0.75).float() * (1 / 0.75))),
        (lambda x: aten.native_dropout(x, 0.5, True)[1], lambda x, u: u < 0.5),
    ],
)
def test_rules(model: Callable[..., Any], rule: Callable[..., Any], target: Target) -> None:
    program, _ = hoisted(model, target)
    [_, zeros] = program.example_inputs[0]
    floating = zeros.is_floating_point()
    draw = torch.rand(zeros.shape, dtype=zeros.dtype) if floating else torch.randint(0, 5, zeros.shape).to(zeros.dtype)
    assert_same(rule(X, draw), program.module()(X, draw), 1e-12)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("samples", [1, 3])
def test_samples_are_distributed_as_those_of_torch(samples: int, replacement: bool, target: Target) -> None:
    p = torch.tensor([0.0, 1.0, 2.0, 4.0]).expand(20_000, 4)  # weights need not sum to 1
    program, _ = hoisted(lambda p: torch.multinomial(p, samples, replacement), target, p)
    torch.manual_seed(0)
    ours = program.module()(p, torch.rand(program.example_inputs[0][1].shape))
    theirs = torch.multinomial(p, samples, replacement)
    assert ours.dtype is torch.int64
    assert ours.shape == theirs.shape
    for position in range(samples):
        counts = [torch.bincount(draws[:, position], minlength=4) / len(p) for draws in (ours, theirs)]
        torch.testing.assert_close(counts[0], counts[1], rtol=0, atol=0.02)
        assert counts[0][0] == 0


def test_the_smallest_uniform_number_is_no_trap(target: Target) -> None:
    p = torch.tensor([[0.0, 1.0, 2.0]])
    program, _ = hoisted(lambda p: torch.multinomial(p, 1), target, p)
    assert program.module()(p, torch.zeros(1, 3)).item() == 2


def test_keywords_symbolic_sizes_and_names(target: Target) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
            return x + scale * torch.randn(x.shape[0] * 2, 3).sum(-1).reshape(2, -1).sum(0)

    program = torch.export.export(
        Model(),
        (torch.ones(4),),
        {"scale": torch.tensor(2.0)},
        dynamic_shapes={"x": {0: torch.export.Dim("n", max=64)}, "scale": None},
    )
    result, _ = hoisted(program, target)
    assert result.graph_signature.user_inputs == ("x", "scale", "randn_draw")
    z = torch.randn(10, 3)
    expected = torch.ones(5) + 2.0 * z.sum(-1).reshape(2, -1).sum(0)
    assert_same(expected, result.module()(torch.ones(5), scale=torch.tensor(2.0), randn_draw=z), 1e-6)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: F.dropout(x, 0.5, False),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
        lambda x: F.rrelu(x),
    ],
)
def test_what_could_draw_and_does_not_is_left_alone(model: Callable[..., Any], target: Target) -> None:
    report = Report()
    program = export(model, (X,))
    assert str(lowerfix.apply(program, target=target, report=report, allow=ID).graph) == str(program.graph)
    lowerfix.apply(program, target=target, report=report)
    assert not [finding for finding in report if finding.pass_id == ID]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda x: torch.poisson(x.exp()), "there is no rule for poisson"),
        (lambda x: torch.rand_like(x[x > 1]), "the size of what it draws depends on data"),
    ],
)
def test_declines(model: Callable[..., Any], reason: str, target: Target) -> None:
    report = Report()
    program = lowerfix.apply(export(model, (X.abs(),)), target=target, report=report, allow=ID)
    assert len(program.graph_signature.user_inputs) == 1
    assert reason in " ".join(finding.reason for finding in report.of(Outcome.DECLINED))


def test_a_graph_module_is_declined(target: Target) -> None:
    report = Report()
    module = export(torch.rand_like, (X,)).module(check_guards=False)
    lowerfix.apply(module, target=target, report=report, allow=ID)
    [finding] = [finding for finding in report.of(Outcome.DECLINED) if finding.pass_id == ID]
    assert "apply lowerfix to the ExportedProgram" in finding.reason


def test_the_input_is_not_handed_back_or_changed(target: Target) -> None:
    """An op that only draws becomes its input, but for where that would be seen."""

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.rand(3), x + torch.rand(4, 8)

    program, _ = hoisted(model, target)
    draws = torch.rand(3), torch.rand(4, 8)
    result = program.module()(X, *draws)
    assert torch.equal(result[0], draws[0])
    assert result[0].data_ptr() != draws[0].data_ptr()
    assert len(program.graph.find_nodes(op="call_function", target=aten.clone.default)) == 1
