"""``lowerfix.apply``: what it takes, what it gives back, and what it says when it cannot."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule

import lowerfix
from lowerfix import lowering, targets
from lowerfix.errors import LowerfixError
from lowerfix.program import Program
from lowerfix.report import Outcome, Report
from lowerfix.targets import base

aten = torch.ops.aten
X = torch.linspace(-4, 4, 64).reshape(1, 4, 16)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.ConvTranspose1d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.mish(self.up(x))


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    return torch.export.export(Model().eval(), (X,))


@pytest.fixture
def target(refusing: Callable[..., Any]) -> Any:
    return refusing("aten.mish.default", "aten.conv_transpose1d.default")


def ops(program: ExportedProgram | GraphModule) -> list[Any]:
    return [node.target for node in program.graph.nodes if node.op == "call_function"]


def fired(report: Report) -> set[str]:
    return {finding.pass_id for finding in report.of("rewritten")}


# What goes in and comes out -------------------------------------------------------------------------------------------


def test_the_type_that_was_given_is_returned(program: ExportedProgram, target: Any) -> None:
    assert type(lowerfix.apply(program, target=target)) is ExportedProgram
    module = lowerfix.apply(program.module(), target=target)
    assert isinstance(module, GraphModule)
    methods = lowerfix.apply({"forward": program, "encode": program}, target=target)
    assert list(methods) == ["forward", "encode"]
    assert all(type(method) is ExportedProgram for method in methods.values())


def test_methods_share_the_weights_that_they_shared(program: ExportedProgram, target: Any) -> None:
    methods = lowerfix.apply({"one": program, "two": program}, target=target)
    assert methods["one"].state_dict["up.bias"] is methods["two"].state_dict["up.bias"]


def test_a_report_that_is_given_is_filled(program: ExportedProgram, target: Any) -> None:
    report = Report()  # empty, so falsy
    lowerfix.apply(program, target=target, report=report)
    assert fired(report) == {"conv-transpose1d", "mish", "fold-constants"}
    [finding] = [finding for finding in report if finding.pass_id == "mish"]
    assert (finding.node, finding.op, finding.outcome) == ("mish", "aten.mish.default", Outcome.REWRITTEN)
    file, _, line = finding.source.rpartition(":")
    assert file == __file__
    with open(__file__, encoding="utf-8") as lines:
        assert "F.mish(self.up(x))" in list(lines)[int(line) - 1]


def test_one_report_collects_several_calls(program: ExportedProgram, target: Any) -> None:
    report = Report()
    lowerfix.apply(program, target=target, report=report, only="mish")
    first = len(report)
    lowerfix.apply(program, target=target, report=report, only="mish")
    assert len(report) == first
    lowerfix.apply(program, target=target, report=report)
    assert len(report) > first


def test_a_second_run_has_nothing_left_to_do(program: ExportedProgram, target: Any) -> None:
    once = lowerfix.apply(program, target=target)
    report = Report()
    twice = lowerfix.apply(once, target=target, report=report)
    assert str(twice.graph) == str(once.graph)
    assert list(twice.state_dict) == list(once.state_dict)
    assert not report


def test_passes_are_chosen(program: ExportedProgram, target: Any) -> None:
    def run(**options: Any) -> set[str]:
        report = Report()
        lowerfix.apply(program, target=target, report=report, **options)
        return fired(report)

    assert run(skip="mish") == {"conv-transpose1d", "fold-constants", "decompose"}
    assert run(skip=["mish", "decompose"]) == {"conv-transpose1d", "fold-constants"}
    assert run(skip=["mish", "decompose", "fold-constants"]) == {"conv-transpose1d"}
    assert run(only="mish") == {"mish"}
    assert run(only=("mish", "conv-transpose1d"), skip="mish") == {"conv-transpose1d"}
    assert run(only=()) == set()
    assert run(pipeline=lowerfix.Pipeline(["mish"])) == {"mish"}


@pytest.mark.parametrize("option", ["skip", "only"])
def test_an_unknown_pass_gets_the_nearest(option: str, program: ExportedProgram, target: Any) -> None:
    with pytest.raises(LowerfixError, match=r"unknown pass 'fold-constant'; did you mean 'fold-constants'\?"):
        lowerfix.apply(program, target=target, **{option: "fold-constant"})


def test_an_unknown_target_gets_the_nearest(program: ExportedProgram) -> None:
    with pytest.raises(LowerfixError, match="Did you mean 'ethos-u85'"):
        lowerfix.apply(program, target="ethosu85")


@pytest.mark.parametrize("wrong", [Model(), None, X, "model", [1]], ids=lambda value: type(value).__name__)
def test_what_is_no_program_is_refused(wrong: Any) -> None:
    with pytest.raises(LowerfixError, match=rf"got a {type(wrong).__name__}\b.*Next step: torch\.export\.export"):
        lowerfix.apply(wrong, target="tosa-fp")


def test_a_method_that_is_no_program_is_named(program: ExportedProgram, target: Any) -> None:
    with pytest.raises(LowerfixError, match="got a Model for method 'decode'"):
        lowerfix.apply({"encode": program, "decode": Model()}, target=target)


@pytest.mark.parametrize(
    ("name", "module", "advice"),
    [("vgf", "tosa_serializer", "pip install tosa-tools"), ("xnnpack", "executorch", "pip install executorch")],
)
def test_a_missing_package_is_named(
    name: str, module: str, advice: str, program: ExportedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(base, "find_spec", lambda name, *rest: None if name == module else real(name, *rest))
    with pytest.raises(LowerfixError, match=advice):
        lowerfix.apply(program, target=name)


def test_the_devices_compiler_is_not_needed(program: ExportedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    compilers = ("ethosu", "model_converter")
    monkeypatch.setattr(base, "find_spec", lambda name, *rest: None if name in compilers else real(name, *rest))
    lowerfix.apply(program, target="vgf", only=())
    lowerfix.apply(program, target="ethos-u85", only=())


def test_importing_lowerfix_imports_neither_torch_nor_executorch() -> None:
    code = "import lowerfix, sys; assert not any(m.startswith(('torch', 'executorch')) for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there() -> None:
    assert set(lowerfix.__all__) <= set(dir(lowerfix))
    for name in lowerfix.__all__:
        assert getattr(lowerfix, name) is not None


# Stages ---------------------------------------------------------------------------------------------------------------


def test_a_program_in_edge_dialect_is_returned_as_it_is(program: ExportedProgram) -> None:
    from executorch.exir import EdgeCompileConfig, to_edge

    edge = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False)).exported_program()
    report = Report()
    assert lowerfix.apply(edge, target="tosa-fp", report=report) is edge
    assert {finding.outcome for finding in report} == {Outcome.DORMANT}
    assert {"mish", "conv-transpose1d"} <= {finding.pass_id for finding in report}
    assert all("before to_edge" in finding.reason for finding in report)


def test_a_float_program_for_an_integer_target_is_told_to_be_quantized(program: ExportedProgram) -> None:
    report = Report()
    lowerfix.apply(program, target="ethos-u85", only=(), report=report)
    [finding] = report
    assert finding.outcome is Outcome.DORMANT
    assert "int8 only" in finding.reason
    assert "prepare_pt2e" in finding.reason


@pytest.fixture(scope="module")
def quantized() -> ExportedProgram:
    model = nn.Sequential(nn.Conv1d(4, 4, 1), nn.Mish()).eval()
    return lowering.quantize(torch.export.export(model, (X,)), "ethos-u85", [(X,)])


def test_mish_that_was_left_float_by_the_quantizer_is_dormant(quantized: ExportedProgram) -> None:
    report = Report()
    result = lowerfix.apply(quantized, target="ethos-u85", report=report)
    assert aten.mish.default in ops(result)
    [finding] = [finding for finding in report.of("dormant") if finding.pass_id == "mish"]
    assert "before prepare_pt2e" in finding.reason
    assert "wrap_quantizer" in finding.reason


# The real backends ----------------------------------------------------------------------------------------------------


def test_a_rewritten_program_is_lowered_whole(program: ExportedProgram) -> None:
    after = lowering.lower(lowerfix.apply(program, target="tosa-fp"), "tosa-fp", compile=False)
    assert (after.delegates, after.cpu_ops) == (1, {})
    torch.testing.assert_close(lowering.execute(after, (X,))[0], Model().eval()(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["xnnpack", "ethos-u85"])
def test_a_dynamic_batch_is_not_pinned_by_asking(name: str) -> None:
    """The probe is made of the program's own symbolic sizes."""
    shapes = ({0: Dim("batch", min=1, max=8)},)
    program = torch.export.export(nn.Mish(), (torch.randn(2, 4, 16),), dynamic_shapes=shapes)
    sizes = Program(program).fake_mode.shape_env
    before = str(program), str(sizes.guards), str(sizes.replacements), str(sizes.var_to_range)
    result = lowerfix.apply(program, target=name)
    assert (str(program), str(sizes.guards), str(sizes.replacements), str(sizes.var_to_range)) == before
    x = torch.randn(7, 4, 16)
    torch.testing.assert_close(result.module()(x), F.mish(x))


