import pytest
import torch

import lowerfix
from lowerfix import lowering
from lowerfix.testing import assert_same, export


@pytest.mark.slow
def test_a_computed_tensor_in_another_order_is_asked_about_as_it_will_be() -> None:
    norm, places = torch.nn.LayerNorm(16).eval(), torch.randn(3, 4, 16)
    image = torch.randn(3, 16, 2, 2)

    def function(x: torch.Tensor) -> torch.Tensor:
        return norm(x.flatten(2).transpose(1, 2) + places)

    result = lowerfix.apply(export(function, (image,)), target="xnnpack")
    lowered = lowering.lower(result, "xnnpack", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert_same([function(image).detach()], list(lowering.execute(lowered, (image,))), 1e-5)
