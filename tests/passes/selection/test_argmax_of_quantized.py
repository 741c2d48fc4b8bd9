import pytest
import torch

import lowerfix
from lowerfix import lowering
from lowerfix.testing import export


def _quantized(function, target="ethos-u85"):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 16)
    inputs = (torch.randn(6, 8),)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(self.layer(x))

    return lowering.quantize(export(Model(), inputs), target, [inputs]), inputs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_integers_decide_and_the_npu_takes_it_whole(name: str) -> None:
    program, inputs = _quantized(lambda y: getattr(y, name)(-1).to(torch.int32))
    assert lowering.lower(program, "ethos-u85", compile=False).cpu_ops  # what stock leaves
    report = lowerfix.Report()
    result = lowerfix.apply(program, target="ethos-u85", report=report)
    assert "argmax-of-quantized" in {finding.pass_id for finding in report.of("rewritten")}
    assert torch.equal(program.module()(*inputs), result.module()(*inputs))
    lowered = lowering.lower(result, "ethos-u85", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert torch.equal(lowering.execute(lowered, inputs)[0], program.module()(*inputs))


def test_ties_made_by_quantization_go_to_the_first() -> None:
    program, _ = _quantized(lambda y: y.argmax(-1).to(torch.int32))
    result = lowerfix.apply(program, target="ethos-u85")
    x = torch.full((6, 8), 1e-6)
    assert torch.equal(program.module()(x), result.module()(x))


def test_targets_that_compute_in_float_keep_it() -> None:
    program, _ = _quantized(lambda y: y.argmax(-1).to(torch.int32), target="vgf")
    report = lowerfix.Report()
    lowerfix.apply(program, target="vgf", report=report)
    assert "argmax-of-quantized" not in {finding.pass_id for finding in report}


def test_a_scale_for_each_channel_is_left_alone() -> None:
    def model(q: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
        ops = torch.ops.quantized_decomposed
        return ops.dequantize_per_channel(q, scales, zeros, 1, -128, 127, torch.int8).argmax(-1)

    inputs = (torch.zeros(2, 4, dtype=torch.int8), torch.ones(4), torch.zeros(4, dtype=torch.int64))
    program = export(model, inputs)
    result = lowerfix.apply(program, target="ethos-u85")
    assert "dequantize_per_channel" in str(result.graph)


def test_wide_integers_are_left_alone() -> None:
    def model(q: torch.Tensor) -> torch.Tensor:
        ops = torch.ops.quantized_decomposed
        return ops.dequantize_per_tensor(q, 0.1, 0, -(2**31), 2**31 - 1, torch.int32).argmax(-1)

    result = lowerfix.apply(export(model, (torch.zeros(2, 4, dtype=torch.int32),)), target="ethos-u85")
    assert "dequantize_per_tensor" in str(result.graph)
