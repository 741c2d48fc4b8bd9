from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.selection.argmax import argmax, argmax_of_integers
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
DTYPES = [torch.float32, torch.int8, torch.int32]
SEEDS = st.integers(0, 1 << 30)
SOME = settings(max_examples=40, deadline=None)


def whole(model: Any, inputs: tuple[Tensor, ...], target: str, tolerance: float = 0.0) -> None:
    """Lowered whole and equal to eager, on what breaks careless identities too."""
    lowered = lowering.lower(lowerfix.apply(export(model, inputs), target=target), target, compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    for trial in (inputs, *adversarial_inputs(inputs)):
        assert_same(list(model(*trial)), list(lowering.execute(lowered, trial)), tolerance)


def every_form(x: Tensor) -> Any:
    return x.argmax().to(torch.int32), x.argmax(1, keepdim=True).to(torch.int32)


def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(3, 6, 4),)
    whole(every_form, inputs, "tosa-fp")


def test_a_form_that_is_taken_is_left_alone() -> None:
    program = export(lambda x: x.argmax(-1).to(torch.int32), (torch.randn(3, 5),))
    report = lowerfix.Report()
    lowerfix.apply(program, target="vgf", report=report)
    assert {finding.pass_id for finding in report.findings} <= {"strip-guards"}


@SOME
@given(shape=SHAPES, seed=SEEDS, keepdim=st.booleans(), dtype=st.sampled_from(DTYPES))
def test_as_in_eager(shape: Any, seed: int, keepdim: bool, dtype: torch.dtype) -> None:
    x = special(shape, seed, dtype)
    for dim in [None, *range(-x.dim(), max(1, x.dim()))]:
        assert_same(x.argmax(dim, keepdim), argmax(x, dim, keepdim))
        if not dtype.is_floating_point:
            assert_same(x.argmax(dim, keepdim), argmax_of_integers(x, dim, keepdim))


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="float32"):
        argmax_of_integers(torch.zeros(3))
    with pytest.raises(Decline, match="complex"):
        argmax(torch.zeros(3, dtype=torch.complex64))
