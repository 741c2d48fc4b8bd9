import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from lowerfix.errors import Decline
from lowerfix.passes.padding.surround import pad, reflection_pad, replication_pad
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite

MODES = ["reflect", "replicate", "circular"]


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    def forms(x: torch.Tensor, volume: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            *(F.pad(x, (1, 2, 2, 0), mode) for mode in MODES),
            *(F.pad(x.reshape(2, 3, 20), (3, 1), mode) for mode in MODES),
            *(F.pad(volume, (1, 1, 0, 1, 1, 0), mode) for mode in MODES),
        )

    inputs = (torch.randn(2, 3, 4, 5), torch.randn(1, 2, 3, 2, 3))
    check_rewrite(
        forms, inputs, target="xnnpack", expect="surround", lowered_inputs=list(adversarial_inputs(inputs))[:6]
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank))
    mode = data.draw(st.sampled_from(MODES))
    most = [size - (mode == "reflect") for size in sizes]
    amounts = [data.draw(st.integers(0, size)) for size in reversed(most) for _ in range(2)]
    x = torch.randn(2, 3, *sizes)
    expected = F.pad(x, amounts, mode)
    assert_same(expected, pad(x, amounts, mode))
    if mode != "circular":
        assert_same(expected, (reflection_pad if mode == "reflect" else replication_pad)(x, amounts))


def test_declines() -> None:
    x = torch.randn(1, 1, 200)
    with pytest.raises(Decline, match="with a constant"):
        pad(x, [1, 1])
    with pytest.raises(Decline, match="negative"):
        pad(x, [-1, 1], "reflect")
    with pytest.raises(Decline, match="64 are the most"):
        pad(x, [0, 100], "replicate")
    assert pad(x, [0, 100], "circular").shape == (1, 1, 300)
