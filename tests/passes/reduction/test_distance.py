import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.reduction import distance
from lowerfix.testing import assert_same, check_rewrite, export

ONE, OTHER = torch.randn(4, 5), torch.randn(3, 5)
POWERS = [0.0, 0.5, 1.0, 2.0, 3.0, math.inf]


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    check_rewrite(
        lambda a, b: (
            torch.cdist(a, b),
            torch.cdist(a[None], b[None], p=1.0),
            torch.cdist(a, b, p=math.inf),
            torch.cdist(a.repeat(8, 1), b),
            torch.dist(a[:3], b, 3),
            F.pdist(a),
        ),
        (ONE, OTHER),
        target="tosa-fp",
        expect="distance",
        tolerance=1e-3,
    )


@pytest.mark.slow
def test_in_int8_the_nearest_code_is_found_in_one_delegate() -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cdist(a, b, p=1.0)

    check_rewrite(model, (ONE, OTHER), target="ethos-u85", expect="distance", tolerance=1e-3)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 30), st.integers(1, 4), st.sampled_from(POWERS), st.integers(0, 2))
def test_the_forms_agree_with_eager(rows: int, columns: int, size: int, p: float, mode: int) -> None:
    a, b = torch.randn(2, 1, rows, size), torch.randn(3, columns, size)
    b[0, 0] = a[0, 0, 0]
    spelled = ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"][mode]
    # The product form loses half of the digits near zero, in eager as here.
    assert_same(torch.cdist(a, b, p, spelled), distance.cdist(a, b, p, mode), 2e-3)
    assert_same(torch.dist(a, a * 2, p), distance.dist(a, a * 2, p), 1e-4)
    c = torch.randn(rows + 1, size)
    assert_same(F.pdist(c, p), distance.pdist(c, p), 1e-4)


@pytest.mark.parametrize("p", POWERS)
def test_nan_and_infinity_are_those_of_eager(p: float) -> None:
    for special in (math.nan, math.inf):
        a = ONE.clone()
        a[0, 1] = a[2, 4] = special
        assert_same(torch.cdist(a, OTHER, p), distance.cdist(a, OTHER, p), 1e-4)
        assert_same(F.pdist(a, p), distance.pdist(a, p), 1e-4)
        assert_same(torch.dist(a, ONE, p), distance.dist(a, ONE, p), 1e-4)


def test_few_vectors_are_compared_without_cancellation() -> None:
    a = torch.full((1, 4), 1000.0)
    b = a + 0.001
    assert_same(torch.cdist(a, b), distance.cdist(a, b), 1e-6)
    assert float(distance.cdist(a, b)) > 0.001


def test_what_it_does_not_do_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="no elements"):
        distance.cdist(torch.zeros(2, 0), torch.zeros(2, 0))
    with pytest.raises(lowerfix.Decline, match="fewer than two"):
        distance.pdist(torch.zeros(1, 2))
    many = torch.zeros(1).expand(4096, 4096)
    for function in (lambda: distance.cdist(many, many, 1), lambda: distance.pdist(many)):
        with pytest.raises(lowerfix.Decline, match="would hold"):
            function()
    with pytest.raises(lowerfix.Decline, match="int64"):
        distance.dist(torch.arange(3), torch.arange(3))


def test_differences_are_left_alone() -> None:
    program = export(lambda a, b: (a[:3] - b).abs().sum(-1), (ONE, OTHER))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
