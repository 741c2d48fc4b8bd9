from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selection_inputs import SEEDS, SHAPES, SOME, special
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.selection import _ranking
from lowerfix.passes.selection.topk import topk, topk_float
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

FORMS = (topk, topk_float)


def both(x: Tensor) -> Any:
    """Both readers of topk; equal elements have no order of indices, but the same values."""
    largest, first = x.topk(3, 1)
    return largest, x.gather(1, first), x.topk(2, -1, largest=False, sorted=False).values


@pytest.mark.slow
@pytest.mark.parametrize("target", ["vgf", "tosa-fp"])
def test_values_and_indices_go_whole(target: str) -> None:
    inputs = (torch.randn(3, 7, 4),)
    expect = ["topk", "gather"]
    check_rewrite(both, inputs, target=target, expect=expect, lowered_inputs=list(adversarial_inputs(inputs)))


@pytest.mark.slow
def test_int8_selects_the_quantized_elements_and_no_others() -> None:
    x = torch.randn(3, 16)

    def model(x: Tensor) -> Any:
        values, indices = x.topk(4, -1)
        return values, x.gather(1, indices)

    checked = check_rewrite(model, (x,), target="ethos-u85", expect=["topk", "gather"], least_signal_to_noise=30.0)
    assert checked.lowered.cpu_ops == {}


@pytest.mark.slow
def test_rows_picked_by_topk() -> None:
    def rows(scores: Tensor, table: Tensor) -> Tensor:
        return table[scores.topk(3).indices]

    inputs = (torch.tensor([0.1, 0.9, -0.3, 0.5, 0.7]), torch.randn(5, 4))
    program = export(rows, inputs)
    lowered = lowering.lower(lowerfix.apply(program, target="vgf"), "vgf", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert_same(rows(*inputs), lowering.execute(lowered, inputs)[0])


@SOME
@given(
    shape=SHAPES,
    seed=SEEDS,
    largest=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.int8, torch.int32]),
)
def test_every_place_is_that_of_a_stable_sort(shape: Any, seed: int, largest: bool, dtype: torch.dtype) -> None:
    x = special(shape, seed, dtype)
    for dim in range(-x.dim(), max(1, x.dim())):
        k = 1 + seed % (x.shape[dim] if x.dim() else 1)
        wanted = torch.sort(x, dim=dim, descending=largest, stable=True)
        first = [part.narrow(dim, 0, k) if x.dim() else part for part in wanted]
        for form in FORMS:
            assert_same(first, list(form(x, k, dim, largest)))
            assert_same(x.topk(k, dim, largest)[0], form(x, k, dim, largest)[0])


@pytest.mark.parametrize("form", FORMS)
def test_long_rows_are_compared_in_blocks(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = special((2, 23), 5)
    wanted = torch.sort(x, dim=1, descending=True, stable=True)
    monkeypatch.setattr(_ranking, "BLOCK", 2 * 23 * 4)
    assert_same([part[:, :9] for part in wanted], list(form(x, 9, 1)))


@pytest.mark.parametrize(
    ("x", "k", "reason"),
    [
        (torch.zeros(4, 1 << 15), 3, "comparisons"),
        (torch.zeros(4, dtype=torch.int64), 1, "int64"),
        (torch.zeros(4), 0, "k is 0"),
        (torch.zeros(0, 4), 1, "nothing to sort"),
    ],
)
def test_what_is_declined(x: Tensor, k: int, reason: str) -> None:
    with pytest.raises(Decline, match=reason):
        topk(x, k)


@pytest.mark.slow
def test_xnnpack_keeps_its_topk() -> None:
    program = export(lambda x: x.topk(2)[0], (torch.randn(3, 5),))
    assert "topk" in str(lowerfix.apply(program, target="xnnpack").graph)
