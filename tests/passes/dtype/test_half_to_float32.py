"""bfloat16-to-float32 and float16-to-float32: the whole program computes in float32, its interface stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import ExportedProgram

import lowerfix
from lowerfix import lowering
from lowerfix.program import fake_tensors
from lowerfix.report import Outcome, Report
from lowerfix.targets import Target
from lowerfix.testing import assert_same, check_rewrite, export

aten = torch.ops.aten
BF16 = torch.bfloat16


class Block(nn.Module):
    """What a transformer does in bfloat16, with its constants, casts and a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 8, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        h = self.embedding(tokens) + x
        exact = torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(h.dtype)
        scores = torch.softmax(h @ h.transpose(-1, -2) * self.scale, -1, dtype=torch.float32).to(h.dtype)
        mixed = torch.cat([self.norm(scores @ h), h * exact], -1)
        positive = torch.where(mixed > 0, mixed, mixed * torch.full((), 0.1, dtype=h.dtype))
        return self.head(positive[..., :8]), positive.float().sum(-1), torch.split(positive, 8, -1)[1]


def dtypes(program: ExportedProgram) -> set[torch.dtype]:
    """Of all that is computed but for casts at the border."""
    return {
        value.dtype
        for node in program.graph.nodes
        if node.op == "call_function" and node.target is not aten.to.dtype
        for value in fake_tensors(node)
    }


def check_values(program: ExportedProgram, inputs: tuple[Any, ...]) -> None:
    """Every node computes what its metadata says."""

    class Checking(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(result, Tensor):
                value = n.meta["val"]
                assert (result.dtype, result.shape, result.stride()) == (value.dtype, value.shape, value.stride()), n
            return result

    stored = {**program.state_dict, **program.constants}
    targets = [spec.target for spec in program.graph_signature.input_specs if spec.target]
    Checking(program.graph_module).run(*(stored[target] for target in targets), *inputs)


@pytest.mark.slow
def test_a_block_is_taken_whole_but_for_casts_at_its_border() -> None:
    inputs = (torch.randn(2, 4, 8, dtype=BF16), torch.arange(8, dtype=torch.int32).reshape(2, 4))
    checked = check_rewrite(
        Block().to(BF16),
        inputs,
        target="vgf",
        expect="bfloat16-to-float32",
        allow="bfloat16-to-float32",
        tolerance=2**-4,  # of bfloat16's own rounding
        allowed_left=["_to_dim_order_copy"],
        lowered_tolerance=2**-4,
    )
    assert BF16 not in dtypes(checked.after)
    check_values(checked.after, inputs)
    stored = checked.after.state_dict.values()
    weights = [tensor for tensor in stored if tensor.shape == (8, 8) and tensor.dtype is torch.float32]
    assert len(weights) == 1, "tied weights stay tied"
    [finding] = [f for f in checked.report.of(Outcome.REWRITTEN) if f.pass_id == "bfloat16-to-float32"]
    assert "2**-24" in finding.reason
    assert checked.lowered.pte()


@pytest.mark.slow
def test_the_default_tells_both_ways_out() -> None:
    """Stock ExecuTorch leaves it on the CPU without a warning."""
    program = export(nn.Linear(8, 8).to(BF16), (torch.randn(4, 8, dtype=BF16),))
    report = Report()
    result = lowerfix.apply(program, target="vgf", report=report)
    assert lowering.lower(result, "vgf", compile=False).cpu_ops == {"linear": 1}
    [finding] = [f for f in report.of(Outcome.DECLINED) if f.pass_id == "bfloat16-to-float32"]
    assert "vgf does not compute aten.linear.default so (aten.linear.default: Had torch.bfloat16" in finding.reason
    assert 'target="vgf+bf16", that is VgfCompileSpec("TOSA-1.0+FP+INT+int4+int16+bf16")' in finding.reason
    assert 'allow="bfloat16-to-float32" would help: parameters take twice the memory' in finding.reason
    report = Report()
    lowerfix.apply(program, target="vgf+bf16", report=report)
    assert not report.of(Outcome.DECLINED)


def allowed(model: Any, inputs: tuple[Any, ...], target: Target, dtype: str = "bfloat16") -> tuple[Any, Report]:
    report = Report()
    program = model if isinstance(model, ExportedProgram) else export(model, inputs)
    return lowerfix.apply(program, target=target, report=report, allow=f"{dtype}-to-float32"), report


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_both_types_on_what_torch_can_do_in_them(dtype: str, refusing: Callable[..., Target]) -> None:
    half = getattr(torch, dtype)

    def model(x: Tensor) -> tuple[Any, ...]:
        y = x.sigmoid() * torch.arange(4, dtype=half) + torch.zeros_like(x)
        return (
            torch.ones(3, dtype=half) * y.amax(),
            y.to(torch.int32),
            y.double(),
            y.argmax(-1),
            y.unsqueeze(0).expand(2, 3, 4),
            y.t(),
            F.conv1d(y[None], y[:, :1].reshape(1, 3, 1)),
            y.std(),
            *torch.max(y, 0),
            *y.chunk(2, -1),
            x.type(torch.float32) + y,
        )

    inputs = (torch.linspace(-2, 2, 12, dtype=half).reshape(3, 4),)
    program, report = allowed(model, inputs, refusing("aten.sigmoid.default"), dtype)
    assert "float32" in report.of(Outcome.REWRITTEN)[-1].reason
    assert half not in dtypes(program)
    check_values(program, inputs)
    assert_same(model(*inputs), program.module()(*inputs), 2**-6)


def test_symbolic_sizes(refusing: Callable[..., Target]) -> None:
    def model(x: Tensor) -> Tensor:
        return torch.tanh(x.reshape(-1)) + torch.zeros(x.shape[0] * 4, dtype=x.dtype)

    shapes = (({0: torch.export.Dim("n", max=32)},),)
    program = export(model, (torch.randn(3, 4, dtype=BF16),), dynamic_shapes=shapes)
    result, _ = allowed(program, (), refusing("aten.tanh.default"))
    assert BF16 not in dtypes(result)
    x = torch.randn(7, 4, dtype=BF16)
    assert_same(model(x), result.module()(x), 2**-7)


def test_a_buffer_that_the_program_changes_keeps_its_type(refusing: Callable[..., Target]) -> None:
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(4, dtype=BF16))

        def forward(self, x: Tensor) -> Tensor:
            y = torch.tanh(x + self.last)
            self.last.copy_(y)
            return y * 2

    program = export(Cache(), (torch.ones(4, dtype=BF16),)).run_decompositions({})
    result, _ = allowed(program, (), refusing("aten.tanh.default"))
    assert BF16 not in dtypes(result)
    assert result.state_dict["last"].dtype is BF16
    ours, eager = result.module(), Cache()
    for _ in range(2):
        x = torch.ones(4, dtype=BF16)
        assert_same(eager(x), ours(x), 2**-6)


