from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lowerfix.errors import Decline
from lowerfix.passes.recurrent import unrolled
from lowerfix.testing import assert_same, check_rewrite

KINDS: dict[str, Any] = {
    "lstm": unrolled.lstm,
    "gru": unrolled.gru,
    "tanh": unrolled.rnn_tanh,
    "relu": unrolled.rnn_relu,
}


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True, proj_size=2)
        self.gru = nn.GRU(4, 3)
        self.rnn = nn.RNN(4, 3, nonlinearity="relu", bias=False)
        self.cells = nn.ModuleList([nn.LSTMCell(3, 3), nn.GRUCell(3, 3), nn.RNNCell(3, 3)])

    def forward(self, x: Tensor, h: Tensor) -> tuple[Any, ...]:
        x, h = x.clamp(-8, 8), h.clamp(-8, 8)  # beyond, a gate may be the one or the other of inf - inf
        return self.lstm(x), self.gru(x, h), self.rnn(x), *(cell(h.reshape(3, 3)) for cell in self.cells)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["xnnpack", "vgf"])
def test_layers_and_cells_go_whole(target: str) -> None:
    expect = "unrolled" if target == "xnnpack" else ()
    check_rewrite(Layers(), (torch.randn(2, 3, 4), torch.randn(1, 3, 3)), target=target, expect=expect, tolerance=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 4),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_it_is_what_pytorch_does(
    kind: str, length: int, layers: int, both: bool, batch_first: bool, bias: bool, project: bool
) -> None:
    options: dict[str, Any] = {"bias": bias, "batch_first": batch_first, "bidirectional": both}
    if kind == "lstm":
        module: Any = nn.LSTM(4, 3, layers, proj_size=2 if project else 0, **options)
    else:
        module = nn.GRU(4, 3, layers, **options) if kind == "gru" else nn.RNN(4, 3, layers, kind, **options)
    module.eval()
    x = torch.randn(2, length, 4) if batch_first else torch.randn(length, 2, 4)
    states = [torch.randn(layers * (2 if both else 1), 2, 3) for _ in range(2 if kind == "lstm" else 1)]
    if kind == "lstm" and project:
        states[0] = states[0][..., :2].contiguous()
    given_states: Any = tuple(states) if kind == "lstm" else states[0]
    with torch.no_grad():
        expected, last = module(x, given_states)
        made = KINDS[kind](x, given_states, module._flat_weights, bias, layers, 0.0, False, both, batch_first)
    assert_same([expected, *(last if kind == "lstm" else [last])], list(made), 1e-5)


def test_declines() -> None:
    layer = nn.GRU(4, 3)
    x, h = torch.randn(1025, 2, 4), torch.zeros(1, 2, 3)
    with pytest.raises(Decline, match="1024 are unrolled"):
        unrolled.gru(x, h, layer._flat_weights, True, 1, 0.0, False, False, False)
    with pytest.raises(Decline, match=r"call eval\(\)"):
        unrolled.gru(x, h, layer._flat_weights, True, 1, 0.5, True, False, False)
