"""LSTM, GRU and RNN layers, step by step.

**What it rewrites.** ``lstm``, ``gru``, ``rnn_tanh`` and ``rnn_relu`` of a constant length, with any number of layers,
in both directions, batch first or not, with projections and given states; and the cells of each.

**The identity.** These are their definitions, written out. The inputs of all steps are multiplied by their weight at
once, each step multiplies the state by its own, and the gates are slices of the sum.

**Why the backend needs it.** PyTorch's decompositions take the steps and the gates apart by ``unbind``, ``split``,
``squeeze`` and ``unsqueeze``, which XNNPACK does not take: seven delegates for five steps.

**What it leaves alone.** Symbolic sizes; packed sequences; dropout while training; more than 1024 steps of all layers
together, each of which is a dozen ops.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "XNNPACK takes what PyTorch decomposes recurrent layers to; ExecuTorch 1.5.1 does not"

_MOST_STEPS = 1024

State = list[Tensor]
Step = Callable[[Tensor, State, "Weights"], State]


class Weights:
    """The weights of one direction of one layer."""

    def __init__(self, tensors: Sequence[Tensor | None], biases: bool) -> None:
        self.inputs, self.state = tensors[0], tensors[1]
        self.input_bias, self.state_bias = (tensors[2], tensors[3]) if biases else (None, None)
        rest = tensors[4 if biases else 2 :]
        self.projection = rest[0] if rest else None

    def of_input(self, x: Tensor) -> Tensor:
        assert self.inputs is not None
        return F.linear(x, self.inputs, self.input_bias)

    def of_state(self, h: Tensor) -> Tensor:
        assert self.state is not None
        return F.linear(h, self.state, self.state_bias)


@rewrite(aten.lstm.input)
def lstm(
    x: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """With a state and a cell."""
    _check(dropout, train)
    y, states = _layers(x, list(hx), params, has_biases, num_layers, bidirectional, batch_first, _lstm_step)
    return y, states[0], states[1]


@rewrite(aten.lstm_cell.default)
def lstm_cell(
    x: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step."""
    h, c = _cell(x, list(hx), [w_ih, w_hh, b_ih, b_hh], _lstm_step)
    return h, c


def _lstm_step(inputs: Tensor, state: State, weights: Weights) -> State:
    h, c = state
    gates = inputs + weights.of_state(h)
    enter, keep, new, leave = _parts(gates, 4)
    c = torch.sigmoid(keep) * c + torch.sigmoid(enter) * torch.tanh(new)
    h = torch.sigmoid(leave) * torch.tanh(c)
    return [h if weights.projection is None else F.linear(h, weights.projection), c]


def _gru_step(inputs: Tensor, state: State, weights: Weights) -> State:
    [h] = state
    reset, update, new = _parts(inputs, 3)
    reset_of_state, update_of_state, new_of_state = _parts(weights.of_state(h), 3)
    fresh = torch.tanh(new + torch.sigmoid(reset + reset_of_state) * new_of_state)
    return [fresh + torch.sigmoid(update + update_of_state) * (h - fresh)]


def _tanh_step(inputs: Tensor, state: State, weights: Weights) -> State:
    return [torch.tanh(inputs + weights.of_state(state[0]))]


def _relu_step(inputs: Tensor, state: State, weights: Weights) -> State:
    return [torch.relu(inputs + weights.of_state(state[0]))]


def _parts(x: Tensor, count: int) -> list[Tensor]:
    size = x.shape[-1] // count
    return [aten.slice.Tensor(x, x.dim() - 1, n * size, (n + 1) * size) for n in range(count)]


def _cell(x: Tensor, state: State, tensors: Sequence[Tensor | None], step: Step) -> State:
    if not constant_sizes(x):
        raise Decline("a size is symbolic; export with constant ones")
    weights = Weights(tensors, biases=True)
    return step(weights.of_input(x), state, weights)


def _layers(
    x: Tensor,
    given: State,
    params: Sequence[Tensor],
    biases: bool,
    layers: int,
    both: bool,
    batch_first: bool,
    step: Step,
) -> tuple[Tensor, State]:
    """All layers; returns what the last one makes of each step, and the last states of all."""
    if not constant_sizes(x):
        raise Decline("a size is symbolic; export with constant ones, such as the length")
    directions = 2 if both else 1
    time = 1 if batch_first else 0
    length, batch = x.shape[time], x.shape[1 - time]
    if length * layers * directions > _MOST_STEPS:
        raise Decline(f"it has {length * layers * directions} steps; at most {_MOST_STEPS} are unrolled")
    each = len(params) // (layers * directions)
    last: list[State] = []
    for layer in range(layers):
        made = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = Weights(params[number * each : (number + 1) * each], biases)
            state = [aten.slice.Tensor(t, 0, number, number + 1).reshape(batch, t.shape[2]) for t in given]
            inputs = weights.of_input(x)
            outputs: dict[int, Tensor] = {}
            for at in reversed(range(length)) if direction else range(length):
                now = aten.slice.Tensor(inputs, time, at, at + 1).reshape(batch, inputs.shape[2])
                state = step(now, state, weights)
                outputs[at] = state[0].reshape(1, batch, state[0].shape[1])
            made.append(_joined([outputs[at] for at in range(length)], 0))
            last.append(state)
        x = _joined(made, 2)
        time = 0
    y = x.transpose(0, 1) if batch_first else x  # as PyTorch lays it out
    return y, [_joined([state[n].reshape(1, *state[n].shape) for state in last], 0) for n in range(len(given))]


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    return torch.cat(parts, dim) if len(parts) > 1 else parts[0]


def _check(dropout: float, train: bool) -> None:
    if train and dropout:
        raise Decline("it drops values at random while training; call eval() before the export")


def _with_one_state(name: str, step: Step) -> tuple[Callable[..., tuple[Tensor, Tensor]], Callable[..., Tensor]]:
    """The rewrites of the layers, and of the cell, of a kind that has a state and no cell beside it."""

    def layers(
        x: Tensor,
        hx: Tensor,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, Tensor]:
        _check(dropout, train)
        y, states = _layers(x, [hx], params, has_biases, num_layers, bidirectional, batch_first, step)
        return y, states[0]

    def cell(
        x: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
    ) -> Tensor:
        return _cell(x, [hx], [w_ih, w_hh, b_ih, b_hh], step)[0]

    layers.__name__, cell.__name__ = name, f"{name}_cell"
    rewrite(getattr(aten, name).input)(layers)
    rewrite(getattr(aten, f"{name}_cell").default)(cell)
    return layers, cell


gru, gru_cell = _with_one_state("gru", _gru_step)
rnn_tanh, rnn_tanh_cell = _with_one_state("rnn_tanh", _tanh_step)
rnn_relu, rnn_relu_cell = _with_one_state("rnn_relu", _relu_step)
