"""What lowering is spared changes nothing of its result, and nothing stays replaced."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Interpreter
from torch.fx.traceback import NodeSource

import lowerfix
from lowerfix import demo_model, lowering, partitioning, targets
from lowerfix.partitioning import fast
from lowerfix.quickening import quick
from lowerfix.testing import export


class Block(nn.Module):
    """What the backend takes and what it does not, with numbers, a mask, and a slice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution, self.linear = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.convolution(x).relu() * 2 + 1
        z = torch.where(y > 0.5, self.linear(y), torch.atan2(y, y + 2))[:, 1:]
        return z.mean((2, 3)), z.softmax(-1)


class Switch(nn.Module):
    """A graph within a graph."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.cond(x.sum() > 0, lambda y: y.sin() + 1, lambda y: y.cos() * 2, (x,))
        return result


INPUTS = (torch.randn(1, 3, 8, 8),)


def lowered(program: Any, target: str, quickly: bool) -> lowering.Lowered:
    if not quickly:
        return lowering.lower(program, target, compile=False)
    with fast():
        return lowering.lower(program, target, compile=False)


def described(module: GraphModule) -> list[Any]:
    """Names, ops, arguments, shapes, types and origins of all nodes."""

    def origin(source: NodeSource) -> Any:
        return source.name, source.pass_name, [origin(before) for before in source.from_node]

    def shape(value: Any) -> Any:
        return (value.shape, value.dtype, value.stride()) if isinstance(value, Tensor) else str(value)

    return [
        (
            node.format_node(),
            torch.utils._pytree.tree_map(shape, node.meta.get("val")),
            [origin(source) for source in node.meta.get("from_node", [])],
        )
        for node in module.graph.nodes
    ]


def assert_equal_lowerings(program: Any, target: str) -> None:
    slow, quickly = lowered(program, target, False), lowered(program, target, True)
    assert quickly.delegates == slow.delegates > 0
    modules = [result.edge.exported_program().graph_module for result in (slow, quickly)]
    assert modules[0].code == modules[1].code
    assert described(modules[0]) == described(modules[1])
    for name, child in modules[0].named_children():
        other = getattr(modules[1], name)
        if hasattr(child, "processed_bytes"):
            assert child.processed_bytes == other.processed_bytes
            assert described(child.original_module.graph_module) == described(other.original_module.graph_module)
            assert child.original_module.graph_module.code == other.original_module.graph_module.code
    assert slow.pte() == quickly.pte()


@pytest.mark.parametrize("target", ["vgf", pytest.param("ethos-u85", marks=pytest.mark.slow), "xnnpack"])
def test_lowering_comes_to_the_same_bytes_and_graph(target: str) -> None:
    program = export(Block().eval(), INPUTS)
    if targets.get(target).quantized:
        program = lowering.quantize(program, target, [INPUTS])
    assert_equal_lowerings(program, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["vgf", "xnnpack"])
def test_rewritten_policies_come_to_the_same(target: str) -> None:
    program = export(demo_model.RobotPolicy().eval(), demo_model.example_inputs())
    assert_equal_lowerings(lowerfix.apply(program, target=target), target)


@pytest.mark.slow
def test_sizes_that_are_symbols_and_graphs_in_graphs_come_to_the_same() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.transpose(0, 1)).softmax(-1) @ torch.cat([x, x + 1], 1).abs()

    x = torch.randn(4, 3)
    batch = torch.export.Dim("batch", min=2, max=16)
    assert_equal_lowerings(torch.export.export(Model(), (x,), dynamic_shapes=({0: batch},)), "xnnpack")
    slow, quickly = (lowered(torch.export.export(Switch(), (x,)), "xnnpack", quickly) for quickly in (False, True))
    assert slow.edge.exported_program().graph_module.code == quickly.edge.exported_program().graph_module.code


# The parts


def chain(*ops: Any) -> GraphModule:
    graph = Graph()
    node = graph.placeholder("x")
    for op in ops:
        node = graph.call_function(op, (node,))
    graph.output(node)
    return GraphModule(nn.Module(), graph)


def test_code_is_made_when_it_is_wanted_and_of_the_graph_as_it_is() -> None:
    with fast():
        module = chain(torch.abs)
        assert module in quick.pending
        code = module.recompile()
        module.graph.output_node().args = (next(iter(module.graph.nodes)),)
        module.graph.eliminate_dead_code()
        module.recompile()
        assert "abs" not in module.code
        assert module not in quick.pending
        assert "abs" not in code.src
        assert float(module(torch.tensor(-1.0))) == -1
        other, unused = chain(torch.neg), chain(torch.neg)
        assert str(unused) == str(other)
        assert type(other).forward.__code__.co_varnames[:2] == ("self", "x")
        left = chain(torch.abs)
    assert not quick.pending
    assert "abs" in vars(left)["_code"]
    assert float(left(torch.tensor(-1.0))) == 1


def test_another_thread_makes_its_code_at_once() -> None:
    made: list[GraphModule] = []
    with fast():
        thread = threading.Thread(target=lambda: made.append(chain(torch.abs)))
        thread.start()
        thread.join()
        assert "_code" in vars(made[0])


def test_a_result_is_remembered_for_the_same_arguments_only() -> None:
    from executorch.exir.dialects._ops import ops
    from executorch.exir.pass_base import ExportPass
    from torch._subclasses.fake_tensor import FakeTensorMode

    add, cat = ops.edge.aten.add.Tensor, ops.edge.aten.cat.default
    mode = FakeTensorMode()
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(add, (x, x))
    second = graph.call_function(add, (first, 1))
    graph.output((second,))
    x.meta["val"] = mode.from_tensor(torch.zeros(2, 3))
    module = GraphModule(nn.Module(), graph)

    def values(module: GraphModule) -> list[Any]:
        return [node.meta["val"] for node in module.graph.nodes if node.op == "call_function"]

    with fast():
        once = ExportPass()(module).graph_module  # type: ignore[union-attr]
        twice = ExportPass()(once).graph_module  # type: ignore[union-attr]
        assert all(one is other for one, other in zip(values(once), values(twice), strict=True))
        # The arguments of a node change: what is remembered of the old ones, and its own tensor, are not taken.
        nodes = list(twice.graph.nodes)
        with twice.graph.inserting_after(nodes[0]):
            longer = twice.graph.call_function(cat, ([nodes[0], nodes[0]],))
        nodes[1].args = (longer, longer)
        thrice = ExportPass()(twice).graph_module  # type: ignore[union-attr]
        assert [tuple(value.shape) for value in values(thrice)] == [(4, 3)] * 3
    assert not quick.results
    assert not quick.before


def replaced() -> list[Any]:
    from executorch.exir.pass_base import _ExportPassBase

    return [
        GraphModule.recompile,
        GraphModule.__str__,
        Interpreter.call_function,
        _ExportPassBase.call,
        _ExportPassBase._fx,
        getattr(NodeSource, "__deepcopy__", None),
    ]


def test_everything_is_put_back() -> None:
    before = replaced()
    with contextlib.suppress(ZeroDivisionError), fast():
        assert all(new is not old for new, old in zip(replaced(), before, strict=True))
        with fast():
            pass
        assert quick.depth == 1
        raise ZeroDivisionError
    assert replaced() == before
    assert quick.depth == 0


@pytest.mark.parametrize("name", ["GraphModule", "NodeSource", "ExportPass"])
def test_what_is_not_known_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = replaced()
    monkeypatch.setitem(partitioning.KNOWN_SOURCES, name, {"torch 1.0": "0"})
    partitioning.known.cache_clear()
    try:
        with pytest.warns(UserWarning, match=f"knows the {name} of torch"), fast():
            kept = [new is old for new, old in zip(replaced(), before, strict=True)]
    finally:
        partitioning.known.cache_clear()
    expected = {"GraphModule": [0, 1], "NodeSource": [5], "ExportPass": [2, 3, 4]}[name]
    assert [index for index, same in enumerate(kept) if same] == expected
