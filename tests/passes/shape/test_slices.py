import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.shape import slices
from lowerfix.testing import assert_same, check_rewrite, export

X = torch.randn(6, 7, 4)


def every_form(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.narrow_copy(x, 1, 2, 3) * 2,
        sum(torch.unbind_copy(x, 2)),
        torch.unsafe_chunk(x, 4, 0)[1] * 2,
        torch.tensor_split(x, 3, 1)[2] * 2,
        torch.ops.aten.slice.Tensor(x, 1, 2) * 2,
    )


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tosa-fp", "ethos-u85"])
def test_every_form_goes_whole(target: str) -> None:
    check_rewrite(every_form, (X,), target=target, expect="slices")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([0, 1, -1]), st.integers(1, 9), st.lists(st.integers(-9, 9), max_size=3))
def test_the_pieces_are_those_of_eager(dim: int, count: int, at: list[int]) -> None:
    assert_same(list(X.chunk(count, dim)), slices.chunk(X, count, dim))
    assert_same(list(X.split(count, dim)), slices.split(X, count, dim))
    assert_same(list(X.tensor_split(count, dim)), slices.tensor_split(X, count, dim))
    assert_same(list(X.tensor_split(at, dim)), slices.tensor_split_at(X, at, dim))
    assert_same(list(X.unbind(dim)), slices.unbind_copy(X, dim))
    sizes = [2, X.shape[dim] - 2]
    assert_same(list(X.split(sizes, dim)), slices.split_with_sizes(X, sizes, dim))
    assert_same(list(X.hsplit(at)), slices.hsplit_at(X, at))
    assert_same(list(X.vsplit(at)), slices.vsplit_at(X, at))
    assert_same(list(X.dsplit(at)), slices.dsplit_at(X, at))


@settings(max_examples=60, deadline=None)
@given(st.integers(-9, 9) | st.none(), st.integers(1, 3), st.integers(0, 2))
def test_an_open_slice_is_that_of_eager(position: int | None, step: int, dim: int) -> None:
    for start, end in ((position, None), (None, position), (None, None)):
        expected = torch.ops.aten.slice.Tensor(X, dim, start, end, step)
        assert_same(expected, slices.slice_in_full(X, dim, start, end, step))


def test_even_pieces() -> None:
    assert_same(list(X.vsplit(3)), slices.vsplit(X, 3))
    assert_same(list(X.hsplit(7)), slices.hsplit(X, 7))
    assert_same(list(X.dsplit(2)), slices.dsplit(X, 2))
    assert_same(X.narrow(1, -3, 2), slices.narrow_copy(X, 1, -3, 2))


def test_what_it_does_not_do_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="a start and an end"):
        slices.slice_in_full(X, 0, 1, 2)
    with pytest.raises(lowerfix.Decline, match="no dimension"):
        slices.slice_in_full(torch.tensor(1.0))


def test_pieces_that_are_taken_are_left_alone() -> None:
    program = export(lambda x: (x[:, 1:3] * 2, x.split(2, 0)[1] * 2), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