class Native(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose1d(4, 4, 3)

    def forward(self, x: Tensor) -> Any:
        return F.silu(x), F.elu(x), self.up(x), x.argmax(-1).to(torch.int32)


@pytest.mark.parametrize(
    ("name", "native"),
    [
        ("xnnpack", [aten.conv_transpose1d.default]),
        ("ethos-u85", [aten.silu.default, aten.elu.default]),
        ("vgf", [aten.silu.default, aten.elu.default, aten.argmax.default]),
    ],
)
def test_what_the_backend_takes_is_left_alone(name: str, native: list[Any]) -> None:
    program = torch.export.export(Native().eval(), (X,))
    report = Report()
    result = lowerfix.apply(program, target=targets.get(name), report=report)
    assert set(native) <= set(ops(result))
    assert not {f"{op.name().replace('::', '.')}" for op in native} & {finding.op for finding in report.of("rewritten")}


def test_threads_take_turns() -> None:
    import threading

    program = torch.export.export(nn.ConvTranspose1d(4, 4, 3).eval(), (torch.randn(1, 4, 8),))
    expected = str(lowerfix.apply(program, target="tosa-fp").graph)
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.append(str(lowerfix.apply(program, target="tosa-fp").graph)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": None}, "a target is a name"),
        ({"skip": 3}, "skip takes the id of a pass"),
        ({"only": [object()]}, "only takes the id of a pass"),
        ({"pipeline": []}, "pipeline has to be a lowerfix.Pipeline"),
        ({"report": {}}, "report has to be a lowerfix.Report"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str) -> None:
    program = torch.export.export(nn.Mish(), (torch.randn(4),))
    with pytest.raises(LowerfixError, match=message):
        lowerfix.apply(program, **{"target": "tosa-fp", **options})


def test_a_module_of_torch_fx_is_refused_and_says_what_to_do() -> None:
    module = torch.fx.symbolic_trace(nn.Sequential(nn.Mish(), nn.ConvTranspose1d(4, 4, 3)))
    with pytest.raises(LowerfixError, match=r"no ATen ops.*torch\.export\.export"):
        lowerfix.apply(module, target="tosa-fp")


def test_a_model_without_code_of_the_users_names_its_module() -> None:
    report = Report()
    program = torch.export.export(nn.Sequential(nn.ReLU(), nn.ConvTranspose1d(4, 4, 3)).eval(), (torch.randn(1, 4, 8),))
    lowerfix.apply(program, target="tosa-fp", report=report)
    assert {finding.source for finding in report} == {"module 1 (ConvTranspose1d)"}


def test_sizes_that_another_lowering_left_behind_do_no_harm(refusing: Any) -> None:
    """``to_edge`` of executorch 1.5.1 leaves some in the shape environment, for masks in decompositions."""
    program = torch.export.export(Masked(), (torch.ones(4), torch.ones(4, dtype=torch.bool)))
    values = [node.meta["val"] for node in program.graph.find_nodes(op="placeholder")]
    environment = values[0].fake_mode.shape_env
    environment.create_unbacked_symint()
    assert environment.pending_fresh_unbacked_symbols
    result = lowerfix.apply(program, target=refusing("aten.mish.default"), only="mish")
    assert torch.ops.aten.mish.default not in [node.target for node in result.graph.nodes]


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mish(x)[keep]
