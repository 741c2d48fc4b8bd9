from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selection_inputs import SEEDS, SHAPES, SOME, special
from torch import Tensor

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.selection import max_with_indices as forms
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export


def every_form(x: Tensor) -> Any:
    (largest, first), (least, last) = x.max(1), x.min(-1, keepdim=True)
    return largest, first.to(torch.int32), least, last.to(torch.int32)


def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(3, 6, 4),)
    expect = "max-with-indices"
    check_rewrite(every_form, inputs, target="tosa-fp", expect=expect, lowered_inputs=list(adversarial_inputs(inputs)))


def test_values_alone_are_left_to_the_backend_that_takes_them() -> None:
    program = export(lambda x: x.max(1).values, (torch.randn(3, 5),))
    assert "max.dim" in str(lowerfix.apply(program, target="tosa-fp").graph)


@SOME
@given(
    shape=SHAPES,
    seed=SEEDS,
    keepdim=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.int8, torch.int64]),
)
def test_as_in_eager(shape: Any, seed: int, keepdim: bool, dtype: torch.dtype) -> None:
    x = special(shape, seed, dtype)
    for dim in range(-x.dim(), max(1, x.dim())):
        assert_same(list(x.max(dim, keepdim)), list(forms.max_with_indices(x, dim, keepdim)))
        assert_same(list(x.min(dim, keepdim)), list(forms.min_with_indices(x, dim, keepdim)))


def test_complex_numbers_are_declined() -> None:
    with pytest.raises(Decline, match="complex"):
        forms.max_with_indices(torch.zeros(2, dtype=torch.complex64), 0)
