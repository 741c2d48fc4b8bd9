import pytest
import torch

import lowerfix
from lowerfix.passes.reduction import without_dimensions
from lowerfix.testing import assert_same, check_rewrite, export

X = torch.tensor(1.5)


def test_it_goes_whole() -> None:
    check_rewrite(
        lambda x: (x.sum(0, keepdim=True) * 2, x.amax(), x.logsumexp(0)),
        (X,),
        target="tosa-fp",
        expect="without-dimensions",
        tolerance=1e-6,
    )


@pytest.mark.parametrize("op", without_dimensions.OPS, ids=str)
@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), -0.0])
def test_the_value_is_that_of_eager(op: torch._ops.OpOverload, value: float) -> None:
    x = torch.tensor(value)
    many = (
        op._schema.arguments[1].type.kind() in ("ListType", "OptionalType") if len(op._schema.arguments) > 1 else False
    )
    needed = [] if op is torch.ops.aten.sum.default else [[0] if many else 0]
    assert_same(op(x, *needed), without_dimensions.of_one_element(op)(x, *needed), 1e-6)


def test_a_dimension_that_is_kept_is_removed_again() -> None:
    function = without_dimensions.of_one_element(torch.ops.aten.amax.default)
    assert_same(X.amax(0, keepdim=True), function(X, [0], True))


def test_tensors_with_dimensions_are_declined_with_the_reason_and_left_alone() -> None:
    with pytest.raises(lowerfix.Decline, match="has dimensions"):
        without_dimensions.of_one_element(torch.ops.aten.sum.default)(torch.ones(2))
    program = export(lambda x: (x.sum(0), x.amax()), (torch.ones(2, 3),))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
