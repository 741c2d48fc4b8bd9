import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.resampling.interpolate import (
    cubic,
    cubic_by_slices,
    linear,
    linear_by_slices,
    smooth_cubic,
    smooth_cubic_by_slices,
    smooth_linear,
    smooth_linear_by_slices,
    smooth_linear_of_size,
)
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export

WAYS = {
    ("linear", False): (linear, linear_by_slices),
    ("bilinear", False): (linear, linear_by_slices),
    ("trilinear", False): (linear, linear_by_slices),
    ("bicubic", False): (cubic, cubic_by_slices),
    ("bilinear", True): (smooth_linear, smooth_linear_by_slices),
    ("bicubic", True): (smooth_cubic, smooth_cubic_by_slices),
}


def forms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    image = x[:, :, 0]
    return (
        F.interpolate(image[:, :, 0], scale_factor=2, mode="linear"),
        F.interpolate(x, size=(3, 4, 5), mode="trilinear", align_corners=True),
        F.interpolate(image, size=(4, 3), mode="bicubic"),
        F.interpolate(image, size=(2, 7), mode="bilinear", antialias=True),
    )


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(1, 2, 2, 4, 4),)
    check_rewrite(
        forms,
        inputs,
        target="tosa-fp",
        expect="interpolate",
        tolerance=1e-4,
        lowered_inputs=list(adversarial_inputs(inputs))[2:4],
    )


@pytest.mark.slow
def test_xnnpack_takes_antialias() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        image = F.interpolate(x, size=(2, 7), mode="bilinear", antialias=True)
        return image, torch.ops.aten._upsample_bilinear2d_aa(x, [3, 4], False, None, None)

    x = torch.randn(1, 2, 5, 7)
    lowered = lowering.lower(lowerfix.apply(export(model, (x,)), target="xnnpack"), "xnnpack", compile=False)
    assert not lowered.cpu_ops
    nan = torch.where(x == x.max(), torch.nan, x)
    for y in (x, nan, x * 1e30, torch.full_like(x, -0.0)):
        assert_same(list(model(y)), list(lowering.execute(lowered, [y])), 1e-4)


def test_antialias_to_a_size_is_the_same_without_scales() -> None:
    x = torch.randn(1, 2, 5, 7)
    expected = torch.ops.aten._upsample_bilinear2d_aa(x, [3, 4], False, None, None)
    assert_same(expected, smooth_linear_of_size(x, [3, 4], False))
    with pytest.raises(Decline, match="scales of its own"):
        smooth_linear_of_size(x, [3, 4], False, 0.6, None)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    mode, antialias = data.draw(st.sampled_from(sorted(WAYS)))
    rank = {"linear": 1, "trilinear": 3}.get(mode, 2)
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=rank, max_size=rank))
    torch.manual_seed(data.draw(st.integers(0, 99)))
    x = torch.randn(1, 2, *sizes)
    x.view(-1)[x.numel() // 2] = data.draw(st.sampled_from([0.0, float("inf"), float("-inf"), float("nan")]))
    align_corners = data.draw(st.booleans())
    size, factors = None, None
    if data.draw(st.booleans()):
        size = data.draw(st.lists(st.integers(1, 14), min_size=rank, max_size=rank))
    else:
        factors = data.draw(st.lists(st.sampled_from([0.5, 1.0, 1.5, 1.7, 2.0, 3.0]), min_size=rank, max_size=rank))
        if any(int(n * f) < 1 for n, f in zip(sizes, factors, strict=True)):
            return
    expected = F.interpolate(x, size, factors, mode, align_corners, antialias=antialias)
    if antialias and expected.shape[-1] == 1:
        return
    for way in WAYS[mode, antialias]:
        assert_same(expected, way(x, size, align_corners, factors), 1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_computed_in_float32(dtype: torch.dtype) -> None:
    x = torch.randn(1, 2, 5, dtype=dtype)
    assert_same(F.interpolate(x, 9, mode="linear"), linear(x, [9], False, None), 1e-2)


def test_images_that_the_backend_resizes_are_left_alone() -> None:
    program = export(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (torch.randn(1, 2, 4, 4),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="one number over the height"):
        smooth_linear(torch.ones(1, 1, 4, 4), [3, 1], False, None)
    with pytest.raises(Decline, match="float64"):
        linear(torch.ones(1, 1, 4, dtype=torch.float64), [3], False, None)
    with pytest.raises(Decline, match="at most 128"):
        linear_by_slices(torch.ones(1, 1, 4), [130], False, None)


def test_stock_leaves_signals_on_the_cpu() -> None:
    """Once this fails, the backend has learnt the op and the rewrite can be retired in part."""
    program = export(lambda x: F.interpolate(x, 6, mode="linear"), (torch.randn(1, 2, 4),))
    assert "index.Tensor" in lowering.lower(program, "tosa-fp", compile=False).cpu_ops
