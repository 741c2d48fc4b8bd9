import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.padding.negative_pad import constant_pad, pad
from lowerfix.testing import adversarial_inputs, check_rewrite, export


def forms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        F.pad(x, (-1, 2, 1, -2)),
        F.pad(x, (-1, -1)),
        F.pad(x, (0, -1, 2, 0, -1, 1), value=-0.0),
        F.pad(x, (-1, 2, 1, -2), mode="replicate"),
        F.pad(x, (-2, 1, 2, 1), mode="reflect"),
        F.pad(x, (-1, -2, 1, 2), mode="circular"),
    )


@pytest.mark.slow
def test_every_mode_goes_whole() -> None:
    inputs = (torch.randn(1, 3, 5, 6),)
    check_rewrite(
        forms, inputs, target="vgf", expect="negative-pad", lowered_inputs=list(adversarial_inputs(inputs))[-4:]
    )


@pytest.mark.slow
def test_in_int8_on_ethos_u55() -> None:
    checked = check_rewrite(
        lambda x: torch.relu(F.pad(x, (-1, 2, 1, -2))),
        (torch.randn(1, 4, 6, 6),),
        target="ethos-u55",
        expect="negative-pad",
    )
    assert checked.lowered.inner_quantize == 0


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(["constant", "replicate", "reflect", "circular"]))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    amounts = data.draw(st.lists(st.integers(-3, 3), min_size=2 * len(sizes), max_size=2 * len(sizes)))
    dtype = data.draw(st.sampled_from([torch.float32, torch.int32, torch.int64]))
    x = torch.randint(-9, 9, (2, 3, *sizes)).to(dtype)
    try:
        expected = F.pad(x, amounts, mode)
    except (RuntimeError, NotImplementedError, IndexError, ValueError):
        return
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
    if min(amounts) >= 0 or (mode == "circular" and any(min(pair) < 0 < max(pair) for pair in pairs)):
        return
    assert torch.equal(pad(x, amounts, mode), expected)
    if mode == "constant":
        assert torch.equal(constant_pad(x, amounts, 0), expected)


def test_bool_and_its_padding_value() -> None:
    x = torch.tensor([[True, False, True]])
    assert torch.equal(pad(x, [-1, 2], "constant", True), F.pad(x, (-1, 2), value=True))


def test_pads_that_are_not_negative_are_left_alone() -> None:
    program = export(lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 1), mode="replicate")), (torch.randn(1, 3, 5),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)
    with pytest.raises(Decline, match="no amount is negative"):
        pad(torch.ones(3), [0, 1])


def test_a_circular_pad_of_a_cut_dimension_is_declined() -> None:
    with pytest.raises(Decline, match="not defined"):
        pad(torch.ones(1, 1, 4), [-1, 1], "circular")


@pytest.mark.slow
def test_stock_returns_another_shape() -> None:
    """Once this fails, the backend is right and the rewrite can be retired."""
    x = torch.randn(1, 3, 5, 6)
    lowered = lowering.lower(export(lambda x: F.pad(x, (-1, 2, 0, 0), mode="replicate"), (x,)), "vgf", compile=False)
    with pytest.raises(RuntimeError, match=r"shape '\[1, 3, 5, 7\]' is invalid for input of size 120"):
        lowering.execute(lowered, (x,))
