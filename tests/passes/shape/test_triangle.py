import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix.passes.shape.triangle import tril, triu
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

SHAPES = st.lists(st.integers(0, 5), min_size=2, max_size=4)


def both(x: Tensor) -> tuple[Tensor, ...]:
    return x.tril(), x.triu(-1)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tosa-fp", "ethos-u85"])
def test_triangles_go_whole(target: str) -> None:
    inputs = (torch.randn(2, 4, 5),)
    check_rewrite(both, inputs, target=target, expect="triangle", lowered_inputs=list(adversarial_inputs(inputs))[::4])


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(-6, 6), st.sampled_from([torch.float32, torch.float16, torch.int64, torch.bool]))
def test_any_triangle(shape: list[int], diagonal: int, dtype: torch.dtype) -> None:
    x = (torch.randn(shape) * 3).to(dtype)
    if dtype.is_floating_point:
        x[x > 3] = float("nan")
        x[x < -3] = float("inf")
    assert_same(x.tril(diagonal), tril(x, diagonal))
    assert_same(x.triu(diagonal), triu(x, diagonal))


def test_a_matrix_of_symbolic_size_is_declined() -> None:
    rows = torch.export.Dim("rows", min=3, max=16)
    program = export(lambda x: x.tril(), (torch.randn(4, 5),), dynamic_shapes=(({0: rows},),))
    report = lowerfix.Report()
    lowerfix.apply(program, target="vgf", report=report)
    [finding] = [finding for finding in report.of("declined") if finding.pass_id == "triangle"]
    assert "symbolic size" in finding.reason
