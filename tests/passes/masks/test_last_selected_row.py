import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.testing import assert_same, check_rewrite, export

END = 1
X = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
WORDS = torch.tensor([[4, 1, 7, 1, 1], [1, 9, 1, 5, 1]])
ONLY = ["strip-guards", "last-selected-row"]


def last(x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """As T5 for classification has it."""
    return x[words.eq(END), :].view(x.shape[0], -1, x.shape[-1])[:, -1, :]


def three(x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    rows = x[words == END].reshape(2, -1, 3)
    return rows[:, 0] + rows[:, 1] * 2 + rows[:, -2]


@given(
    function=st.sampled_from([last, three]),
    words=st.lists(st.integers(0, 2), min_size=10, max_size=10),
    special=st.sampled_from([0.0, -0.0, float("inf"), float("nan")]),
)
@settings(max_examples=60, deadline=None)
def test_the_same_rows_whatever_the_words(function, words: list[int], special: float) -> None:  # type: ignore[no-untyped-def]
    given_words = torch.tensor(words).view(2, 5)
    ends = int((given_words == END).sum())
    if ends % 2 or ends < 4:
        given_words = WORDS
    program = export(function, (X, WORDS))
    module = lowerfix.apply(program, target="vgf", only=ONLY).module()
    x = X.clone()
    x[given_words != END] = special
    x[0, 1] = special
    assert_same(function(x, given_words), module(x, given_words))


def test_nothing_of_the_unknown_size_is_left() -> None:
    result = lowerfix.apply(export(last, (X, WORDS)), target="vgf", only=ONLY)
    assert not any(name in str(result.graph) for name in ("aten.index.", "sym_size", "assert"))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x[w == END].view(2, -1, 3).sum(1),
        lambda x, w: x[w == END].view(2, -1, 3)[:, -1] + x[w == END].view(2, -1, 3).sum(1),
        lambda x, w: x[w == END].sum(0),
    ],
)
def test_rows_that_are_read_otherwise_stay(function) -> None:  # type: ignore[no-untyped-def]
    report = lowerfix.Report()
    lowerfix.apply(export(function, (X, WORDS)), target="vgf", only=ONLY, report=report)
    assert len([f for f in report.of("rewritten") if f.pass_id == "last-selected-row"]) <= 1


@pytest.mark.slow
def test_lowered_and_executed() -> None:
    words = WORDS.to(torch.int32)
    check_rewrite(last, (X, words), target="vgf", expect="last-selected-row")
