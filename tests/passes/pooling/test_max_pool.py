import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.pooling.max_pool import max_pool1d, max_pool2d, max_pool2d_with_gaps, max_pool3d
from lowerfix.testing import adversarial_inputs, check_rewrite, export

WAYS = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}


def forms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        F.max_pool3d(x, 3, 2, 1),
        F.max_pool3d(x[0], (1, 2, 3), ceil_mode=True),
        F.max_pool2d(x[:, :, 0], 2, 2, 1, 2),
    )


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(1, 2, 4, 5, 5),)
    lowered_inputs = list(adversarial_inputs(inputs))[-4:]
    check_rewrite(forms, inputs, target="tosa-fp", expect="max-pool", lowered_inputs=lowered_inputs)


@pytest.mark.slow
def test_signals_and_volumes_in_int8_on_ethos_u85() -> None:
    checked = check_rewrite(
        lambda x: (F.max_pool1d(x[:, :, 0, 0], 3, 2, 1), F.max_pool3d(x, 2)),
        (torch.randn(1, 4, 2, 4, 8),),
        target="ethos-u85",
        expect="max-pool",
    )
    assert checked.lowered.inner_quantize == 0


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel, dilation, ceil_mode = numbers(1, 3), numbers(1, 2), data.draw(st.booleans())
    padding = [data.draw(st.integers(0, size // 2)) for size in kernel]
    stride = data.draw(st.sampled_from([[], numbers(1, 3)]))
    x = torch.randn(*data.draw(st.sampled_from([(), (1,), (2,)])), 2, *numbers(1, 7))
    x.view(-1)[0] = data.draw(st.sampled_from([0.0, float("inf"), float("-inf"), float("nan")]))
    op = getattr(torch.ops.aten, f"max_pool{rank}d").default
    try:
        expected = op(x, kernel, stride, padding, dilation, ceil_mode)
    except RuntimeError:  # nothing would be left
        return
    if ceil_mode and max(dilation) > 1:
        return
    actual = WAYS[rank](x, kernel, stride, padding, dilation, ceil_mode)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def test_pooling_of_images_is_left_alone() -> None:
    program = export(lambda x: F.max_pool2d(x, 3, 2, 1), (torch.randn(1, 2, 8, 8),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)


def test_a_dilated_one_that_rounds_up_is_declined() -> None:
    with pytest.raises(Decline, match="rounds its size up"):
        max_pool2d(torch.ones(1, 1, 6, 6), [2, 2], [2, 2], [0, 0], [2, 2], True)


@pytest.mark.slow
def test_stock_leaves_volumes_on_the_cpu() -> None:
    """Once this fails, the backend has learnt the op and the rewrite can be retired in part."""
    program = export(lambda x: F.max_pool3d(x, 2), (torch.randn(1, 2, 4, 4, 4),))
    assert lowering.lower(program, "tosa-fp", compile=False).cpu_ops


@pytest.mark.slow
def test_every_form_goes_whole_to_xnnpack() -> None:
    def model(signal: torch.Tensor, single: torch.Tensor, volume: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            F.max_pool1d(signal, 2),
            F.max_pool1d(signal, 3, 2, 1, ceil_mode=True),
            F.max_pool1d(single, 2, 3),
            F.max_pool2d(single, 3, 1),
            F.max_pool2d(volume[:, :, 0:2].reshape(1, 2, 8, 6), 2, 3, 1),
            F.max_pool3d(volume, 3, 2, 1),
        )

    inputs = (torch.randn(2, 4, 9), torch.randn(4, 8, 9), torch.randn(1, 2, 4, 4, 6))
    check_rewrite(model, inputs, target="xnnpack", expect="max-pool")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_pooling_with_gaps_is_what_pytorch_does(data: st.DataObject) -> None:
    def pair(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=2, max_size=2))

    kernel, steps, ceil_mode = pair(1, 3), pair(1, 5), data.draw(st.booleans())
    padding = [data.draw(st.integers(0, size // 2)) for size in kernel]
    x = torch.randn(*data.draw(st.sampled_from([(), (2,)])), 3, *pair(1, 9))
    try:
        expected = torch.ops.aten.max_pool2d.default(x, kernel, steps, padding, [1, 1], ceil_mode)
    except RuntimeError:  # nothing would be left
        return
    if all(step <= size for step, size in zip(steps, kernel, strict=True)):
        with pytest.raises(Decline, match="no gaps"):
            max_pool2d_with_gaps(x, kernel, steps, padding, [1, 1], ceil_mode)
        return
    assert torch.equal(expected, max_pool2d_with_gaps(x, kernel, steps, padding, [1, 1], ceil_mode))
    with pytest.raises(Decline, match="dilated"):
        max_pool2d_with_gaps(x, kernel, steps, padding, [2, 2], ceil_mode)


def test_pooling_that_xnnpack_takes_is_left_alone() -> None:
    program = export(lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2)), (torch.randn(1, 2, 8, 8),))
    assert str(lowerfix.apply(program, target="xnnpack").graph) == str(program.graph)
