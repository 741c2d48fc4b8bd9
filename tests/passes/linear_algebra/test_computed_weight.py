import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.linear_algebra import computed_weight as computed
from lowerfix.testing import assert_same, check_rewrite, export


@pytest.mark.slow
def test_layers_that_are_handed_their_weights_go_whole() -> None:
    def model(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, w, b = (value.clamp(-8, 8) for value in (x, w, b))
        w = torch.where(w == w, w, torch.zeros_like(w))  # PyTorch's kernels differ on NaN times padding
        return (
            F.linear(x[:, :, :3], w[:, 0], b),
            F.conv1d(x, w, b, stride=2, padding=1),
            F.conv2d(x.reshape(2, 4, 3, 3), w[:, :2, :2, None], b, padding=1, groups=2),
            F.conv_transpose1d(x, w[:4], stride=2, padding=1, output_padding=1),
        )

    inputs = (torch.randn(2, 4, 9), torch.randn(6, 4, 3), torch.randn(6))
    check_rewrite(model, inputs, target="tosa-fp", expect="computed-weight", tolerance=1e-3, lowered_tolerance=1e-3)


@pytest.mark.slow
def test_in_int8_a_network_that_makes_the_weight_of_another_is_one_delegate() -> None:
    class Hyper(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.make = torch.nn.Linear(6, 4 * 8)

        def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return F.linear(x, self.make(z).reshape(4, 8))

    inputs = (torch.randn(3, 8), torch.randn(6))
    check_rewrite(Hyper(), inputs, target="tosa-int", expect="computed-weight", tolerance=1e-3)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from([1, 2]),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
)
def test_convolutions_agree_with_eager(
    rank: int, groups: int, stride: int, padding: int, dilation: int, batched: bool, biased: bool
) -> None:
    kernel = [3, 2, 1][:rank]
    x = torch.randn(*([2] if batched else []), 4, *[7, 6, 5][:rank])
    weight, bias = torch.randn(6, 4 // groups, *kernel), torch.randn(6) if biased else None
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    expected = convolve(x, weight, bias, stride, padding, dilation, groups)
    actual = computed.convolution(x, weight, bias, [stride], [padding], [dilation], groups)
    assert_same(expected, actual, 1e-4)
    named = computed.convolution_with_named_padding(x, weight, bias, [1], "same", [dilation], groups)
    assert_same(convolve(x, weight, bias, 1, "same", dilation, groups), named, 1e-4)
    weight, bias = torch.randn(4, 3, *kernel), torch.randn(3 * groups) if biased else None
    extra = 1 if stride > 1 else 0
    transpose = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    padding = min(padding, 1) if rank < 3 else 0
    expected = transpose(x, weight, bias, stride, padding, extra, groups, dilation)
    actual = computed.transposed_convolution(x, weight, bias, [stride], [padding], [extra], groups, [dilation])
    assert_same(expected, actual, 1e-4)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_linear_agrees_with_eager(shape: tuple[int, ...]) -> None:
    x, weight, bias = torch.randn(shape), torch.randn(4, 5), torch.randn(4)
    assert_same(F.linear(x, weight, bias), computed.linear(x, weight, bias), 1e-5)
    assert_same(F.linear(x, weight[0]), computed.linear(x, weight[0]), 1e-5)


def test_what_it_does_not_do_is_declined_with_its_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="289 taps"):
        computed.convolution(torch.randn(1, 1, 20, 20), torch.randn(1, 1, 17, 17))
    with pytest.raises(lowerfix.Decline, match="81 taps"):
        computed.transposed_convolution(torch.randn(1, 1, 20, 20), torch.randn(1, 1, 9, 9))
    with pytest.raises(lowerfix.Decline, match="int64"):
        computed.linear(torch.ones(1, 2, dtype=torch.int64), torch.ones(2, 2, dtype=torch.int64))


def test_layers_with_parameters_are_left_alone() -> None:
    model = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 3), torch.nn.Linear(4, 5))
    program = export(model, (torch.randn(1, 2, 6),))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
