"""int32-outputs: int64 results that fit int32 are given as int32, where the user allows it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import lowerfix
from lowerfix import lowering
from lowerfix.report import Outcome, Report
from lowerfix.targets import Target
from lowerfix.testing import adversarial_inputs, assert_same, export

aten = torch.ops.aten
ID = "int32-outputs"


def applied(model: Any, inputs: Any, target: Any, allow: Any = ID) -> tuple[Any, Report]:
    report = Report()
    return lowerfix.apply(export(model, inputs), target=target, report=report, allow=allow), report


class Indices(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"best": x.argmax(-1), "top": x.topk(2), "none": None}


def test_indices_leave_nothing_on_the_cpu() -> None:
    model, inputs = Indices(), (torch.randn(3, 5),)
    int64, report = applied(model, inputs, "vgf", allow=())
    told = [finding for finding in report.of(Outcome.DECLINED) if finding.pass_id == ID]
    assert len(told) == 2
    assert 'allow="int32-outputs" would help: the caller gets int32' in told[0].reason
    assert lowering.lower(int64, "vgf", compile=False).cpu_ops == {"_to_dim_order_copy": 2}

    program, report = applied(model, inputs, "vgf")
    assert "the output is int32 now" in str(report)
    lowered = lowering.lower(program, "vgf", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert lowered.pte()
    for (x,) in adversarial_inputs(inputs):
        # topk of equals is free to choose, so the program with int64 outputs is what to compare with.
        wide, narrow = ([v for v in tree_leaves(p.module()(x)) if v is not None] for p in (int64, program))
        assert [value.dtype for value in narrow] == [torch.int32, torch.float32, torch.int32]
        assert_same(wide, [value.to(given.dtype) for value, given in zip(narrow, wide, strict=True)])
    assert_same(model(*inputs)["top"][1].int(), lowering.execute(lowered, inputs)[2])
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert_same(program.module()(*inputs), torch.export.load(file).module()(*inputs))
    assert str(lowerfix.apply(program, target="vgf", allow=ID).graph) == str(program.graph)


def casts(refusing: Callable[..., Target]) -> Target:
    return refusing("aten.to.dtype")


@pytest.mark.parametrize("model", [lambda x: (x > 1).long(), lambda x: x.to(torch.int16).long()])
def test_narrower_numbers_become_int32(model: Callable[[Tensor], Tensor], refusing: Callable[..., Target]) -> None:
    x = torch.tensor([1, 2, 3], dtype=torch.int32)
    program, _ = applied(model, (x,), casts(refusing))
    assert_same(model(x).to(torch.int32), program.module()(x))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.float().long(),  # may exceed int32
        lambda x: x + 1,
        lambda x: (x.bool().long(), x.bool().long() + x),
    ],
)
def test_other_outputs_stay(model: Callable[[Tensor], Any], refusing: Callable[..., Target]) -> None:
    x = torch.arange(4)
    program, _ = applied(model, (x,), casts(refusing))
    assert_same(tree_leaves(model(x))[-1], tree_leaves(program.module()(x))[-1])


def test_a_buffer_stays_int64(refusing: Callable[..., Target]) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("best", torch.zeros(3, dtype=torch.int64))

        def forward(self, x: Tensor) -> Tensor:
            best = (x > 0).long()
            self.best.copy_(best)
            return x + 1

    program, report = applied(Counting(), (torch.randn(3),), casts(refusing))
    assert not [finding for finding in report if finding.pass_id == ID]
    program.module()(torch.randn(3))


def test_a_graph_module_too(refusing: Callable[..., Target]) -> None:
    module = export(lambda x: (x > 0).long(), (torch.randn(3),)).module(check_guards=False)
    result = lowerfix.apply(module, target=casts(refusing), allow=ID)
    assert result(torch.tensor([1.0, -1.0, 0.0])).dtype is torch.int32
