import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.convolution.conv_transpose_by_phases import conv_transpose
from lowerfix.testing import adversarial_inputs, check_rewrite, export

aten = torch.ops.aten
OPS = {1: aten.conv_transpose1d.default, 2: aten.conv_transpose2d.input, 3: aten.conv_transpose3d.input}


class Layers(torch.nn.Module):
    """Several transposed convolutions side by side."""

    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x) for layer, x in zip(self.layers, inputs, strict=True))


@pytest.mark.slow
def test_dilated_ones_and_those_in_three_dimensions_go_whole_with_infinities() -> None:
    torch.manual_seed(0)
    layers = Layers(
        torch.nn.ConvTranspose2d(2, 3, 3, stride=(2, 1), padding=1, output_padding=(1, 0), dilation=2),
        torch.nn.ConvTranspose3d(2, 2, (2, 3, 2), stride=(1, 2, 1), padding=(0, 1, 1)),
    )
    inputs = (torch.randn(1, 2, 4, 4), torch.randn(1, 2, 2, 3, 3))
    check_rewrite(
        layers,
        inputs,
        target="tosa-fp",
        expect="conv-transpose-by-phases",
        tolerance=1e-4,
        lowered_inputs=list(adversarial_inputs(inputs))[2:4],
    )


@pytest.mark.slow
def test_stride_3_and_groups_in_int8_on_ethos_u55() -> None:
    torch.manual_seed(0)
    layers = Layers(
        torch.nn.ConvTranspose2d(3, 4, 2, stride=(3, 1)),
        torch.nn.ConvTranspose2d(4, 4, (3, 1), stride=(2, 1), groups=2),
    )
    inputs = (torch.randn(1, 3, 4, 4), torch.randn(1, 4, 4, 4))
    checked = check_rewrite(layers, inputs, target="ethos-u55", expect="conv-transpose-by-phases", tolerance=1e-4)
    assert checked.lowered.inner_quantize == 0


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    rank, groups = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    taps, sizes, steps, spreads, pads = numbers(1, 3), numbers(1, 4), numbers(1, 4), numbers(1, 3), numbers(0, 2)
    extras = [data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(steps, spreads, strict=True)]
    torch.manual_seed(data.draw(st.integers(0, 99)))
    x = torch.randn(*data.draw(st.sampled_from([(), (1,), (2,)])), 2 * groups, *sizes)
    x.view(-1)[0] = data.draw(st.sampled_from([0.0, float("inf"), float("nan")]))
    weight = torch.randn(2 * groups, 2, *taps)
    bias = data.draw(st.sampled_from([None, torch.randn(2 * groups)]))
    try:
        expected = OPS[rank](x, weight, bias, steps, pads, extras, groups, spreads)
    except RuntimeError:  # nothing would be left
        return
    if expected.numel() == 0:
        return
    actual = conv_transpose(x, weight, bias, steps, pads, extras, groups, spreads)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_what_the_backend_takes_is_left_alone() -> None:
    program = export(torch.nn.ConvTranspose2d(3, 4, 3, stride=2), (torch.randn(1, 3, 4, 4),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)


def test_too_many_phases_are_declined() -> None:
    with pytest.raises(Decline, match="81 phases"):
        conv_transpose(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 1, 1), stride=[9], padding=[0, 0])


def test_stock_leaves_a_dilated_one_on_the_cpu() -> None:
    """Once this fails, the backend has learnt it and the rewrite can be retired in part."""
    program = export(torch.nn.ConvTranspose2d(3, 4, 3, dilation=2), (torch.randn(1, 3, 4, 4),))
    assert lowering.lower(program, "vgf", compile=False).cpu_ops == {"convolution": 1}
