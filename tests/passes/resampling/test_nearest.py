import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.resampling._positions import take
from lowerfix.passes.resampling.nearest import nearest, nearest_by_slices, nearest_exact, nearest_exact_by_slices
from lowerfix.testing import adversarial_inputs, check_rewrite, export


def forms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    signal, volume = x[:, :, 0, 0], x
    return (
        F.interpolate(signal, scale_factor=2),
        F.interpolate(signal, size=7),
        F.interpolate(volume, scale_factor=2),
        F.interpolate(volume, size=(3, 2, 8), mode="nearest-exact"),
        F.interpolate(x[:, :, 0], size=(5, 3), mode="nearest-exact"),
    )


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(1, 2, 2, 4, 5),)
    check_rewrite(
        forms, inputs, target="tosa-fp", expect="nearest", lowered_inputs=list(adversarial_inputs(inputs))[-4:]
    )


@pytest.mark.slow
def test_in_int8_on_ethos_u55_which_has_no_gather() -> None:
    checked = check_rewrite(
        lambda x: (F.interpolate(x, scale_factor=3), F.interpolate(x, size=(5, 7))),
        (torch.randn(1, 4, 4, 4),),
        target="ethos-u55",
        expect="nearest",
    )
    assert checked.lowered.inner_quantize == 0


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=rank, max_size=rank))
    x = torch.arange(2.0 * torch.Size(sizes).numel()).reshape(1, 2, *sizes)
    size, factors = None, None
    if data.draw(st.booleans()):
        size = data.draw(st.lists(st.integers(1, 40), min_size=rank, max_size=rank))
    else:
        low = [st.sampled_from([1 / n, 1.5, 2.0, 3.0, 1.7, 4.0]) for n in sizes]
        factors = [data.draw(factor) for factor in low]
        if any(int(n * f) < 1 for n, f in zip(sizes, factors, strict=True)):
            return
    for mode, ways in {
        "nearest": (nearest, nearest_by_slices),
        "nearest-exact": (nearest_exact, nearest_exact_by_slices),
    }.items():
        expected = F.interpolate(x, size, factors, mode)
        for way in ways:
            assert torch.equal(way(x, size, factors), expected)


@pytest.mark.parametrize(("size", "out"), [(4, 166), (8, 164), (6, 141)])
def test_sizes_that_kernels_round_differently_are_declined(size: int, out: int) -> None:
    with pytest.raises(Decline, match="kernels differ"):
        nearest_exact(torch.ones(1, 1, size), [out], None)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.booleans())
def test_take_takes_any_positions(positions: list[int], gather: bool) -> None:
    x = torch.arange(18).reshape(3, 6)
    assert torch.equal(take(x, 1, positions, gather), x[:, positions])


def test_images_that_the_backend_resizes_are_left_alone() -> None:
    program = export(lambda x: F.interpolate(x, scale_factor=2), (torch.randn(1, 2, 4, 4),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)


def test_many_slices_are_declined() -> None:
    with pytest.raises(Decline, match="at most 128"):
        nearest_by_slices(torch.ones(1, 1, 100), [150], None)


def test_stock_leaves_signals_on_the_cpu() -> None:
    """Once this fails, the backend has learnt the op and the rewrite can be retired in part."""
    program = export(lambda x: F.interpolate(x, scale_factor=2), (torch.randn(1, 2, 4),))
    assert "index.Tensor" in lowering.lower(program, "tosa-fp", compile=False).cpu_ops
