import pytest
import torch
from torch import Tensor

import lowerfix
from lowerfix import passes
from lowerfix.testing import assert_same, export

x, y = torch.randn(3, 4), torch.randn(4)
FORMS = {
    "copy": lambda a, b: torch.ops.aten.copy.default(a, torch.cat([a, a])[:3] * 2),
    "copy, broadcast": lambda a, b: torch.ops.aten.copy.default(a, b),
    "copy, cast": lambda a, b: torch.ops.aten.copy.default(a.to(torch.int32), b * 10),
    "fill": lambda a, b: torch.ops.aten.fill.Scalar(a, 2),
    "fill with a tensor": lambda a, b: torch.ops.aten.fill.Tensor(a, b[0]),
    "fill, cast": lambda a, b: torch.ops.aten.fill.Tensor(a.to(torch.int32), b[0] * 10),
    "zero": lambda a, b: torch.ops.aten.zero.default(a.to(torch.int32)),
    "fill_ of a view": lambda a, b: _filled(a),
}


def _filled(a: Tensor) -> Tensor:
    a = a.clone()
    a[1:].fill_(2)
    a[0].zero_()
    return a


@pytest.mark.parametrize("form", FORMS)
def test_nothing_reads_what_is_overwritten(form: str) -> None:
    program = export(FORMS[form], (x, y))
    result = passes.get("overwrite", target="vgf")(program)
    assert result.modified
    assert result.exported_program is not None
    names = [str(node.target) for node in result.exported_program.graph.nodes if node.op == "call_function"]
    assert not any(name.startswith(("aten.copy", "aten.fill", "aten.zero.")) for name in names)
    assert_same(FORMS[form](x, y), result.exported_program.module()(x, y))


def test_a_module_with_in_place_ops_is_left_alone() -> None:
    module = export(lambda a, b: (_filled(a), torch.ops.aten.copy.default(a, b)), (x, y)).module(check_guards=False)
    result = lowerfix.apply(module, target="vgf")
    assert any(node.target is torch.ops.aten.copy.default for node in result.graph.nodes)


def test_a_copy_from_complex_to_real_and_one_of_symbolic_size_stay() -> None:
    program = export(lambda a, b: torch.ops.aten.copy.default(torch.complex(a, a), b), (x, y))
    assert not passes.get("overwrite", target="vgf")(program).modified
    rows = torch.export.Dim("rows")
    program = export(FORMS["copy, broadcast"], (x, y), dynamic_shapes=(({0: rows}, None),))
    assert not passes.get("overwrite", target="vgf")(program).modified
