import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.passes.reduction.log_softmax import decomposed_log_softmax, log_softmax
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

X = torch.randn(3, 4, 5)
FAR = torch.tensor([[0.0, -200.0, -95.0], [1000.0, 0.0, 1.0]])
VALUES = [0.0, -0.0, 1.5, -200.0, 90.0, 3e38, -3e38, float("nan"), float("inf"), -float("inf")]


@pytest.mark.slow
def test_elements_far_below_the_largest_keep_their_value() -> None:
    check_rewrite(
        lambda x: (x.log_softmax(-1), F.log_softmax(x, 0)),
        (X,),
        target="tosa-fp",
        expect="log-softmax",
        tolerance=1e-5,
        lowered_inputs=[(X * 100,), *list(adversarial_inputs((X,)))[::5]],
    )


@pytest.mark.slow
def test_stock_lowering_still_takes_the_logarithm_of_the_softmax() -> None:
    lowered = lowering.lower(export(lambda x: x.log_softmax(-1), (FAR,)), "tosa-fp", compile=False)
    [result] = lowering.execute(lowered, (FAR,))
    right = torch.allclose(result, FAR.log_softmax(-1), rtol=1e-4)
    assert not right, "upstream is right now: this rewrite can go"


@pytest.mark.slow
def test_in_int8_it_is_more_exact_than_stock() -> None:
    x = torch.randn(8, 32) * 3

    def error(program: torch.export.ExportedProgram) -> float:
        lowered = lowering.lower(lowering.quantize(program, "tosa-int", [(x,)]), "tosa-int", compile=False)
        return float((lowering.execute(lowered, (x,))[0] - x.log_softmax(-1)).square().mean().sqrt())

    program = export(lambda x: x.log_softmax(-1), (x,))
    assert error(lowerfix.apply(program, target="tosa-int")) < error(program) / 4


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(VALUES), min_size=6, max_size=6), st.sampled_from([0, 1, -1]))
def test_the_formula_agrees_with_eager(values: list[float], dim: int) -> None:
    x = torch.tensor(values).reshape(2, 3)
    assert_same(x.log_softmax(dim), log_softmax(x, dim), 1e-5)
    assert_same(x.log_softmax(dim), decomposed_log_softmax(x, dim, False), 1e-5)
    assert_same(x.bfloat16().log_softmax(dim), log_softmax(x.bfloat16(), dim), 1e-2)
    assert_same(x.half().log_softmax(dim, dtype=torch.float32), log_softmax(x.half(), dim, torch.float32), 1e-5)


def test_a_tensor_without_dimensions_and_integers() -> None:
    assert_same(torch.tensor(3.0).log_softmax(0), log_softmax(torch.tensor(3.0), 0))
    x = torch.arange(4)
    assert_same(x.log_softmax(0, dtype=torch.float32), log_softmax(x, 0, torch.float32), 1e-6)


@pytest.mark.parametrize(
    ("x", "dtype", "reason"), [(X, torch.float64, "float64"), (torch.arange(4), None, "not defined")]
)
def test_what_it_does_not_do_is_declined_with_its_reason(
    x: torch.Tensor, dtype: torch.dtype | None, reason: str
) -> None:
    with pytest.raises(lowerfix.Decline, match=reason):
        log_softmax(x, 0, dtype)


def test_softmax_is_left_alone() -> None:
    program = export(lambda x: x.softmax(-1), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
