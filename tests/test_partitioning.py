"""Partitions in linear time are those that PyTorch's search finds, and nothing stays replaced."""

from __future__ import annotations

import contextlib
import operator
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra import partitioner as torch_partitioner
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import validate_partition

import lowerfix
from lowerfix import demo_model, lowering, partitioning, targets
from lowerfix.errors import LowerfixError
from lowerfix.partitioning import LinearPartitioner, fast, plan
from lowerfix.testing import edge_program


class Marked(OperatorSupportBase):
    """The backend takes what is marked."""

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        return bool(node.meta.get("supported"))


def graph_of(choices: list[tuple[int, list[int], bool]]) -> GraphModule:
    """A random graph; each choice is a kind of node, what it reads (counted backwards), whether it is supported."""
    graph = Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("y")]
    for kind, sources, supported in choices:
        read = [nodes[-1 - source % len(nodes)] for source in sources]
        if kind == 0:
            node = graph.call_function(operator.getitem, (read[0], 0))
        elif kind == 1:
            node = graph.call_function(torch.ops.aten.view.default, (read[0], [1]))
        else:
            node = graph.call_function(torch.ops.aten.cat.default, (read,))
        node.meta["supported"] = supported
        nodes.append(node)
    graph.output(tuple(node for node in nodes if not node.users))
    return GraphModule(nn.Module(), graph)


CHOICES = st.tuples(
    st.integers(0, 5), st.lists(st.integers(0, 12), min_size=1, max_size=3), st.sampled_from([True, True, True, False])
)
GRAPHS = st.lists(CHOICES, min_size=1, max_size=28).map(graph_of)


def described(partitions: list[Partition]) -> list[tuple[int | None, list[tuple[str, int | None]]]]:
    """Ids, nodes and their order."""
    return [(p.id, [(node.name, order) for node, order in p.nodes.items()]) for p in partitions]


@settings(max_examples=300, deadline=None)
@given(GRAPHS, st.booleans(), st.sampled_from([[], ["_operator.getitem"], ["torch.ops.aten.cat.default"]]))
def test_the_partitions_are_those_of_pytorch(module: GraphModule, single: bool, allowed: list[str]) -> None:
    options = {"allows_single_node_partition": single, "allowed_single_node_partition_ops": allowed}
    expected = CapabilityBasedPartitioner(module, Marked(), **options).propose_partitions()  # type: ignore[arg-type]
    linear = LinearPartitioner(module, Marked(), **options)  # type: ignore[arg-type]
    assert described(linear.propose_partitions()) == described(expected)
    assert "dependency_viewer" not in vars(linear)  # PyTorch's search did not run


@settings(max_examples=50, deadline=None)
@given(GRAPHS)
def test_without_horizontal_fusion_pytorch_searches(module: GraphModule) -> None:
    expected = CapabilityBasedPartitioner(module, Marked(), skip_horizontal_fusion=True).propose_partitions()
    linear = LinearPartitioner(module, Marked(), skip_horizontal_fusion=True)
    assert described(linear.propose_partitions()) == described(expected)


def chain(marks: str) -> GraphModule:
    """Ops one behind the other; ``.`` is refused, what another letter names is supported where it is upper case."""
    graph = Graph()
    node = graph.placeholder("x")
    ops = {"a": torch.ops.aten.abs.default, "b": torch.ops.aten.neg.default, ".": torch.ops.aten.sin.default}
    for mark in marks:
        node = graph.call_function(ops[mark.lower()], (node,))
        node.meta["supported"] = mark.isupper()
    graph.output(node)
    return GraphModule(nn.Module(), graph)


def test_a_graph_out_of_order_is_left_to_pytorch() -> None:
    module = chain("AAA")
    first, second = list(module.graph.nodes)[1:3]
    first.append(module.graph.call_function(torch.ops.aten.abs.default, (second,)))
    module.graph.output_node().args = (first.next,)
    linear = LinearPartitioner(module, Marked(), allows_single_node_partition=True)
    linear.propose_partitions()
    assert "dependency_viewer" in vars(linear)


