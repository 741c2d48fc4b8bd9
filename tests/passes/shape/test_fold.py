import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.shape.fold import col2im, im2col
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export


def forms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    columns = x.reshape(1, 4 * 2, 9)
    return (
        F.unfold(x, (2, 3), padding=1, stride=2, dilation=(1, 2)),
        F.unfold(x[0], 2),
        F.fold(columns, (5, 5), 2, padding=1, stride=2),
        F.fold(columns, (4, 4), 2, stride=1),
    )


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(1, 2, 6, 6),)
    lowered_inputs = list(adversarial_inputs(inputs))[-4:]
    check_rewrite(forms, inputs, target="tosa-fp", expect="fold", tolerance=1e-6, lowered_inputs=lowered_inputs)


@pytest.mark.slow
def test_whole_on_xnnpack_where_stock_does_not_run() -> None:
    def model(x: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (F.unfold(x, (2, 3), padding=1, dilation=(1, 2)), F.fold(columns, (4, 4), 2))

    inputs = (torch.randn(1, 2, 5, 5), torch.randn(1, 8, 9))
    lowered_inputs = list(adversarial_inputs(inputs))[:4]
    check_rewrite(model, inputs, target="xnnpack", expect="fold", tolerance=1e-6, lowered_inputs=lowered_inputs)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=2, max_size=2))

    sizes = numbers(1, 6)
    options = (numbers(1, 3), numbers(1, 2), numbers(0, 2), numbers(1, 3))
    x = torch.randn(*data.draw(st.sampled_from([(), (2,)])), 2, *sizes)
    x.view(-1)[0] = data.draw(st.sampled_from([0.0, float("inf"), float("nan")]))
    try:
        columns = F.unfold(x, *options)
    except RuntimeError:  # the kernel is larger than the image
        return
    assert_same(columns, im2col(x, *options))
    assert_same(F.fold(columns, sizes, *options), col2im(columns, sizes, *options), 1e-5)


def test_unfold_of_a_tensor_beside_it_is_left_alone() -> None:
    program = export(lambda x: x.unfold(2, 4, 2), (torch.randn(1, 4, 12),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)


def test_many_taps_are_declined() -> None:
    with pytest.raises(Decline, match="at most 256"):
        im2col(torch.ones(1, 1, 20, 20), [17, 17], [1, 1], [0, 0], [1, 1])


@pytest.mark.slow
def test_stock_leaves_unfold_on_the_cpu() -> None:
    """Once this fails, the backend has learnt the op and the rewrite can be retired in part."""
    program = export(lambda x: F.unfold(x, 2), (torch.randn(1, 2, 4, 4),))
    assert "index.Tensor" in lowering.lower(program, "tosa-fp", compile=False).cpu_ops
