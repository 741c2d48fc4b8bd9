from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selection_inputs import SEEDS, SHAPES, SOME, special, whole
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection.running_maximum import cummax, cummax_float, cummin, cummin_float
from lowerfix.testing import assert_same

DTYPES = [torch.float32, torch.float16, torch.int8, torch.int32]


def every_form(x: Tensor) -> Any:
    return x.cummax(1)[0], x.cummin(2)[1].to(torch.int32)


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(3, 6, 4),)
    whole(every_form, inputs, "tosa-fp")


@SOME
@given(shape=SHAPES, seed=SEEDS, dtype=st.sampled_from(DTYPES))
def test_as_in_eager(shape: Any, seed: int, dtype: torch.dtype) -> None:
    x = special(shape, seed, dtype)
    for dim in range(-x.dim(), max(1, x.dim())):
        for form in (cummax, cummax_float):
            assert_same(list(x.cummax(dim)), list(form(x, dim)))
        for form in (cummin, cummin_float):
            assert_same(list(x.cummin(dim)), list(form(x, dim)))


def test_a_long_row_is_declined() -> None:
    with pytest.raises(Decline, match="pairs"):
        cummax(torch.zeros(1 << 12), 0)
