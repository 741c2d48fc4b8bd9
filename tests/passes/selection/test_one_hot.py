from typing import Any

import pytest
import torch
import torch.nn.functional as F
from selection_inputs import whole
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection.one_hot import one_hot, one_hot_float
from lowerfix.testing import assert_same


def of_the_best(x: Tensor) -> Any:
    return (F.one_hot(x.argmax(-1), 6).float(),)


@pytest.mark.slow
def test_of_the_best_class_goes_whole() -> None:
    inputs = (torch.randn(4, 6),)
    whole(of_the_best, inputs, "tosa-fp")


@pytest.mark.parametrize("form", [one_hot, one_hot_float])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_as_in_eager(form: Any, shape: tuple[int, ...]) -> None:
    x = torch.randint(0, 5, shape)
    assert_same(F.one_hot(x, 5), form(x, 5))


def test_an_unknown_number_of_classes_is_declined() -> None:
    with pytest.raises(Decline, match="depends on the data"):
        one_hot(torch.tensor([1, 2]))
    with pytest.raises(Decline, match="more than float32"):
        one_hot_float(torch.tensor([1, 2]), 1 << 24)