def test_a_pytorch_that_is_not_known_is_left_to_search(monkeypatch: pytest.MonkeyPatch) -> None:
    module = chain("A.A")
    monkeypatch.setitem(partitioning.KNOWN_SOURCES, "CapabilityBasedPartitioner", {"torch 1.0": "0"})
    partitioning.known.cache_clear()
    try:
        linear = LinearPartitioner(module, Marked(), allows_single_node_partition=True)
        with pytest.warns(UserWarning, match=r"knows the CapabilityBasedPartitioner of torch 1\.0"):
            found = linear.propose_partitions()
        assert "dependency_viewer" in vars(linear)
        assert len(found) == 2
    finally:
        partitioning.known.cache_clear()


# What the refused ops cost


def test_a_plan_names_what_has_to_be_fixed_for_one_delegate() -> None:
    module = chain(".A.bA.Aa")
    result = plan(module.graph, lambda node: bool(node.meta.get("supported")))
    assert result.delegates == 3
    assert [node.name for node in result.to_fix] == ["sin_default_1", "neg_default", "sin_default_2"]
    assert result.costs == {"aten.sin.default": 1}


@settings(max_examples=200, deadline=None)
@given(GRAPHS)
def test_a_plan_is_enough_and_none_of_it_is_too_much(module: GraphModule) -> None:
    def delegates(marked: Callable[[Node], bool]) -> int:
        return plan(module.graph, marked).delegates

    def supported(node: Node) -> bool:
        return bool(node.meta.get("supported"))

    single = CapabilityBasedPartitioner(module, Marked(), allows_single_node_partition=True)
    result = plan(module.graph, supported)
    if not any(node.target is operator.getitem for node in module.graph.nodes):
        assert result.delegates == len(single.propose_partitions())
    fixed = set(result.to_fix)
    assert delegates(lambda node: supported(node) or node in fixed) == min(result.delegates, 1)
    for node in fixed:
        assert delegates(lambda other, node=node: supported(other) or (other in fixed and other is not node)) > 1
    for op, fewer in result.costs.items():
        kind = [
            node
            for node in module.graph.nodes
            if node.op == "call_function" and lowerfix.source.op_name(node.target) == op
        ]
        assert delegates(lambda other, kind=kind: supported(other) or other in kind) == result.delegates - fewer


def test_a_plan_needs_a_graph_in_order() -> None:
    module = chain("AA")
    first, second = list(module.graph.nodes)[1:3]
    first.prepend(second)
    with pytest.raises(LowerfixError, match="topological order"):
        plan(module.graph, lambda node: True)


# The installed partitioners


class Blocks(nn.Module):
    """A chain in which every block has an op beside the main path that the backend may not have."""

    def __init__(self, count: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            y = layer(x)
            x = nn.functional.silu(y) + torch.atan2(y, y + 2)
        return x


def edge(model: nn.Module, inputs: tuple[Any, ...], target: str) -> Any:
    """The program that a target's partitioner is given."""
    program = torch.export.export(model.eval(), inputs)
    if targets.get(target).quantized:
        program = lowering.quantize(program, target, [inputs])
    return edge_program(program, target)


def tags(program: Any, target: str, wrapped: bool, groups: bool = False) -> dict[str, str]:
    """The tag of each node; a program is tagged once."""
    for node in program.graph.nodes:
        node.meta.pop("delegation_tag", None)
    partitioner: Any = targets.get(target).partitioner()
    if wrapped:
        with fast(groups=groups):
            partitioner.partition(program)
    else:
        partitioner.partition(program)
    return {node.name: node.meta["delegation_tag"] for node in program.graph.nodes if "delegation_tag" in node.meta}


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("vgf", "blocks"),
        ("ethos-u85", "blocks"),
        ("xnnpack", "blocks"),
        ("vgf", "policy"),
        ("xnnpack", "policy"),
        pytest.param("ethos-u85", "policy", marks=pytest.mark.slow),
    ],
)
def test_the_real_partitioners_tag_the_same(target: str, kind: str) -> None:
    if kind == "blocks":
        program = edge(Blocks(12), (torch.randn(1, 16),), target)
    else:
        program = edge(demo_model.RobotPolicy(), demo_model.example_inputs(), target)
    expected = tags(program, target, wrapped=False)
    assert len(set(expected.values())) > 1
    assert tags(program, target, wrapped=True) == expected


