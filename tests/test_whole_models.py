"""Whole models, from export to the reference model: what stock ExecuTorch splits goes over in one piece."""

from typing import Any

import models
import pytest
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import lowerfix
from lowerfix import demo_model, lowering, targets
from lowerfix.testing import assert_same, check_rewrite

LIKE_REAL_ONES = [models.DiffusionUnet, models.WorldModel, models.CodebookPolicy, models.TextEncoder]
EVERY_IDEA = {"argmin", "conv-transpose1d", "index-to-int32", "fold-constants"}


def test_the_robot_policy_is_whole_on_vgf() -> None:
    model = demo_model.RobotPolicy().eval()
    inputs = demo_model.example_inputs()
    stock = lowering.lower(torch.export.export(model, inputs), "vgf", compile=False)
    assert stock.delegates > 1
    assert stock.cpu_ops
    checked = check_rewrite(model, inputs, target="vgf", expect=EVERY_IDEA, tolerance=1e-5)
    assert (checked.lowered.delegates, checked.lowered.cpu_ops) == (1, {})


@pytest.mark.slow
def test_the_robot_policy_is_whole_on_ethos_u85_within_int8_noise() -> None:
    """Int8 itself costs what the quantized model in eager differs by; lowering must cost nothing more."""
    model = demo_model.RobotPolicy().eval()
    calibration = demo_model.calibration_inputs()
    inputs = demo_model.example_inputs()
    program = lowerfix.apply(torch.export.export(model, inputs), target="ethos-u85")
    quantized = lowering.quantize(program, "ethos-u85", calibration)
    program = lowerfix.apply(quantized, target="ethos-u85")
    lowered = lowering.lower(program, "ethos-u85", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert (lowered.boundary_quantize, lowered.inner_quantize) == (2, 0)
    with torch.no_grad():
        eager, int8 = model(*inputs), quantized.module(check_guards=False)(*inputs)
    outputs = lowering.execute(lowered, inputs)
    assert lowering.signal_to_noise(int8, outputs) > 35
    assert lowering.signal_to_noise(eager, outputs) > lowering.signal_to_noise(eager, int8) - 0.5


def test_in_int8_the_robot_policy_keeps_what_its_codebook_lets_it_keep() -> None:
    """An entry of the codebook that is looked up wrongly costs 10 dB in one input, so it takes several to tell."""
    model = demo_model.RobotPolicy().eval()
    inputs = demo_model.calibration_inputs(25)
    program = lowerfix.apply(torch.export.export(model, inputs[0]), target="ethos-u85")
    int8 = lowering.quantize(program, "ethos-u85", inputs[:4]).module(check_guards=False)
    with torch.no_grad():
        ratios = [lowering.signal_to_noise(model(*values), int8(*values)) for values in inputs[1:]]
    assert sum(ratios) / len(ratios) > 17.5


@pytest.mark.parametrize("check_guards", [True, False])
def test_a_convolution_and_a_mean_with_their_guards_run_on_ethos_u85(check_guards: bool) -> None:
    class ConvMean(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Conv2d(3, 8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).mean((2, 3))

    model, inputs = ConvMean().eval(), (torch.randn(1, 3, 16, 16),)
    quantizer = lowerfix.wrap_quantizer(targets.get("ethos-u85").quantizer(), target="ethos-u85")
    module = torch.export.export(model, inputs).module(check_guards=check_guards)
    prepared = prepare_pt2e(module, quantizer)
    prepared(*inputs)
    program = torch.export.export(convert_pt2e(prepared), inputs)
    partitioner = lowerfix.wrap_partitioner(targets.get("ethos-u85").executable_partitioner(), target="ethos-u85")
    lowered = lowering.lower(program, "ethos-u85", compile=False, partitioner=partitioner)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert lowering.signal_to_noise(model(*inputs), lowering.execute(lowered, inputs)) > 25


def test_a_wrapped_partitioner_alone_makes_a_block_whole() -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.up, self.order = torch.nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1), torch.tensor([2, 0])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.mish(self.up(x))[:, self.order]

    model, inputs = Block().eval(), (torch.randn(1, 8, 12),)
    report = lowerfix.Report()
    partitioner = lowerfix.wrap_partitioner(targets.get("vgf").executable_partitioner(), target="vgf", report=report)
    lowered = lowering.lower(torch.export.export(model, inputs), "vgf", compile=False, partitioner=partitioner)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert {"conv-transpose1d", "index-to-int32"} <= {finding.pass_id for finding in report.of("rewritten")}
    with torch.no_grad():
        assert_same([model(*inputs)], list(lowering.execute(lowered, inputs)), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIKE_REAL_ONES)
def test_models_like_real_ones_are_whole_on_vgf(kind: Any) -> None:
    model, inputs = models.made(kind), kind.inputs()
    program = lowerfix.apply(torch.export.export(model, inputs), target="vgf")
    lowered = lowering.lower(program, "vgf", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    with torch.no_grad():
        assert lowering.max_abs_error(model(*inputs), lowering.execute(lowered, inputs)) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIKE_REAL_ONES)
def test_models_like_real_ones_are_whole_on_ethos_u85(kind: Any) -> None:
    """And lowering adds no noise to that of int8 itself."""
    model, inputs = models.made(kind), kind.inputs()
    program = lowerfix.apply(torch.export.export(model, inputs), target="ethos-u85")
    quantized = lowering.quantize(program, "ethos-u85", [kind.inputs(seed) for seed in range(4)])
    lowered = lowering.lower(lowerfix.apply(quantized, target="ethos-u85"), "ethos-u85", compile=False)
    assert (lowered.delegates, lowered.cpu_ops, lowered.inner_quantize) == (1, {}, 0)
    outputs = lowering.execute(lowered, inputs)
    with torch.no_grad():
        int8 = quantized.module(check_guards=False)(*inputs)
    assert lowering.signal_to_noise(int8, outputs) > 35
