from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.linear_algebra import stored_weight
from lowerfix.testing import check_rewrite, export


class Weights(nn.Module):
    """A function of inputs that reads stored tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.square, self.tall = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(8, 6))
        self.vector, self.bias = nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(6))
        self.rows, self.matrix = nn.Parameter(torch.randn(5, 4)), nn.Parameter(torch.randn(4, 6))

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    def forms(m: Weights, x: Tensor, row: Tensor, batch: Tensor) -> tuple[Tensor, ...]:
        x, row, batch = (t.clamp(-8, 8) for t in (x, row, batch))  # a sum in another order overflows elsewhere
        return (
            row @ m.tall,
            x @ m.vector,
            m.rows @ x,
            m.rows @ batch,
            m.vector[:4] @ batch,
            m.square @ row,
            torch.addmm(m.bias, x, m.tall, alpha=2, beta=0.5),
            torch.addmm(m.matrix, x, m.tall),
            torch.addmv(m.vector, m.square, row, alpha=3),
            F.linear(x, m.vector),
            torch.mv(x, m.vector),
        )

    inputs = (torch.randn(4, 8), torch.randn(8), torch.randn(2, 4, 3))
    check_rewrite(Weights(forms), inputs, target="xnnpack", expect="stored-weight", tolerance=1e-4)


@pytest.mark.slow
def test_a_dynamic_batch_goes_whole() -> None:
    model, x = Weights(lambda m, x: torch.relu(x @ m.tall)), torch.randn(2, 4, 8)
    program = export(model, (x,), dynamic_shapes={"inputs": ({0: torch.export.Dim("batch", max=8)},)})
    lowered = lowering.lower(lowerfix.apply(program, target="xnnpack"), "xnnpack", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    for size in (1, 7):
        more = torch.randn(size, 4, 8)
        torch.testing.assert_close(lowering.execute(lowered, (more,))[0], model(more))


@pytest.mark.slow
def test_stock_ignores_what_is_scaled_and_added() -> None:
    """Once one of these fails, the backend is right and a rewrite that corrects it can be retired."""
    x = torch.randn(4, 8)
    for function in (
        lambda m, x: torch.addmm(m.bias, x, m.tall, alpha=2, beta=0.5),
        lambda m, x: torch.addmm(m.matrix, x, m.tall),
    ):
        model = Weights(function)
        [result] = lowering.execute(lowering.lower(export(model, (x,)), "xnnpack", compile=False), (x,))
        assert not torch.allclose(result, model(x), atol=1e-3)
    stock = lowering.lower(export(Weights(lambda m, x: F.linear(x, m.vector)), (x,)), "xnnpack", compile=False)
    with pytest.raises(RuntimeError):
        lowering.execute(stock, (x,))


def test_products_that_the_backend_takes_are_left_alone() -> None:
    model = Weights(lambda m, x: (x @ m.tall, torch.addmm(m.bias, x, m.tall), F.linear(x, m.square)))
    program = export(model, (torch.randn(4, 8),))
    assert str(lowerfix.apply(program, target="xnnpack").graph) == str(program.graph)


def test_declines() -> None:
    x = torch.randn(8, 8)
    with pytest.raises(Decline, match="neither factor"):
        stored_weight.matmul(x, x)
    with pytest.raises(Decline, match="neither factor"):
        stored_weight.addmm(x, x, x)
    with pytest.raises(Decline, match="int64"):
        stored_weight.matmul(x.long(), x.long())
    with pytest.raises(Decline, match="is a matrix"):
        stored_weight.linear(x, x)
