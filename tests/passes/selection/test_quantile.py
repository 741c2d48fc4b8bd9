from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selection_inputs import SEEDS, SHAPES, SOME, special, whole
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection import quantile as forms
from lowerfix.testing import assert_same

WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def every_form(x: Tensor) -> Any:
    return x.quantile(0.3, dim=1), x.nanquantile(0.3, dim=1)


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(3, 5, 4),)
    whole(every_form, inputs, "tosa-fp", 1e-5)


@SOME
@given(shape=SHAPES, seed=SEEDS, keepdim=st.booleans(), way=st.sampled_from(WAYS), q=st.floats(0, 1, width=32))
def test_as_in_eager(shape: Any, seed: int, keepdim: bool, way: str, q: float) -> None:
    x = special(shape, seed)
    several = torch.tensor([q, 0.5, 1.0])
    for dim in [None, *range(-x.dim(), x.dim())]:
        options = {"dim": dim, "keepdim": keepdim, "interpolation": way}
        for form in (forms.quantile, forms.quantile_float):
            assert_same(x.quantile(q, **options), form(x, q, **options), 1e-6)
        assert_same(x.nanquantile(q, **options), forms.nanquantile(x, q, **options), 1e-6)
        assert_same(x.quantile(several, **options), forms.quantile_of_tensor(x, several, **options), 1e-6)
        assert_same(x.nanquantile(several[0], **options), forms.nanquantile_of_tensor(x, several[0], **options), 1e-6)


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="float64"):
        forms.quantile(torch.zeros(3, dtype=torch.float64), 0.5)
    with pytest.raises(Decline, match="q is empty"):
        forms.quantile_of_tensor(torch.zeros(3), torch.zeros(0))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("number", [1.5, -0.0, torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("keepdim", [False, True])
def test_one_element_is_all_there_is(number: float, interpolation: str, keepdim: bool) -> None:
    for x, dim in ((torch.tensor(number), None), (torch.tensor([[number]]), None), (torch.tensor([[number]]), -2)):
        result = forms.quantile_of_one(x, 0.3, dim, keepdim, interpolation=interpolation)
        assert_same(x.quantile(0.3, dim, keepdim, interpolation=interpolation), result)
        assert_same(x.nanquantile(0.3, dim, keepdim, interpolation=interpolation), result)
    with pytest.raises(Decline, match="several elements"):
        forms.quantile_of_one(torch.ones(2), 0.3)
