"""int32-inputs: int64 inputs that are only cast are taken as int32, where the user allows it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import lowerfix
from lowerfix import lowering
from lowerfix.report import Outcome, Report
from lowerfix.targets import Target
from lowerfix.testing import assert_same, export

aten = torch.ops.aten
ID = "int32-inputs"


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.linear = nn.Linear(8, 8)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.linear(self.embedding(tokens)) * mask[..., None].float()


INPUTS = (torch.tensor([[1, 9, 0, 3]]), torch.tensor([[1, 1, 0, 1]]))
NARROW = tuple(value.to(torch.int32) for value in INPUTS)


def applied(model: Any, inputs: Any, target: Any, allow: Any = ID) -> tuple[ExportedProgram, Report]:
    report = Report()
    program = export(model, inputs)
    return lowerfix.apply(program, target=target, report=report, allow=allow), report


@pytest.mark.slow
def test_tokens_and_a_mask_leave_nothing_on_the_cpu() -> None:
    model = Masked().eval()
    told, report = applied(model, INPUTS, "vgf", allow=())
    assert lowering.lower(told, "vgf", compile=False).cpu_ops == {"_to_dim_order_copy": 2}
    findings = [finding for finding in report.of(Outcome.DECLINED) if finding.pass_id == ID]
    assert [finding.pass_id for finding in findings] == [ID, ID]
    expected = "nothing else reads the input 'tokens'; allow=\"int32-inputs\" would help: the caller has to pass int32"
    assert expected in findings[0].reason
    assert "test_int32_inputs.py" in findings[0].source

    program, report = applied(model, INPUTS, "vgf")
    assert "the input 'mask' is int32 now" in str(report)
    assert [value.dtype for value in program.example_inputs[0]] == [torch.int32, torch.int32]
    lowered = lowering.lower(program, "vgf", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert_same(model(*INPUTS), lowering.execute(lowered, NARROW)[0], 1e-5)
    assert lowered.pte()
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert_same(model(*INPUTS), torch.export.load(file).module()(*NARROW))
    assert str(lowerfix.apply(program, target="vgf", allow=ID).graph) == str(program.graph)


class Padded(nn.Module):
    def forward(self, x: Tensor, mask: Tensor, kinds: Tensor) -> Tensor:
        return x.masked_fill(mask[:, None, :] == 0, -1e4) + (kinds * 2 - 1 > mask)[:, None].float()


def test_what_is_computed_of_a_mask_follows() -> None:
    model = Padded().eval()
    inputs = (torch.randn(2, 4, 4), torch.tensor([[1, 1, 0, 1]] * 2), torch.tensor([0, 1, 2, 0]))
    narrow = (inputs[0], *(value.to(torch.int32) for value in inputs[1:]))
    masked = lambda x, mask: x.masked_fill(mask[:, None, :] == 0, -1e4)  # noqa: E731
    _, report = applied(masked, inputs[:2], "vgf", allow=())
    assert "in int32 it can be computed, if the input" in str(
        [f.reason for f in report.of(Outcome.DECLINED) if f.pass_id == ID]
    )
    program, report = applied(masked, inputs[:2], "vgf")
    assert {finding.pass_id for finding in report.of(Outcome.REWRITTEN)} >= {ID, "narrow-int64"}
    lowered = lowering.lower(program, "vgf", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert_same(masked(*inputs[:2]), lowering.execute(lowered, narrow[:2])[0])

    # A product may exceed int32, so what reads it keeps its input.
    program, report = applied(model, inputs, "vgf")
    dtypes = {name: value.dtype for name, value in zip(("x", "mask", "kinds"), program.example_inputs[0], strict=True)}
    assert dtypes["kinds"] is torch.int64
    given = tuple(value.to(dtype) for value, dtype in zip(inputs, dtypes.values(), strict=True))
    assert_same(model(*inputs), program.module()(*given))


@pytest.mark.slow
def test_on_an_npu_the_quantized_program_keeps_them() -> None:
    rewritten, _ = applied(Masked(), INPUTS, "ethos-u85")
    quantized = lowerfix.apply(lowering.quantize(rewritten, "ethos-u85", [NARROW]), target="ethos-u85", allow=ID)
    lowered = lowering.lower(quantized, "ethos-u85", compile=False)
    assert "_to_dim_order_copy" not in lowered.cpu_ops
    lowering.execute(lowered, NARROW)


def casts(refusing: Callable[..., Target]) -> Target:
    return refusing("aten.to.dtype")


def test_a_graph_module_too(refusing: Callable[..., Target]) -> None:
    module = export(lambda x: x.to(torch.int32) + 1, (torch.arange(4),)).module(check_guards=False)
    result = lowerfix.apply(module, target=casts(refusing), allow=ID)
    assert [node.target for node in result.graph.nodes if node.op == "call_function"] == [aten.add.Tensor]
    assert result(torch.arange(4, dtype=torch.int32)).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "model",
    [
        lambda x: (x.to(torch.int32) + 1, x + 1),
        lambda x: x.to(torch.int32),
        lambda x: (x.to(torch.int32) + 1, x),
        lambda x: x.to(torch.float32),  # of int32 it is refused too
        lambda x: x + 1,
    ],
)
def test_other_inputs_stay(model: Callable[[Tensor], Any], refusing: Callable[..., Target]) -> None:
    program, report = applied(model, (torch.arange(4),), casts(refusing))
    [node] = [node for node in program.graph.nodes if node.op == "placeholder"]
    assert node.meta["val"].dtype is torch.int64
    assert not [finding for finding in report if finding.pass_id == ID]
    assert_same(model(torch.arange(4)), program.module()(torch.arange(4)))


def test_a_cast_that_the_backend_takes_stays(refusing: Callable[..., Target]) -> None:
    program, report = applied(lambda x: x.to(torch.int32) + 1, (torch.arange(4),), refusing())
    assert aten.to.dtype in [node.target for node in program.graph.nodes]
    assert not [finding for finding in report if finding.pass_id == ID]


def test_symbolic_sizes_and_keywords(refusing: Callable[..., Target]) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, *, shift: Tensor) -> Tensor:
            return x.to(torch.int32) + shift.to(torch.int32)

    program = torch.export.export(
        Model(),
        (torch.arange(4),),
        {"shift": torch.tensor(3)},
        dynamic_shapes={"x": {0: torch.export.Dim("n", max=64)}, "shift": None},
    )
    result = lowerfix.apply(program, target=casts(refusing), allow=ID)
    small = torch.tensor(3, dtype=torch.int32)
    assert result.module()(torch.arange(6, dtype=torch.int32), shift=small).tolist() == [3, 4, 5, 6, 7, 8]
