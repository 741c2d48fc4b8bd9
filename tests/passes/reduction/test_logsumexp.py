import pytest
import torch

from lowerfix import lowering
from lowerfix.api import apply
from lowerfix.errors import Decline
from lowerfix.passes.reduction.logsumexp import logsumexp
from lowerfix.testing import adversarial, assert_same, export


@pytest.mark.slow
def test_xnnpack_takes_it() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.logsumexp(-1), x.logsumexp((0, 2), keepdim=True)

    x = torch.randn(2, 3, 4)
    lowered = lowering.lower(apply(export(model, (x,)), target="xnnpack"), "xnnpack", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    for variant in (x, *adversarial(x)):
        assert_same(model(variant), list(lowering.execute(lowered, [variant])), 1e-5)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [[0], [-1], [0, 2], [0, 1, 2]])
def test_every_dimension(dims: list[int], keepdim: bool) -> None:
    x = torch.randn(2, 3, 4)
    for variant in (x, x * 100, *adversarial(x)):
        assert_same(torch.logsumexp(variant, dims, keepdim), logsumexp(variant, dims, keepdim), 1e-6)


def test_declines_say_why() -> None:
    with pytest.raises(Decline, match="int64"):
        logsumexp(torch.ones(2).long(), [0])
    with pytest.raises(Decline, match="no element"):
        logsumexp(torch.ones(0, 2), [1])