def test_groups_by_level_are_valid_and_no_more() -> None:
    program = edge(Blocks(6), (torch.randn(1, 16),), "xnnpack")
    expected = tags(program, "xnnpack", wrapped=False)
    found = tags(program, "xnnpack", wrapped=True, groups=True)
    assert found.keys() == expected.keys()
    assert len(set(found.values())) <= len(set(expected.values()))
    for tag in set(found.values()):
        assert validate_partition([node for node in program.graph.nodes if found.get(node.name) == tag])


@settings(max_examples=200, deadline=None)
@given(GRAPHS, st.randoms(use_true_random=False))
def test_any_groups_by_level_are_valid_and_no_more(module: GraphModule, random: Any) -> None:
    from executorch.exir.backend.canonical_partitioners.group_partitioner import GroupBasedPartitioner

    free = [node for node in module.graph.nodes if node.meta.get("supported") and node.target is not operator.getitem]
    groups = []
    while free:
        start = random.randrange(len(free))
        groups.append([free.pop(start) for _ in range(min(random.randint(1, 3), len(free) - start))])
    options: dict[str, Any] = {"node_groups": groups, "allows_single_node_partition": True}
    linear = partitioning._linear_group_partitioner(GroupBasedPartitioner)(module, Marked(), **options)
    nodes = list(module.graph.nodes)
    supported = {node: bool(node.meta.get("supported")) for node in nodes}
    if partitioning._group_levels(nodes, supported, groups) is None:
        return  # groups interlock: the original answers
    found = linear.propose_partitions()
    for partition in found:
        if not any(node.target is operator.getitem for node in partition.nodes):
            assert validate_partition(list(partition.nodes))
    together = {node: partition.id for partition in found for node in partition.nodes}
    for group in groups:
        assert len({together[node] for node in group}) == 1
    assert set(together) == {node for node in nodes if supported[node]}
    fresh = GroupBasedPartitioner(module, Marked(), **options).propose_partitions()
    if all(validate_partition(list(partition.nodes)) for partition in fresh):
        assert len(found) <= len(fresh)


# What is replaced is put back


def names() -> list[Any]:
    from executorch.backends.arm.tosa import partitioner as arm
    from executorch.exir.backend.canonical_partitioners import config_partitioner, pattern_op_partitioner

    owner = arm.TOSAPartitioner
    return [
        torch_partitioner.CapabilityBasedPartitioner,
        arm.CapabilityBasedPartitioner,
        arm._validate_partition,
        owner._detag_boundary_nodes,
        config_partitioner.ConfigerationBasedPartitioner.get_matched_nodes_from_configs,
        pattern_op_partitioner.GroupBasedPartitioner,
    ]


def test_everything_is_put_back_when_the_last_user_is_done() -> None:
    before = names()
    with contextlib.suppress(ZeroDivisionError), fast(groups=True):
        assert all(new is not old for new, old in zip(names(), before, strict=True))
        with fast():
            pass
        assert all(new is not old for new, old in zip(names(), before, strict=True))
        raise ZeroDivisionError
    assert names() == before


def test_threads_do_not_put_back_what_others_use() -> None:
    before = names()
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with fast():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with fast():
        thread.start()
        assert entered.wait(10)
    assert torch_partitioner.CapabilityBasedPartitioner is LinearPartitioner
    leave.set()
    thread.join()
    assert names() == before


def test_a_wrapped_partitioner_is_fast_and_keeps_its_class() -> None:
    original = targets.get("vgf").partitioner()
    partitioner: Any = lowerfix.wrap_partitioner(original, target="vgf")
    assert type(partitioner) is type(original)
    program = edge(Blocks(4), (torch.randn(1, 16),), "vgf")
    expected = tags(program, "vgf", wrapped=False)
    for node in program.graph.nodes:
        node.meta.pop("delegation_tag", None)
    before = names()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        seen: list[type] = []

        class Watched(LinearPartitioner):
            def propose_partitions(self) -> list[Partition]:
                seen.append(type(self))
                return super().propose_partitions()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partitioning, "LinearPartitioner", Watched)
            partitioner.partition(program)
    assert seen
    assert names() == before
    found = {node.name: node.meta["delegation_tag"] for node in program.graph.nodes if "delegation_tag" in node.meta}
    assert found == expected
