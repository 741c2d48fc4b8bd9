from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selection_inputs import SEEDS, SHAPES, SOME, special, whole
from torch import Tensor

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.selection.argmax import argmax, argmax_of_integers
from lowerfix.testing import assert_same, export

DTYPES = [torch.float32, torch.int8, torch.int32]


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
