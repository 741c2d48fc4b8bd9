import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.pooling.avg_pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool2d_of_padded,
    avg_pool3d,
)
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

WAYS = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}


def forms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        F.avg_pool3d(x, 3, 2, 1),
        F.avg_pool3d(x[0], 2, 2, 1, True, False),
        F.avg_pool3d(x, 2, 2, 0, True, True, 5),
        F.adaptive_avg_pool3d(x, (2, 3, 1)),
        F.avg_pool2d(x[:, :, 0], 2, 2, 0, True, True, 3),
    )


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(1, 2, 3, 5, 5),)
    lowered_inputs = list(adversarial_inputs(inputs))[:4]
    check_rewrite(forms, inputs, target="tosa-fp", expect="avg-pool", tolerance=1e-6, lowered_inputs=lowered_inputs)


@pytest.mark.slow
def test_signals_and_volumes_in_int8_on_ethos_u55() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        signal = x[:, :, 0, 0]
        return F.avg_pool1d(signal, 3, 2, 1), F.adaptive_avg_pool1d(signal, 3), F.avg_pool3d(x, 2)

    checked = check_rewrite(model, (torch.randn(1, 4, 2, 4, 8),), target="ethos-u55", expect="avg-pool", tolerance=1e-6)
    assert checked.lowered.inner_quantize == 0


@pytest.mark.slow
def test_every_form_goes_whole_to_xnnpack() -> None:
    def model(signal: torch.Tensor, image: torch.Tensor, single: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            F.avg_pool1d(signal, 3, 2, 1),
            F.avg_pool1d(signal, 3, 2, 1, True, False),
            F.avg_pool2d(image, 3, 2, 1),
            F.avg_pool2d(image, 3, 2, 1, True, False),
            F.avg_pool2d(image, 2, 2, 0, True, True, 3),
            F.avg_pool2d(single, 3),
            F.avg_pool3d(image.reshape(1, 3, 2, 4, 9), (2, 3, 3), 2, 1),
            F.adaptive_avg_pool2d(image, (3, 5)),
            F.adaptive_avg_pool1d(signal, 4),
            F.adaptive_avg_pool3d(image.reshape(1, 3, 2, 4, 9), (2, 3, 1)),
        )

    inputs = (torch.randn(2, 4, 9), torch.randn(1, 3, 8, 9), torch.randn(3, 8, 9))
    check_rewrite(model, inputs, target="xnnpack", expect="avg-pool", tolerance=1e-5)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel = numbers(1, 3)
    padding = [data.draw(st.integers(0, size // 2)) for size in kernel]
    stride = data.draw(st.sampled_from([[], numbers(1, 3)]))
    options = [data.draw(st.booleans()), data.draw(st.booleans())]
    divisor = data.draw(st.sampled_from([None, 5]))
    if rank > 1:
        options.append(divisor)
    x = torch.randn(*data.draw(st.sampled_from([(), (1,), (2,)])), 2, *numbers(1, 7))
    x.view(-1)[0] = data.draw(st.sampled_from([0.0, float("inf"), float("nan")]))
    op = getattr(torch.ops.aten, f"avg_pool{rank}d").default
    try:
        expected = op(x, kernel, stride, padding, *options)
    except RuntimeError:  # nothing would be left
        return
    if rank == 2:
        assert_same(expected, avg_pool2d_of_padded(x, kernel, stride, padding, *options), 1e-5)
        size = numbers(1, 8)
        assert_same(F.adaptive_avg_pool2d(x, size), adaptive_avg_pool2d(x, size), 1e-5)
        if not (options[0] and divisor):
            return
    assert_same(expected, WAYS[rank](x, kernel, stride, padding, *options), 1e-5)
    if rank == 3:
        size = numbers(1, 8)
        assert_same(F.adaptive_avg_pool3d(x, size), adaptive_avg_pool3d(x, size), 1e-5)
    if rank == 1:
        assert_same(F.adaptive_avg_pool1d(x, 3), adaptive_avg_pool1d(x, [3]), 1e-5)


def test_pooling_of_images_is_left_alone() -> None:
    program = export(lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), (torch.randn(1, 2, 8, 8),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)
    with pytest.raises(Decline, match="no ceil_mode"):
        avg_pool2d(torch.ones(1, 1, 4, 4), [2, 2], divisor_override=3)


@pytest.mark.slow
def test_stock_divides_windows_that_jut_out_by_too_little() -> None:
    """Once this fails, the backend is right and the rewrite of avg_pool2d can be retired."""
    x = torch.randn(1, 2, 5, 5)
    program = export(lambda x: F.avg_pool2d(x, 2, 2, 0, True, True, 3), (x,))
    [result] = lowering.execute(lowering.lower(program, "tosa-fp", compile=False), (x,))
    assert not torch.allclose(result, F.avg_pool2d(x, 2, 2, 0, True, True, 3))
