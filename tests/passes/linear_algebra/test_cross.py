import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.linear_algebra.cross import cross, linalg_cross
from lowerfix.testing import assert_same, check_rewrite, export

INPUTS = (torch.randn(3, 4, 3), torch.randn(3, 4, 3))


def every_form(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = a.clamp(-100, 100), b.clamp(-100, 100)  # PyTorch's fused multiplication does not overflow between
    return torch.cross(a, b, -1), torch.linalg.cross(a, b, dim=0), torch.linalg.cross(a[:1], b)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tosa-fp", "ethos-u85"])
def test_every_form_goes_whole(target: str) -> None:
    check_rewrite(every_form, INPUTS, target=target, expect="cross", tolerance=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4), st.integers(-4, 3))
def test_the_forms_agree_with_eager(shape: list[int], dim: int) -> None:
    dim = dim % len(shape) if dim >= 0 else dim % len(shape) - len(shape)
    shape[dim] = 3
    x, y = torch.randn(shape), torch.randn(shape)
    assert_same(torch.linalg.cross(x, y, dim=dim), linalg_cross(x, y, dim=dim), 1e-6)
    assert_same(torch.cross(x, y, dim), cross(x, y, dim), 1e-6)
    assert_same(torch.ops.aten.cross.default(x, y), cross(x, y), 1e-6)


def test_other_sizes_are_declined_with_their_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="three elements"):
        linalg_cross(torch.ones(2, 4), torch.ones(2, 4))
    with pytest.raises(lowerfix.Decline, match="no dimension"):
        cross(torch.ones(2, 4), torch.ones(2, 4))


def test_products_are_left_alone() -> None:
    program = export(lambda a, b: a * b - b, INPUTS)
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
