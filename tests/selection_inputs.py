"""What the tests of selection share: inputs with ties and special values, and the check that a model goes whole."""

from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.testing import adversarial_inputs, assert_same, export

SHAPES = st.lists(st.integers(1, 5), min_size=0, max_size=3).map(tuple)
SEEDS = st.integers(0, 1 << 30)
SOME = settings(max_examples=40, deadline=None)


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


def whole(model: Any, inputs: tuple[Tensor, ...], target: str, tolerance: float = 0.0) -> None:
    """Lowered whole and equal to eager, on what breaks careless identities too."""
    lowered = lowering.lower(lowerfix.apply(export(model, inputs), target=target), target, compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    for trial in (inputs, *adversarial_inputs(inputs)):
        assert_same(list(model(*trial)), list(lowering.execute(lowered, trial)), tolerance)
