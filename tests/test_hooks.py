"""One pass object goes unchanged into the pass managers of torch and of EXIR."""

import torch
import torch.nn.functional as F
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from executorch.exir.pass_manager import ExportedProgramPassManager
from executorch.exir.pass_manager import PassManager as GraphModulePassManager
from torch.fx.passes.infra.pass_base import PassResult
from torch.fx.passes.infra.pass_manager import PassManager

import lowerfix
from lowerfix import passes
from lowerfix.testing import assert_same, export

INPUTS = (torch.randn(2, 8),)


class Activated(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mish(self.layer(x))


MODEL = Activated().eval()


def test_called_by_itself_it_returns_a_pass_result_and_more() -> None:
    program = export(MODEL, INPUTS)
    result = passes.Mish(target="xnnpack")(program)
    assert isinstance(result, PassResult)
    assert result.modified
    assert result.graph_module is result.exported_program.graph_module
    assert [finding.pass_id for finding in result.findings] == ["mish"]
    assert_same(program.module()(*INPUTS), result.exported_program.module()(*INPUTS), 2e-6)


def test_torchs_pass_manager() -> None:
    module = export(MODEL, INPUTS).module(check_guards=False)
    result = PassManager(passes=[passes.get("mish", target="xnnpack")])(module)
    assert "mish" not in result.graph_module.code
    assert_same(module(*INPUTS), result.graph_module(*INPUTS), 2e-6)


def test_exirs_pass_managers() -> None:
    program = export(MODEL, INPUTS)
    result = ExportedProgramPassManager([passes.get("mish", target="xnnpack")])(program)
    assert "mish" not in str(result.exported_program.graph)
    assert_same(program.module()(*INPUTS), result.exported_program.module()(*INPUTS), 2e-6)
    module = program.module(check_guards=False)
    assert "mish" not in GraphModulePassManager([passes.get("mish", target="xnnpack")])(module).graph_module.code


def test_in_edge_dialect_it_is_dormant_and_breaks_nothing() -> None:
    mish = passes.get("mish", target="xnnpack")
    config = EdgeCompileConfig(_check_ir_validity=False)
    lowered = to_edge_transform_and_lower(
        export(MODEL, INPUTS),
        transform_passes=[mish],
        partitioner=[lowerfix.targets.get("xnnpack").partitioner()],
        compile_config=config,
    )
    assert "log1p" in str(lowered.exported_program().graph)
    edge = to_edge(export(MODEL, INPUTS), compile_config=config)
    assert str(edge.transform([mish]).exported_program().graph) == str(edge.exported_program().graph)
    assert [finding.outcome for finding in mish(edge.exported_program()).findings] == [lowerfix.Outcome.DORMANT]
