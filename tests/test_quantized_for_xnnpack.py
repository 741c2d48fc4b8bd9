"""What XNNPACK's quantizer took stays as it is: in pieces it would be computed in floats, or not at all."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import lowerfix
from lowerfix.report import Report


class PaddedConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(1, 4, (8, 1), padding="same")

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.key, self.value, self.query = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return (self.query(x) @ self.key(x).transpose(1, 2)).softmax(-1) @ self.value(x)


@pytest.mark.parametrize(
    ("model", "inputs", "dynamic"),
    [
        (PaddedConvolution(), (torch.randn(1, 1, 32, 1),), False),
        (Attention(), (torch.randn(1, 6, 8),), True),
    ],
    ids=["static", "dynamic"],
)
def test_quantized_layers_stay_whole(model: nn.Module, inputs: tuple[Tensor, ...], dynamic: bool) -> None:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    quantizer: Any = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic))
    program = lowerfix.apply(torch.export.export(model.eval(), inputs), target="xnnpack")
    prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
    prepared(*inputs)
    program = torch.export.export(convert_pt2e(prepared), inputs)
    layers = {torch.ops.aten.conv2d.padding, torch.ops.aten.linear.default}
    before = [node.target for node in program.graph.nodes if node.target in layers]
    assert before
    report = Report()
    after = lowerfix.apply(program, target="xnnpack", report=report)
    assert [node.target for node in after.graph.nodes if node.target in layers] == before
    assert not [finding for finding in report.of("rewritten") if finding.pass_id == "computed-weight"]
