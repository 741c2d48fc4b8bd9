import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.shape.roll import fftshift, ifftshift, roll
from lowerfix.testing import adversarial_inputs, check_rewrite, export


def forms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.roll((1, -2), (2, 3)),
        x.roll(3),
        x.roll(-7, 1),
        torch.fft.fftshift(x, (2, 3)),
        torch.fft.ifftshift(x),
    )


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(2, 3, 4, 5),)
    check_rewrite(forms, inputs, target="tosa-fp", expect="roll", lowered_inputs=list(adversarial_inputs(inputs))[-4:])


@pytest.mark.slow
def test_in_int8_on_ethos_u55() -> None:
    class Shifted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.project = torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.project(x.roll((-1, -1), (1, 2))).roll((1, 1), (1, 2))

    checked = check_rewrite(Shifted(), (torch.randn(1, 4, 4, 8),), target="ethos-u55", expect="roll", tolerance=1e-6)
    assert checked.lowered.inner_quantize == 0


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 4), max_size=4))
    x = torch.arange(torch.Size(sizes).numel()).reshape(sizes)
    dims = data.draw(st.lists(st.integers(-len(sizes), len(sizes) - 1), max_size=3)) if sizes else []
    shifts = [data.draw(st.integers(-9, 9)) for _ in dims] or [data.draw(st.integers(-9, 9))]
    assert torch.equal(roll(x, shifts, dims), x.roll(shifts, dims))
    if sizes:
        unique = sorted({dim % len(sizes) for dim in dims})
        for given_dims in (None, unique or None):
            assert torch.equal(fftshift(x, given_dims), torch.fft.fftshift(x, given_dims))
            assert torch.equal(ifftshift(x, given_dims), torch.fft.ifftshift(x, given_dims))


def test_a_copy_is_returned_where_nothing_moves() -> None:
    x = torch.randn(4)
    assert roll(x, [4], [0]).data_ptr() != x.data_ptr()


def test_flip_beside_it_is_left_alone() -> None:
    program = export(lambda x: (x.flip(0), x.roll(1)), (torch.randn(3, 4),))
    names = [node.name for node in lowerfix.apply(program, target="vgf").graph.nodes]
    assert "flip" in names
    assert "roll" not in names


def test_a_symbolic_size_is_declined() -> None:
    report = lowerfix.Report()
    shapes = {"inputs": ({0: torch.export.Dim("n", min=2, max=8)},)}
    program = export(lambda x: x.roll(1, 0), (torch.randn(4, 4),), dynamic_shapes=shapes)
    lowerfix.apply(program, target="vgf", report=report)
    [finding] = report.of("declined")
    assert "symbolic size" in finding.reason
