import io

import torch

import lowerfix
from lowerfix.program import Program, depends_on_data
from lowerfix.testing import assert_same, export

X, MASK = torch.randn(4, 3), torch.tensor([True, False, True, True])


def test_ops_of_a_size_that_depends_on_data_are_left_alone() -> None:
    program = export(lambda x, m: torch.nn.functional.mish(x[m]), (X, MASK))
    assert [node.name for node in program.graph.nodes if depends_on_data(node)] == [
        "index",
        "sym_size_int",
        "mish",
        "output",
    ]
    report = lowerfix.Report()
    result = lowerfix.apply(program, target="vgf", report=report)
    assert "mish" in str(result.graph)
    assert {finding.pass_id for finding in report.of("declined")} == {"promised-masks", "masked-rows"}


def test_a_further_output_is_in_signature_and_structure() -> None:
    for function in (lambda x: x * 2, lambda x: (x * 2, x + 1), lambda x: {"a": x * 2}):
        program = export(function, (X,))
        working = Program(program)
        first = next(node for node in working.graph.nodes if node.op == "call_function")
        working.add_output(first)
        working.check()
        result = working.build()
        assert isinstance(result, torch.export.ExportedProgram)
        file = io.BytesIO()
        torch.export.save(result, file)
        file.seek(0)
        before = function(X)
        expected = (*before, X * 2) if isinstance(before, tuple) else (before, X * 2)
        assert_same(expected, torch.export.load(file).module()(X))
