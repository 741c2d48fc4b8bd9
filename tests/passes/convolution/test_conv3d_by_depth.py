import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.convolution.conv3d_by_depth import conv3d, conv3d_of_patches
from lowerfix.testing import check_rewrite, export


@pytest.mark.slow
def test_in_int8_on_ethos_u55() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Conv3d(3, 4, (2, 3, 3), stride=(2, 1, 1), padding=1)
    checked = check_rewrite(
        layer, (torch.randn(1, 3, 4, 5, 5),), target="ethos-u55", expect="conv3d-by-depth", tolerance=1e-4
    )
    assert checked.lowered.inner_quantize == 0


class Volumes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = torch.nn.Conv3d(3, 4, (2, 3, 3), stride=(2, 3, 3))
        self.windows = torch.nn.Conv3d(3, 4, 2, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.clamp(-8, 8)  # a sum in another order overflows elsewhere
        return self.patches(x), self.windows(x)


@pytest.mark.slow
def test_whole_on_xnnpack_whose_runtime_has_no_kernel_for_it() -> None:
    x = torch.randn(2, 3, 4, 6, 7)
    check_rewrite(Volumes(), (x,), target="xnnpack", expect="conv3d-by-depth", tolerance=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_patches_are_what_pytorch_does(data: st.DataObject) -> None:
    kernel = data.draw(st.lists(st.integers(1, 3), min_size=3, max_size=3))
    sizes = [size + data.draw(st.integers(0, 4)) for size in kernel]
    x = torch.randn(*data.draw(st.sampled_from([(), (2,)])), 2, *sizes)
    weight, bias = torch.randn(3, 2, *kernel), data.draw(st.sampled_from([None, torch.randn(3)]))
    expected = torch.conv3d(x, weight, bias, kernel)
    torch.testing.assert_close(conv3d_of_patches(x, weight, bias, kernel), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(Decline, match="no patches"):
        conv3d_of_patches(x, weight, bias, kernel, [1])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=3, max_size=3))

    groups = data.draw(st.integers(1, 2))
    x = torch.randn(*data.draw(st.sampled_from([(), (1,), (2,)])), 2 * groups, *numbers(1, 5))
    x.view(-1)[0] = data.draw(st.sampled_from([0.0, float("inf"), float("nan")]))
    bias = data.draw(st.sampled_from([None, torch.randn(2 * groups)]))
    arguments = (x, torch.randn(2 * groups, 2, *numbers(1, 3)), bias, numbers(1, 3), numbers(0, 2), numbers(1, 2))
    try:
        expected = torch.conv3d(*arguments, groups)
    except RuntimeError:  # the kernel is larger than the input
        return
    torch.testing.assert_close(conv3d(*arguments, groups), expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_one_number_stands_for_three() -> None:
    x, weight = torch.randn(1, 1, 3, 4, 5), torch.randn(1, 1, 2, 2, 2)
    torch.testing.assert_close(conv3d(x, weight, None, [2], [1], [1]), torch.conv3d(x, weight, None, 2, 1, 1))


def test_a_backend_that_has_it_keeps_it() -> None:
    program = export(torch.nn.Conv3d(3, 4, 3), (torch.randn(1, 3, 4, 5, 5),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)


def test_many_frames_are_declined() -> None:
    with pytest.raises(Decline, match="at most 64"):
        conv3d(torch.ones(1, 1, 70, 1, 1), torch.ones(1, 1, 1, 1, 1))
