"""Targets: names, what is built for each, the reasons of the real partitioners, and targets of other packages."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lowerfix import targets
from lowerfix.errors import LowerfixError
from lowerfix.targets.base import Requirement, Target
from lowerfix.targets.xnnpack import Xnnpack

ETHOS_U = ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"]
ALL = ["vgf", *ETHOS_U, "tosa-fp", "tosa-int", "xnnpack"]


class Refused(nn.Module):
    """No target here takes atan2, or the cast of an int64 index."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.atan2(x, x + 1), x.argmin(-1).to(torch.int32)


def edge_program(module: nn.Module, *inputs: Tensor) -> torch.export.ExportedProgram:
    from executorch.exir import EdgeCompileConfig, to_edge

    program = torch.export.export(module, inputs)
    return to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False)).exported_program()


def reasons(name: str) -> tuple[torch.export.ExportedProgram, dict[str, str]]:
    target = targets.get(name)
    program = edge_program(Refused(), torch.randn(3, 4))
    with target.rejections() as found:
        target.partitioner().partition(program)
    return program, found


@pytest.mark.parametrize(
    ("alias", "name"), [("ethos-u55", "ethos-u55-128"), ("ethos-u65", "ethos-u65-256"), ("ethos-u85", "ethos-u85-256")]
)
def test_bare_name_is_the_default_configuration(alias: str, name: str) -> None:
    assert targets.get(alias) == targets.get(name)
    assert targets.get(alias).name == name


def test_every_name_is_known() -> None:
    assert {*ALL, "ethos-u55", "ethos-u55-32", "ethos-u65-512", "ethos-u85-2048"} <= set(targets.names())
    assert all(targets.get(name).name in targets.names() for name in targets.names())


def test_a_target_is_returned_as_it_is() -> None:
    target = targets.get("vgf")
    assert targets.get(target) is target


@pytest.mark.parametrize(
    ("name", "near"), [("etos-u85", "ethos-u85"), ("ethos-u85-257", "ethos-u85-256"), ("XNNPACK", "xnnpack")]
)
def test_unknown_name_gets_the_nearest_and_all(name: str, near: str) -> None:
    with pytest.raises(LowerfixError, match=f"Did you mean '{near}'") as error:
        targets.get(name)
    assert "tosa-fp" in str(error.value)


def test_nothing_near_means_no_suggestion() -> None:
    with pytest.raises(LowerfixError) as error:
        targets.get("??")
    assert "Did you mean" not in str(error.value)


def test_only_integer_backends_are_quantized() -> None:
    assert [name for name in ALL if targets.get(name).quantized] == [*ETHOS_U, "tosa-int"]


def test_importing_targets_imports_no_framework() -> None:
    code = (
        "import sys, lowerfix.targets as t; [t.get(n).versions() for n in t.names()]; t.get('vgf').check_installed();"
        "assert not {'torch', 'executorch', 'torchao'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ALL)
def test_versions_are_those_that_decide(name: str) -> None:
    versions = targets.get(name).versions()
    assert versions["torch"] == torch.__version__
    assert ("tosa-tools" in versions) == (name != "xnnpack")
    assert "ethos-u-vela" not in versions  # Vela comes after the partitioner


@pytest.mark.parametrize("name", ALL)
def test_builds_what_it_says(name: str) -> None:
    target = targets.get(name)
    target.check_installed(compile=True)
    device, executable = target.partitioner(), target.executable_partitioner()
    assert executable.delegation_spec.backend_id == ("XnnpackBackend" if name == "xnnpack" else "TOSABackend")
    if name != "xnnpack":
        assert str(device.tosa_spec) == str(executable.tosa_spec)
        assert device._requires_resolved_tensor_shapes == executable._requires_resolved_tensor_shapes
    assert type(target.quantizer()).__name__.lower().startswith(name.split("-")[0])


def test_missing_packages_are_named_with_the_command() -> None:
    class Elsewhere(Xnnpack):
        requirements = (
            Requirement("torch", "torch"),
            Requirement("no_such_module", "no-such-distribution"),
            Requirement("no_such_compiler", "no-such-compiler", compile_only=True),
        )

    with pytest.raises(LowerfixError, match=r"pip install no-such-distribution$"):
        Elsewhere("npu").check_installed()
    with pytest.raises(LowerfixError, match=r"pip install no-such-distribution no-such-compiler$"):
        Elsewhere("npu").check_installed(compile=True)
    assert set(Elsewhere("npu").versions()) == {"torch"}


@pytest.mark.parametrize("name", ["vgf", "ethos-u85", "tosa-fp"])
def test_arm_says_why(name: str) -> None:
    program, found = reasons(name)
    tagged = {node.name for node in program.graph.nodes if "delegation_tag" in node.meta}
    refused = {node.name for node in program.graph.nodes if node.op == "call_function"} - tagged
    assert "aten_atan2_default" in refused
    assert refused <= set(found)
    assert {program.graph_signature.user_inputs[0], "output"}.isdisjoint(found)


def test_xnnpack_says_why() -> None:
    _, found = reasons("xnnpack")
    assert found["dim_order_ops__to_dim_order_copy_default"] == "invalid dtype"


def test_rejections_leave_executorch_as_it_was() -> None:
    from executorch.exir.backend.utils import WhyNoPartition, WhyNoPartitionReporter

    before = WhyNoPartition.__call__, WhyNoPartitionReporter.report_reject
    with pytest.raises(RuntimeError, match="inside"), targets.get("vgf").rejections():
        raise RuntimeError("inside")
    assert (WhyNoPartition.__call__, WhyNoPartitionReporter.report_reject) == before


def test_rejections_nest() -> None:
    target = targets.get("tosa-fp")
    with target.rejections() as outer:
        with target.rejections() as inner:
            target.partitioner().partition(edge_program(Refused(), torch.randn(3, 4)))
        assert inner == outer != {}


PLUGIN = """
from dataclasses import dataclass
from lowerfix.targets.xnnpack import Xnnpack

TARGET = Xnnpack("my-npu")

def make():
    return Xnnpack("my-npu")

WRONG = object()
"""


def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Install a distribution that adds the target `my-npu`."""
    (tmp_path / "my_npu.py").write_text(PLUGIN)
    metadata = tmp_path / "my_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[lowerfix.targets]\nmy-npu = {value}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_npu", raising=False)


@pytest.mark.parametrize("value", ["my_npu:TARGET", "my_npu:make"])
def test_other_packages_add_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    plugin(tmp_path, monkeypatch, value)
    assert "my-npu" in targets.names()
    assert isinstance(targets.get("my-npu"), Target)


@pytest.mark.parametrize("value", ["my_npu:WRONG", "my_npu:missing", "no_such_module:TARGET"])
def test_broken_plugin_fails_alone_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    plugin(tmp_path, monkeypatch, value)
    assert targets.get("vgf").name == "vgf"
    with pytest.raises(LowerfixError, match="my-package"):
        targets.get("my-npu")


def test_entry_point_group_is_the_documented_one() -> None:
    assert targets.GROUP in (targets.__doc__ or "")
    assert EntryPoint("a", "b:c", targets.GROUP).group == "lowerfix.targets"
