from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.selection import quantile as forms
from lowerfix.testing import adversarial_inputs, assert_same, export


def special(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Ties, NaN, infinities and signed zeros, or a type's extremes, at random places."""
    if dtype.is_floating_point:
        nan, inf = float("nan"), float("inf")
        choice = torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, 1.0, 2.0, -1.5, 3.0], dtype=dtype)
    elif dtype == torch.bool:
        choice = torch.tensor([False, True])
    else:
        choice = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max, 0, 1, 1, 2], dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    return choice[torch.randint(len(choice), shape, generator=generator)]


SHAPES = st.lists(st.integers(1, 5), min_size=0, max_size=3).map(tuple)
SEEDS = st.integers(0, 1 << 30)
SOME = settings(max_examples=40, deadline=None)

WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def whole(model: Any, inputs: tuple[Tensor, ...], target: str, tolerance: float = 0.0) -> None:
    """Lowered whole and equal to eager, on what breaks careless identities too."""
    lowered = lowering.lower(lowerfix.apply(export(model, inputs), target=target), target, compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    for trial in (inputs, *adversarial_inputs(inputs)):
        assert_same(list(model(*trial)), list(lowering.execute(lowered, trial)), tolerance)


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