def test_what_is_no_plain_computation_stays_with_casts_around_it(refusing: Callable[..., Target]) -> None:
    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.tanh(x)
        return y.view(torch.int16), y + torch.rand_like(y)

    program, _ = allowed(model, (torch.ones(4, dtype=BF16),), refusing("aten.tanh.default"))
    [bits] = program.graph.find_nodes(op="call_function", target=aten.view.dtype)
    assert bits.args[0].meta["val"].dtype is BF16
    [noise] = program.graph.find_nodes(op="call_function", target=aten.rand_like.default)
    assert noise.meta["val"].dtype is BF16


def test_nothing_happens_where_the_backend_takes_all(refusing: Callable[..., Target]) -> None:
    program = export(torch.tanh, (torch.ones(4, dtype=BF16),))
    result, report = allowed(program, (), refusing())
    assert str(result.graph) == str(program.graph)
    assert not list(report)


def in_place(x: Tensor) -> Tensor:
    y = torch.tanh(x)
    y.mul_(3)
    y[0] = 1.0
    return y


def test_in_place_ops_get_their_functional_form(refusing: Callable[..., Target]) -> None:
    x = torch.ones(4, dtype=BF16)
    program, _ = allowed(in_place, (x,), refusing("aten.tanh.default"))
    assert BF16 not in dtypes(program)
    assert_same(in_place(x), program.module()(x), 2**-7)


def test_a_graph_module_with_in_place_ops_is_declined(refusing: Callable[..., Target]) -> None:
    report = Report()
    module = export(in_place, (torch.ones(4, dtype=BF16),)).module(check_guards=False)
    target = refusing("aten.tanh.default")
    lowerfix.apply(module, target=target, report=report, allow="bfloat16-to-float32")
    [finding] = [f for f in report.of(Outcome.DECLINED) if f.pass_id == "bfloat16-to-float32"]
    assert "it has in-place ops: apply lowerfix to the ExportedProgram" in finding.reason


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_on_an_npu_it_is_done_before_quantizing_and_not_again(dtype: str) -> None:
    """The NPU takes int8 around float16, but not around bfloat16."""
    half, allow = getattr(torch, dtype), f"{dtype}-to-float32"
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).to(half).eval()
    inputs = (torch.randn(4, 8).to(half),)
    rewritten = lowerfix.apply(export(model, inputs), target="ethos-u85", allow=allow)
    quantized = lowering.quantize(rewritten, "ethos-u85", [inputs])
    lowered = lowering.lower(lowerfix.apply(quantized, target="ethos-u85", allow=allow), "ethos-u85", compile=False)
    assert lowered.delegates == 1
    assert set(lowered.cpu_ops) <= {"_to_dim_order_copy"}
    assert lowering.signal_to_noise(model(*inputs), lowering.execute(lowered, inputs)[0]) > 20
