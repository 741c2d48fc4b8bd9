import operator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx import Interpreter
from torch.fx.experimental.proxy_tensor import make_fx

from lowerfix.program import Program
from lowerfix.ranges import Interval, Ranges, of_dtype
from lowerfix.testing import export


class Watching(Interpreter):
    """Runs a graph and checks every integer tensor against its interval."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.ranges = Ranges()
        self.checked = 0

    def run_node(self, n: torch.fx.Node) -> object:
        result = super().run_node(n)
        interval = self.ranges.of(n)
        if isinstance(result, torch.Tensor) and interval is not None and result.numel():
            seen = Interval(int(result.min()), int(result.max()))
            assert seen.within(interval), (n.format_node(), seen, interval)
            self.checked += 1
        return result


def watch(function, *inputs: torch.Tensor) -> Interval | None:  # type: ignore[no-untyped-def]
    """The interval of a function's result, after a check of all intermediate ones on real values."""
    module = make_fx(function, tracing_mode="fake", pre_dispatch=True)(*inputs)
    watching = Watching(module)
    watching.run(*inputs)
    assert watching.checked
    return watching.ranges.of(module.graph.output_node().args[0])


UNARY = [
    lambda x: -x,
    lambda x: x.abs(),
    lambda x: x + 3,
    lambda x: 5 - x,
    lambda x: x * -3,
    lambda x: x % 7,
    lambda x: x % -4,
    lambda x: x // 3,
    lambda x: x // -2,
    lambda x: torch.div(x, 3, rounding_mode="trunc"),
    lambda x: torch.fmod(x, 5),
    lambda x: x.clamp(-3, 9),
    lambda x: x.clamp(max=2),
    lambda x: x.clamp(min=1),
    lambda x: ~x,
    lambda x: x & 6,
    lambda x: (x & 7) | 9,
    lambda x: (x & 15) << 2,
    lambda x: x >> 1,
    lambda x: x.sign(),
    lambda x: x.square() % 100,
    lambda x: x**2 % 50,
    lambda x: x.cumsum(-1),
    lambda x: x.sum(-1, keepdim=True) + x,
    lambda x: x.amax(0, True) - x,
    lambda x: torch.where(x < 0, x + 8, x),
    lambda x: torch.where(x >= 2, x - 2, x * 2),
    lambda x: torch.cat([x, x + 1])[: len(x)],
    lambda x: x.masked_fill(x > 4, 0),
    lambda x: x.to(torch.int8).to(torch.int64),
    lambda x: x.to(torch.int32).long(),
    lambda x: x.flip(0).transpose(0, 1).reshape(x.shape),
    lambda x: torch.relu(x),
    lambda x: x.tril(),
    lambda x: torch.nn.functional.pad(x, (1, 1), value=-2)[:, 1:-1],
    lambda x: (x > 0).long(),
    lambda x: torch.rsub(x, 4, alpha=2),
    lambda x: torch.add(x, x, alpha=-2),
    lambda x: torch.stack([x, -x]).amin(0),
    lambda x: x.sort(-1).values,
    lambda x: x.sort(-1).indices + x,
    lambda x: x.topk(1).indices + x,
    lambda x: x.max(-1, keepdim=True).indices * x,
    lambda x: x.argmax(-1, keepdim=True) - x,
    lambda x: torch.arange(x.shape[-1]) + x,
]
BINARY = [torch.add, torch.sub, torch.maximum, torch.minimum, operator.and_, lambda x, y: x * (y % 5)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_value_lies_outside_its_interval(data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.tuples(st.sampled_from(UNARY), st.sampled_from(BINARY)), min_size=1, max_size=5))
    low, high = data.draw(st.sampled_from([(-3, 3), (0, 100), (-128, 127)]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    x = torch.randint(low, high + 1, (3, 4), generator=generator).to(torch.int8)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.long()
        for unary, binary in steps:
            y = binary(y, unary(y))
        return y

    watch(function, x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.argmax(-1), (0, 5)),
        (lambda x: x.argmax(), (0, 23)),
        (lambda x: x.argmin(0) * 2 - 1, (-1, 5)),
        (lambda x: (x > 0).sum(-1), (0, 6)),
        (lambda x: (x > 0).long().cumsum(-1) - 1, (-1, 5)),
        (lambda x: x.argmax(-1) % 4, (0, 3)),
        (lambda x: x.argmax(-1) // 4, (0, 1)),
        (lambda x: x.topk(2).indices, (0, 5)),
        (lambda x: x.argsort(0), (0, 3)),
        (lambda x: torch.count_nonzero(x), (0, 24)),
        (lambda x: torch.bucketize(x, torch.zeros(7)), (0, 7)),
        (lambda x: torch.arange(3, 9).clamp(max=6), (3, 6)),
        (lambda x: torch.nn.functional.one_hot(x.argmax(-1), 6), (0, 1)),
        (lambda x: torch.where(x.argmax(-1) - 3 < 0, x.argmax(-1) + 7, 2), (2, 12)),
        (lambda x: x.argmax(-1).split(2)[1], (0, 5)),
    ],
)
def test_the_interval_is_as_narrow_as_what_bounds_the_values(function, expected: tuple[int, int]) -> None:  # type: ignore[no-untyped-def]
    assert watch(function, torch.randn(4, 6)) == Interval(*expected)


def test_a_wrapped_index_is_known_not_to_be_negative() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        index = x.argmax(-1) - 3
        return torch.where(index < 0, index + 6, index)

    assert watch(function, torch.randn(4, 6)) == Interval(0, 5)


def test_what_may_overflow_is_the_whole_dtype() -> None:
    assert watch(lambda x: x * 2, torch.tensor([1, 2])) == of_dtype(torch.int64)
    assert watch(lambda x: x.to(torch.int8), torch.tensor([1000])) == of_dtype(torch.int8)
    assert watch(lambda x: x.argmax(-1).to(torch.int32) * 2_000_000_000, torch.randn(4, 6)) == of_dtype(torch.int32)
    assert watch(lambda x: x.argmax(-1) // (x > 0).sum(-1).clamp(min=1), torch.ones(4, 6)) == Interval(0, 5)
    assert watch(lambda x, y: x.argmax(-1) // y, torch.ones(4, 6), torch.tensor([1, 2, -1, 5])) == of_dtype(torch.int64)


def test_constants_and_symbolic_sizes_bound_their_values() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.tensor([5, -2, 9]))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.argmax(0) + self.table, torch.arange(x.shape[0]) * 2

    batch = torch.export.Dim("batch", min=2, max=40)
    exported = export(Model(), (torch.randn(4, 3),), dynamic_shapes={"x": {0: batch}})
    program = Program(exported)
    positions, counted = program.graph.output_node().args[0]  # type: ignore[misc]
    assert program.ranges.of(positions) == Interval(-2, 48)
    assert program.ranges.of(counted) == Interval(0, 78)


def test_a_symbolic_size_without_a_bound_is_any_integer() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> int:
            return x.shape[0] * 2

    exported = export(Model(), (torch.randn(4),), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=3)}})
    program = Program(exported)
    [doubled] = program.graph.output_node().args[0]  # type: ignore[misc]
    assert program.ranges.of(doubled) == Interval(6, of_dtype(torch.int64).high)


def test_in_place_ops_leave_only_the_dtype() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        index = x.argmax(-1)
        index.add_(1 << 40)
        return index * 1

    program = Program(export(function, (torch.randn(4, 6),)))
    [result] = program.graph.output_node().args[0]  # type: ignore[misc]
    assert program.ranges.of(result) == of_dtype(torch.int64)


def test_a_chain_deeper_than_the_stack_is_followed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.argmax(-1)
        for _ in range(3000):
            y = y + 1
        return y

    assert watch(function, torch.randn(2, 3)) == Interval(3000, 3002)
