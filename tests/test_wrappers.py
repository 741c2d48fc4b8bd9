"""A wrapped quantizer or partitioner is the only line of a user's script that changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lowerfix
from lowerfix import lowering, targets
from lowerfix.errors import LowerfixError
from lowerfix.report import Report

aten = torch.ops.aten
X = torch.linspace(-4, 4, 64).reshape(1, 4, 16)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.ConvTranspose1d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.mish(self.up(x))


class ConvMish(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Conv1d(4, 4, 1), nn.Conv1d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(F.mish(self.one(x)))


@pytest.mark.parametrize("name", ["tosa-fp", "vgf", "ethos-u85", "xnnpack"])
def test_class_and_attributes_are_kept(name: str) -> None:
    target = targets.get(name)
    for original, wrap, hooks in (
        (target.partitioner(), lowerfix.wrap_partitioner, ["transform_for_pre_decomposition", "partition"]),
        (target.quantizer(), lowerfix.wrap_quantizer, ["transform_for_annotation"]),
    ):
        attributes = dict(vars(original))
        wrapped = wrap(original, target=name)
        assert type(wrapped) is type(original)
        assert wrapped is not original
        assert vars(original) == attributes
        ours = dict(vars(wrapped))
        assert all(callable(ours.pop(hook)) for hook in hooks)
        assert ours == attributes


@pytest.mark.parametrize("wrap", [lowerfix.wrap_partitioner, lowerfix.wrap_quantizer])
def test_what_has_no_hook_is_refused(wrap: Any) -> None:
    with pytest.raises(LowerfixError, match=r"int is not .* it has no transform_for_"):
        wrap(7, target="tosa-fp")


@pytest.mark.parametrize("wrap", [lowerfix.wrap_partitioner, lowerfix.wrap_quantizer])
def test_an_unknown_target_is_refused_at_once(wrap: Any) -> None:
    with pytest.raises(LowerfixError, match="Did you mean 'tosa-fp'"):
        wrap(7, target="tosafp")


def test_a_wrapped_partitioner_alone_lowers_every_method_whole() -> None:
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    program = torch.export.export(Model().eval(), (X,))
    before = str(program)
    report = Report()
    partitioner = lowerfix.wrap_partitioner(targets.get("tosa-fp").partitioner(), target="tosa-fp", report=report)
    methods = {"one": program, "two": torch.export.export(Model().eval(), (X,))}
    edge = to_edge_transform_and_lower(
        methods, partitioner=[partitioner], compile_config=EdgeCompileConfig(_check_ir_validity=False)
    )
    assert edge.methods == {"one", "two"}
    for method in methods:
        left = [str(node.target) for node in edge.exported_program(method).graph.nodes if node.op == "call_function"]
        assert left[0] == "executorch_call_delegate"
        assert all("getitem" in name for name in left[1:])
    assert {"conv-transpose1d", "fold-constants"} <= {finding.pass_id for finding in report.of("rewritten")}
    assert str(program) == before


def test_options_reach_apply(refusing: Any) -> None:
    program = torch.export.export(Model().eval(), (X,))
    target = refusing("aten.mish.default", "aten.conv_transpose1d.default")
    partitioner = lowerfix.wrap_partitioner(
        targets.get("tosa-fp").partitioner(), target=target, skip=["mish", "decompose"]
    )
    result = partitioner.transform_for_pre_decomposition(program)
    names = {node.target for node in result.graph.nodes}
    assert aten.mish.default in names
    assert aten.conv_transpose1d.default not in names


def test_a_wrapped_quantizer_alone_annotates_mish() -> None:
    """``module()`` has guards by default, which Arm's quantizer dies on."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    model = ConvMish().eval()
    module = torch.export.export(model, (X,)).module()
    report = Report()
    quantizer = lowerfix.wrap_quantizer(targets.get("ethos-u85").quantizer(), target="ethos-u85", report=report)
    with torch.no_grad():
        prepared = prepare_pt2e(module, quantizer)
        prepared(X)
        quantized = torch.export.export(convert_pt2e(prepared), (X,))
    assert "mish" in {finding.pass_id for finding in report.of("rewritten")}
    again = lowerfix.apply(quantized, target="ethos-u85")
    lowered = lowering.lower(again, "ethos-u85", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert lowering.signal_to_noise(model(X).detach(), lowering.execute(lowered, (X,))[0]) > 20


def test_without_the_wrapper_mish_stays_on_the_cpu() -> None:
    """Why the wrapper is there; once this fails it can go."""
    program = torch.export.export(ConvMish().eval(), (X,))
    lowered = lowering.lower(lowering.quantize(program, "ethos-u85", [(X,)]), "ethos-u85", compile=False)
    assert lowered.delegates == 2
    assert "log1p" in lowered.cpu_ops


def test_what_stays_on_the_cpu_is_reported_with_the_backends_reason() -> None:
    class Gamma(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.lgamma(x * 2 + 1) * 3

    report = lowerfix.Report()
    target = lowerfix.targets.get("tosa-fp")
    plain = target.partitioner()
    partitioner = lowerfix.wrap_partitioner(plain, target="tosa-fp", report=report)
    program = torch.export.export(Gamma(), (torch.randn(4),))
    lowered = lowering.lower(program, "tosa-fp", compile=False, partitioner=partitioner)
    assert lowered.cpu_ops == {"lgamma": 1}
    dead, finding = report.of("left on the CPU")
    assert dead.pass_id == "no-kernel"
    assert "no kernel for aten::lgamma.out" in dead.reason
    assert finding.op == "aten.lgamma.default"
    assert "Not included" in finding.reason
    assert "were every aten.lgamma.default taken, there would be 1 fewer of 2" in finding.reason
    assert __file__ in finding.source
    assert "partition" not in vars(plain)


def test_random_numbers_without_a_kernel_are_refused_with_their_line() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.rand_like(x)

    program = torch.export.export(Noisy(), (X,))
    partitioner: Any = lowerfix.wrap_partitioner(targets.get("xnnpack").partitioner(), target="xnnpack")
    with pytest.raises(LowerfixError, match=r"test_wrappers.py.*random numbers.*random-to-input") as caught:
        partitioner.transform_for_pre_decomposition(program)
    assert "no-kernel" in str(caught.value)
    lenient: Any = lowerfix.wrap_partitioner(targets.get("xnnpack").partitioner(), target="xnnpack", skip="no-kernel")
    assert aten.rand_like.default in [
        node.target for node in lenient.transform_for_pre_decomposition(program).graph.nodes
    ]


def test_an_option_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="skp"):
        lowerfix.wrap_partitioner(targets.get("tosa-fp").partitioner(), target="tosa-fp", skp="mish")  # type: ignore[call-arg]
    with pytest.raises(LowerfixError, match="did you mean 'mish'"):
        lowerfix.wrap_partitioner(targets.get("tosa-fp").partitioner(), target="tosa-fp", skip="mishh")
