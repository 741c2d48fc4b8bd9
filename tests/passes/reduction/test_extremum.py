import pytest
import torch

import lowerfix
from lowerfix.passes.reduction import extremum
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

X = torch.randn(3, 4, 5)


@pytest.mark.slow
def test_every_form_goes_whole_with_nan_as_in_eager() -> None:
    check_rewrite(
        lambda x: (x.max(), x.min(), x[0, 0, 0].max()),
        (X,),
        target="tosa-fp",
        expect="extremum",
        lowered_inputs=list(adversarial_inputs((X,)))[::5],
    )


@pytest.mark.slow
def test_in_int8_it_is_one_delegate() -> None:
    checked = check_rewrite(
        lambda x: (x.max() - x.min(), *torch.aminmax(x, dim=1)), (X,), target="tosa-int", expect="extremum"
    )
    assert checked.lowered.inner_quantize == 0


@pytest.mark.parametrize("x", [X, torch.tensor([[3, -128], [127, 0]], dtype=torch.int8), torch.tensor(2.0)])
def test_the_forms_agree_with_eager(x: torch.Tensor) -> None:
    assert_same(x.max(), extremum.largest(x))
    assert_same(x.min(), extremum.smallest(x))
    for dim in (None, 0, -1):
        for keepdim in (False, True):
            both = torch.aminmax(x, dim=dim, keepdim=keepdim) if dim is not None else torch.aminmax(x)
            keepdim = keepdim and dim is not None
            assert_same(list(both), list(extremum.smallest_and_largest(x, dim=dim, keepdim=keepdim)))


def test_an_empty_tensor_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="empty"):
        extremum.largest(torch.zeros(0, 3))


def test_amax_and_maximum_are_left_alone() -> None:
    program = export(lambda x: (x.amax((0, 1)), torch.maximum(x, x * 2)), (X,))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
