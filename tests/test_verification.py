"""``explain(verify=...)``: which rewrite changes the numbers, and what the lowered program computes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lowerfix
from lowerfix import lowering
from lowerfix.base import Context, Pass
from lowerfix.errors import LowerfixError
from lowerfix.program import Program
from lowerfix.report import Outcome, Report
from lowerfix.testing import export
from lowerfix.verification import compare, evaluate

X = torch.linspace(-2, 2, 32).reshape(1, 4, 8)


class Counting(nn.Module):
    """Has a state, a rewrite that is exact and one within rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(8))
        self.count: Tensor

    def forward(self, x: Tensor) -> Any:
        self.count.add_(1.0)
        return F.mish(x) + self.count, x.argmin(-1).to(torch.int32)


class Careless(Pass):
    """Rounds ones up."""

    id: ClassVar[str] = "careless"

    def run(self, program: Program, context: Context) -> bool:
        for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.add_.Tensor):
            if node.args[1] == 1.0:
                context.find(self.id, node, Outcome.REWRITTEN, "it is nearly the same")
                node.args = (node.args[0], 1.01)
                return True
        return False


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return export(Counting(), (X,))


def test_what_is_lowered_is_executed_and_compared(program: torch.export.ExportedProgram) -> None:
    stages: list[str] = []
    report = lowerfix.explain(program, target="tosa-fp", verify=[(X,), (-X,)], progress=stages.append)
    found = report.verified
    assert found is not None
    assert (found.error, found.drift, found.drifted, found.quantized) == ("", "", (), ())
    numbers, places = found.lowered
    assert (numbers.output, places.output) == ("0", "1")
    assert numbers.max_abs < 1e-5
    assert numbers.snr > 100
    assert places.snr == math.inf
    assert places.max_abs == places.max_rel == 0
    assert program.state_dict["count"].eq(0).all()
    assert "verifying: executing" in stages
    assert "verifying: executing" in report.seconds
    text = report.to_json()
    jsonschema.validate(
        json.loads(text), json.loads(Path(lowerfix.__file__).with_name("report.schema.json").read_text())
    )
    assert '"snr": "inf"' in text
    assert Report.from_json(text).verified == found


def test_the_first_rewrite_that_drifts_is_named(program: torch.export.ExportedProgram) -> None:
    pipeline = lowerfix.Pipeline.default().with_(Careless())
    called: list[Any] = []
    pipeline = pipeline.with_callback(lambda before, working, after: called.append(before))
    found = lowerfix.explain(program, target="tosa-fp", pipeline=pipeline, verify=(X,)).verified
    assert found is not None
    assert found.drift.startswith("careless (aten.add_.Tensor at ")
    assert __file__ in found.drift
    assert found.drifted[0].max_abs == pytest.approx(0.01, rel=1e-3)
    assert found.drifted[1].snr == math.inf
    assert found.lowered[0].max_abs == pytest.approx(0.01, rel=1e-3)
    assert called


def test_nobody_asked(program: torch.export.ExportedProgram) -> None:
    assert lowerfix.explain(program, target="tosa-fp").verified is None


def test_inputs_are_those_of_the_export_or_given(program: torch.export.ExportedProgram) -> None:
    found = lowerfix.explain(program, target="tosa-fp", verify=True).verified
    assert found is not None
    assert len(found.lowered) == 2
    with pytest.raises(LowerfixError, match="verify needs inputs"):
        lowerfix.explain(program, target="tosa-fp", verify=[])
    for wrong, problem in (
        ((X, X), "takes 1 inputs, and 2 were given"),
        (X, "verify needs inputs"),
        (3, "verify needs inputs"),
        ([X], "verify needs inputs"),
        ((X[..., :1],), "has shape"),
        ((2.0,), "got float"),
    ):
        with pytest.raises(LowerfixError, match=problem):
            lowerfix.explain(program, target="tosa-fp", verify=wrong)
    with pytest.raises(LowerfixError, match="calibration is a list of tuples"):
        lowerfix.explain(program, target="tosa-fp", calibration=3)  # type: ignore[arg-type]


def test_a_program_that_writes_to_its_input_leaves_the_given_one() -> None:
    given = torch.rand(3)
    before = given.clone()

    def model(x: torch.Tensor) -> torch.Tensor:
        x.add_(1.0)
        return x * torch.sqrt(x)

    found = lowerfix.explain(export(model, (torch.rand(3),)), target="tosa-fp", verify=(given,)).verified
    assert torch.equal(given, before)
    assert found is not None
    assert found.drift == ""


def test_what_cannot_be_lowered_is_told() -> None:
    masked = export(lambda x, keep: x[keep] * 2, (X[0], torch.tensor([True, False, True, True])))
    found = lowerfix.explain(masked, target="vgf", verify=True).verified
    assert found is not None
    assert "index.Tensor requires index dtype must be int32" in found.error
    assert found.lowered == ()


@pytest.mark.slow
def test_int8_is_compared_with_the_float_model() -> None:
    class Conv(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.conv = nn.Conv1d(4, 4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return F.mish(self.conv(x))

    found = lowerfix.explain(export(Conv(), (X,)), target="tosa-int", verify=True).verified
    assert found is not None
    assert found.drift == ""
    assert 20 < found.lowered[0].snr < 60
    assert found.lowered[0].snr == pytest.approx(found.quantized[0].snr, abs=3)


def test_a_program_is_evaluated_without_changing_it() -> None:
    model = Counting()
    program = export(model, (X,))
    for _ in range(2):
        numbers, places = evaluate(Program(program), (X,))
        assert torch.equal(numbers, F.mish(X) + 1)
        assert torch.equal(places, X.argmin(-1).to(torch.int32))
    functional = program.run_decompositions({})
    assert torch.equal(evaluate(Program(functional), (X,))[0], numbers)


def test_outputs_are_compared_one_by_one() -> None:
    one, other = [torch.tensor([1.0, 2.0])], [torch.tensor([1.0, 2.5])]
    [found] = compare([one], [other])
    assert found.max_abs == 0.5
    assert found.max_rel == 0.25
    assert found.snr == pytest.approx(10 * math.log10(5 / 0.25))
    assert lowering.max_rel_error([torch.zeros(1)], [torch.ones(1)]) == math.inf
    assert lowering.max_rel_error([torch.zeros(0)], [torch.zeros(0)]) == 0
    nan, infinite = torch.tensor([math.nan]), torch.tensor([math.inf])
    assert lowering.max_rel_error([nan], [nan]) == lowering.max_rel_error([infinite], [infinite]) == 0
    assert lowering.max_rel_error([infinite], [torch.ones(1)]) == math.inf
    with pytest.raises(LowerfixError, match="2 outputs instead of 1"):
        compare([one], [[*one, *one]])
