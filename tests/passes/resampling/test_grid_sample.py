import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.resampling.grid_sample import grid_sample
from lowerfix.report import Report
from lowerfix.testing import adversarial, assert_same, export

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def inputs(rank: int, batch: int = 2, size: int = 5) -> tuple[Tensor, Tensor]:
    x = torch.randn(batch, 3, *[size + n for n in range(rank)])
    return x, torch.rand(batch, *[4 + n for n in range(rank)], rank) * 3 - 1.5


@pytest.mark.parametrize(
    ("rank", "modes", "paddings"),
    [
        (2, ["bilinear"], ["zeros", "border"]),
        pytest.param(2, ["nearest", "bilinear"], PADDINGS, marks=pytest.mark.slow),
        pytest.param(2, ["bicubic"], ["zeros", "reflection"], marks=pytest.mark.slow),
        pytest.param(3, ["nearest", "bilinear"], ["zeros", "border"], marks=pytest.mark.slow),
    ],
)
def test_it_goes_whole(rank: int, modes: list[str], paddings: list[str]) -> None:
    torch.manual_seed(0)
    x, grid = inputs(rank)
    x[0, 0] = float("inf")
    x[1, 1] = float("nan")

    def model(x: Tensor, grid: Tensor) -> Any:
        forms = enumerate(itertools.product(modes, paddings))
        return tuple(F.grid_sample(x, grid, *form, align_corners=number % 2 == 1) for number, form in forms)

    report = Report()
    program = lowerfix.apply(export(model, (x, grid)), target="tosa-fp", report=report)
    assert {finding.pass_id for finding in report.of("rewritten")} >= {"grid-sample"}
    lowered = lowering.lower(program, "tosa-fp", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    assert_same(list(model(x, grid)), list(lowering.execute(lowered, (x, grid))), 1e-4)


@pytest.mark.parametrize("rank", [2, 3])
def test_positions_that_are_no_numbers(rank: int) -> None:
    torch.manual_seed(0)
    x, grid = inputs(rank)
    for missing in adversarial(grid):
        for mode, padding, align in itertools.product(range(3 if rank == 2 else 2), range(3), (False, True)):
            if padding == 2 and (missing.abs().nan_to_num(0, 0, 0) > 1e6).any():
                continue
            expected = F.grid_sample(x, missing, MODES[mode], PADDINGS[padding], align)
            assert_same(expected, grid_sample(x, missing, mode, padding, align), 1e-4)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(2, 3), st.integers(1, 2), st.integers(1, 4), st.integers(0, 2),
    st.integers(0, 2), st.booleans(),
)  # fmt: skip
def test_any_size(seed: int, rank: int, batch: int, size: int, mode: int, padding: int, align: bool) -> None:
    torch.manual_seed(seed)
    x, grid = inputs(rank, batch, size)
    grid = torch.where(torch.rand_like(grid) < 0.2, grid.round(), grid)  # ties and corners
    grid = torch.where(torch.rand_like(grid) < 0.1, grid * 1e6, grid)
    mode = mode if rank == 2 else mode % 2
    expected = F.grid_sample(x, grid, MODES[mode], PADDINGS[padding], align)
    ours = grid_sample(x, grid, mode, padding, align)
    assert ours.shape == expected.shape
    assert ours.is_contiguous()
    far = (grid.abs() > 10).any(-1).unsqueeze(1).expand_as(ours) if padding == 2 else torch.zeros_like(ours).bool()
    torch.testing.assert_close(ours[~far], expected[~far], rtol=1e-4, atol=1e-4)


def test_what_is_declined() -> None:
    x, grid = inputs(2)
    with pytest.raises(Decline, match="float32"):
        grid_sample(x.double(), grid.double(), 0, 0, False)
    with pytest.raises(Decline, match="no element"):
        grid_sample(x, grid[:, :0], 0, 0, False)
