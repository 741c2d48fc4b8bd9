from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selection_inputs import SEEDS, SHAPES, SOME, special, whole
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection import order_statistics as forms
from lowerfix.testing import assert_same


def every_form(x: Tensor) -> Any:
    return x.kthvalue(3, 1)[0], x.median(), x.nanmedian(-1)[0]


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(3, 6, 4),)
    whole(every_form, inputs, "tosa-fp")


@SOME
@given(
    shape=SHAPES,
    seed=SEEDS,
    keepdim=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.int8, torch.int32]),
)
def test_as_in_eager(shape: Any, seed: int, keepdim: bool, dtype: torch.dtype) -> None:
    x = special(shape, seed, dtype)
    for dim in range(-x.dim(), max(1, x.dim())):
        k = 1 + seed % (x.shape[dim] if x.dim() else 1)
        for form in (forms.kthvalue, forms.kthvalue_float):
            agrees(x, dim, keepdim, x.kthvalue(k, dim, keepdim), form(x, k, dim, keepdim))
        for form in (forms.median, forms.median_float):
            agrees(x, dim, keepdim, x.median(dim, keepdim), form(x, dim, keepdim))
        for form in (forms.nanmedian, forms.nanmedian_float):
            agrees(x, dim, keepdim, x.nanmedian(dim, keepdim), form(x, dim, keepdim))
    assert_same(x.median(), forms.median_of_all(x))
    assert_same(x.median(), forms.median_of_all_float(x))
    assert_same(x.nanmedian(), forms.nanmedian_of_all(x))
    assert_same(x.nanmedian(), forms.nanmedian_of_all_float(x))


def agrees(x: Tensor, dim: int, keepdim: bool, wanted: Any, got: Any) -> None:
    assert_same(wanted[0], got[0])
    assert (got[1].shape, got[1].dtype) == (wanted[1].shape, wanted[1].dtype)
    index = got[1] if keepdim or x.dim() == 0 else got[1].unsqueeze(dim)
    named = x.gather(dim, index)
    assert_same(wanted[0], named if keepdim or x.dim() == 0 else named.squeeze(dim))


@pytest.mark.parametrize("number", [1.5, -0.0, torch.inf, -torch.inf, torch.nan])
def test_one_element_is_its_own_median(number: float) -> None:
    for x in (torch.tensor(number), torch.tensor([[number]])):
        assert_same(x.median(), forms.median_of_one(x))
        assert_same(x.nanmedian(), forms.median_of_one(x))
    with pytest.raises(Decline, match="several elements"):
        forms.median_of_one(torch.ones(2))


def test_a_long_row_is_declined() -> None:
    with pytest.raises(Decline, match="comparisons"):
        forms.median_of_all(torch.zeros(1 << 10, 1 << 6))
