from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selection_inputs import SEEDS, SHAPES, SOME, special, whole
from torch import Tensor

from lowerfix.passes.selection.sort import argsort, argsort_float, msort, msort_float, sort, sort_float
from lowerfix.testing import assert_same


def every_form(x: Tensor) -> Any:
    return torch.sort(x, dim=1, descending=True, stable=True)[1].to(torch.int32), x[0].msort()


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(3, 6, 4),)
    whole(every_form, inputs, "tosa-fp")


@SOME
@given(
    shape=SHAPES,
    seed=SEEDS,
    descending=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.int8, torch.int32, torch.bool]),
)
def test_as_a_stable_sort_in_eager(shape: Any, seed: int, descending: bool, dtype: torch.dtype) -> None:
    x = special(shape, seed, dtype)
    for dim in range(-x.dim(), max(1, x.dim())):
        wanted = torch.sort(x, dim=dim, descending=descending, stable=True)
        forms = ((sort, argsort), (sort_float, argsort_float)) if dtype != torch.bool else ((sort, argsort),)
        for both, index in forms:
            assert_same(list(wanted), list(both(x, dim, descending, stable=True)))
            assert_same(wanted[1], index(x, dim, descending))
    if x.dim() and dtype != torch.bool:
        assert_same(x.msort(), msort(x))
        assert_same(x.msort(), msort_float(x))
