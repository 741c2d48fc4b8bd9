import torch
import torch.nn.functional as F

import lowerfix
from lowerfix.testing import assert_same, export


class Fresh(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = torch.nn.Conv1d(4, 4, 1), torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mish(self.norm(F.mish(self.layer(x), inplace=True)), inplace=True)


INPUTS = (torch.randn(2, 4, 8),)


def test_a_fresh_tensor_is_not_changed_in_place() -> None:
    program = export(Fresh(), INPUTS)
    report = lowerfix.Report()
    result = lowerfix.apply(program, target="vgf", report=report)
    assert [str(n.target) for n in result.graph.nodes].count("aten.mish.default") == 2
    assert {finding.pass_id for finding in report.of("rewritten")} == {"out-of-place"}
    assert_same(program.module()(*INPUTS), result.module()(*INPUTS))


def test_a_graph_module_is_served_too() -> None:
    module = export(Fresh(), INPUTS).module(check_guards=False)
    result = lowerfix.apply(module, target="xnnpack")
    assert "mish" not in result.code
    assert_same(module(*INPUTS), result(*INPUTS), 2e-6)


def test_what_others_read_keeps_its_numbers() -> None:
    def read_again(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z = y.relu()
        F.mish(y, inplace=True)
        return y + z

    def through_a_view(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        F.mish(y[0], inplace=True)
        return y

    for function in (read_again, through_a_view):
        program = export(function, INPUTS)
        result = lowerfix.apply(program, target="xnnpack")
        assert "mish" not in str(result.graph)
        assert_same(program.module()(*INPUTS), result.module()(*INPUTS), 2e-6)


def test_a_graph_module_that_shows_the_difference_is_declined() -> None:
    def through_a_view(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        F.mish(y[0], inplace=True)
        return y

    module = export(through_a_view, INPUTS).module(check_guards=False)
    report = lowerfix.Report()
    result = lowerfix.apply(module, target="xnnpack", report=report)
    assert_same(module(*INPUTS), result(*INPUTS))
    [finding] = [finding for finding in report.of("declined") if finding.pass_id == "out-of-place"]
    assert "in place" in finding.reason
    assert "ExportedProgram" in finding.reason


def test_in_place_ops_that_no_rewrite_serves_are_left_alone() -> None:
    program = export(lambda x: (x * 2.0).relu_(), INPUTS)
    assert str(lowerfix.apply(program, target="xnnpack").graph) == str(program.graph)


def test_a_tensor_written_in_the_models_code_is_a_constant() -> None:
    program = export(lambda x: x[:, torch.tensor([2, 0])], (torch.randn(3, 4),))
    assert "detach_" in str(program.graph)
    result = lowerfix.apply(program, target="vgf")
    assert [str(n.target) for n in result.graph.nodes if n.op == "call_function"] == ["aten.index_select.default"]
