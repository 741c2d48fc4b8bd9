import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.errors import Decline
from lowerfix.passes.complex.fft_shift import fft_fftshift, fft_ifftshift
from lowerfix.testing import assert_same, check_rewrite, export


@pytest.mark.parametrize("target", ["tosa-fp", "ethos-u85"])
def test_every_form_goes_whole(target: str) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shifted = torch.fft.fftshift(x), torch.fft.ifftshift(x), torch.fft.fftshift(x, dim=1)
        return (*shifted, torch.fft.ifftshift(x, dim=(-1, 0)))

    inputs = (torch.randn(3, 6, 5),)
    check_rewrite(
        model, inputs, target=target, expect="fft-shift", lowered_inputs=[(torch.full((3, 6, 5), torch.nan),)]
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sizes_dimensions_and_dtypes(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    dims = data.draw(st.none() | st.lists(st.integers(-len(shape), len(shape) - 1), min_size=1, max_size=3))
    dtype = data.draw(st.sampled_from([torch.float32, torch.int64, torch.bool, torch.float16]))
    x = torch.randint(0, 9, shape).to(dtype)
    assert_same(torch.fft.fftshift(x, dims), fft_fftshift(x, dims))
    assert_same(torch.fft.ifftshift(x, dims), fft_ifftshift(x, dims))


def test_a_roll_beside_it_is_left_alone() -> None:
    program = export(lambda x: (x.roll(1, 0), torch.fft.fftshift(x)), (torch.randn(4),))
    result = lowerfix.apply(program, target="vgf", only="fft-shift")
    assert "aten.roll.default" in [str(node.target) for node in result.graph.nodes]
    assert "fft_fftshift" not in [node.name for node in result.graph.nodes]


def test_complex_and_symbolic_ones_are_declined() -> None:
    with pytest.raises(Decline, match="complex-to-real"):
        fft_fftshift(torch.zeros(3, dtype=torch.complex64))

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.fftshift(x, dim=1)

    sizes = ({1: torch.export.Dim("n", min=3)},)
    report = lowerfix.Report()
    program = torch.export.export(Model(), (torch.randn(2, 8),), dynamic_shapes=sizes)
    lowerfix.apply(program, target="vgf", report=report)
    assert "symbolic" in report.of("declined")[0].reason
