from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.passes.selection.sort import argsort, argsort_float, msort, msort_float, sort, sort_float
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


def whole(model: Any, inputs: tuple[Tensor, ...], target: str, tolerance: float = 0.0) -> None:
    """Lowered whole and equal to eager, on what breaks careless identities too."""
    lowered = lowering.lower(lowerfix.apply(export(model, inputs), target=target), target, compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    for trial in (inputs, *adversarial_inputs(inputs)):
        assert_same(list(model(*trial)), list(lowering.execute(lowered, trial)), tolerance)


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
