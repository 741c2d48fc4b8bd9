import pytest
import torch

import lowerfix
from lowerfix import lowering
from lowerfix.testing import assert_same, export

X, MASK = torch.randn(4, 3), torch.tensor([True, False, True, True])
ONLY = ["strip-guards", "not-empty"]


def doubled(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    rows = x[m]
    torch._check(rows.shape[0] != 0)
    return rows[None] * 2


def test_the_bound_is_one_where_zero_is_excluded() -> None:
    result = lowerfix.apply(export(doubled, (X, MASK)), target="xnnpack", only=ONLY)
    assert [n.args[1] for n in result.graph.nodes if n.name.startswith("ge")] == [1]
    result.validate()
    assert str(lowerfix.apply(result, target="xnnpack", only=ONLY).graph) == str(result.graph)
    assert_same(doubled(X, MASK), result.module()(X, MASK))


def test_a_size_that_may_be_zero_keeps_its_bound() -> None:
    result = lowerfix.apply(export(lambda x, m: x[m] * 2, (X, MASK)), target="xnnpack", only=ONLY)
    assert [n.args[1] for n in result.graph.nodes if n.name.startswith("ge")] == [0]


@pytest.mark.slow
def test_the_file_is_made_and_runs_where_stock_fails() -> None:
    program = export(doubled, (X, MASK))
    with pytest.raises(Exception, match="Could not guard"):
        lowering.lower(program, "xnnpack", compile=False).pte()
    result = lowerfix.apply(export(doubled, (X, MASK)), target="xnnpack")
    [outputs] = lowering.execute(lowering.lower(result, "xnnpack", compile=False), (X, MASK))
    assert_same(doubled(X, MASK), outputs)
