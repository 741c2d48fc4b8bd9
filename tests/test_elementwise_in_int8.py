"""What this family makes of an op is annotated by Arm's quantizer, and taken whole by the NPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import lowerfix
from lowerfix import lowering
from lowerfix.testing import export

CASES: dict[str, tuple[str, Callable[..., Any], int]] = {
    "atan2": ("ethos-u85", torch.atan2, 2),
    "logaddexp2": ("ethos-u85", torch.logaddexp2, 2),
    "trunc": ("ethos-u55", torch.trunc, 1),
    "exp2": ("ethos-u55", torch.exp2, 1),
    "fmod": ("ethos-u55", lambda x: torch.fmod(x, 1.5), 1),
}
"""Those of Ethos-U55 do without comparisons, which it has none of."""


@pytest.mark.slow
@pytest.mark.parametrize("op", CASES)
def test_it_is_one_delegate(op: str) -> None:
    target, function, arity = CASES[op]
    torch.manual_seed(0)
    inputs = tuple(torch.randn(1, 64) * 2 for _ in range(arity))
    program = lowerfix.apply(export(function, inputs), target=target)
    program = lowerfix.apply(lowering.quantize(program, target, [inputs]), target=target)
    lowered = lowering.lower(program, target, compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert lowering.signal_to_noise(function(*inputs), lowering.execute(lowered, inputs)) > 25
