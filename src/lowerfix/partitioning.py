"""Partition a graph in linear time, into the partitions that PyTorch's own search finds.

PyTorch's ``CapabilityBasedPartitioner`` tries to merge every node with every partition, and walks the graph behind them
for each try: hundreds of seconds for what a few thousand ops leave. The partitions have a closed form. With the nodes
taken backwards,

    level(n) = the largest over users u of: level(u) if u is supported, else reach(u) + 1      for a supported n
    reach(c) = the largest over users u of: level(u) if u is supported, else reach(u)          for an unsupported c

where nothing counts as 0 for a level and as -1 for a reach, all supported nodes of one level are one partition:

- Two nodes cannot share a partition where a path between them leaves it, and along a path levels never grow, so nodes
  of one level are only joined by paths within it: a level is a valid partition.
- A node of level k starts a path with k unsupported stretches between supported nodes, and the ends of such a stretch
  never share a partition, so no partitioning has fewer.
- PyTorch's search takes the nodes in the same order, and joins each with the first partition that it may be joined
  with, from the last in the graph to the first: that is the one of its level. No later try succeeds, for what any
  vertex reaches is a prefix of the levels.

    partitioner = lowerfix.wrap_partitioner(partitioner, target="vgf")      # does this, and the rewrites
    with lowerfix.partitioning.fast():                                      # for a partitioner made elsewhere
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])

Everything that is replaced is put back, and only where it is the source that this was derived from.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.node import _get_qualified_name
from torch.fx.passes.infra import partitioner as torch_partitioner
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.traceback import NodeSource

from lowerfix import quickening
from lowerfix.errors import LowerfixError
from lowerfix.source import op_name

__all__ = ["LinearPartitioner", "Plan", "fast", "plan"]

KNOWN_SOURCES = {
    "CapabilityBasedPartitioner": {"torch 2.13.0": "c644f92dbbe58040"},
    "GroupBasedPartitioner": {"executorch 1.5.1": "fb0bdbfa065f977f"},
    "TOSAPartitioner": {"executorch 1.5.1": "17449206e5b10b88"},
    "GraphModule": {"torch 2.13.0": "40fc77f438ae82b1"},
    "NodeSource": {"torch 2.13.0": "0e29c3d55d6345c3"},
    "ExportPass": {"executorch 1.5.1": "28c44a8da1b40300"},
}
"""Digests of the sources whose result is known to be the same, by class and release."""

GROUP_MODULE = "executorch.exir.backend.canonical_partitioners.group_partitioner"
CONFIG_MODULE = "executorch.exir.backend.canonical_partitioners.config_partitioner"
PASSES_MODULE = "executorch.exir.pass_base"
ARM_MODULE = "executorch.backends.arm.tosa.partitioner"


def digest(name: str) -> str:
    """A digest of the installed source of one of ``KNOWN_SOURCES``; empty where there is no source to read."""
    sources: tuple[Any, ...]
    if name == "CapabilityBasedPartitioner":
        sources = (CapabilityBasedPartitioner, torch_partitioner._DependencyViewer)
    elif name == "GraphModule":
        sources = (GraphModule.__new__, GraphModule.__deepcopy__, _original(GraphModule, "recompile"))
    elif name == "NodeSource":
        sources = (NodeSource,)
    elif name == "ExportPass":
        owner = sys.modules[PASSES_MODULE]._ExportPassBase
        sources = (_original(owner, "_fx"), _original(owner, "call"), owner.call_submodule, owner.ExportTracer)
    elif name == "GroupBasedPartitioner":
        sources = (sys.modules[GROUP_MODULE].GroupBasedPartitioner,)
    else:
        arm = sys.modules[ARM_MODULE]
        of_class = arm.TOSAPartitioner
        sources = (of_class._tag_module, of_class._detag_boundary_nodes, arm._validate_partition)
    try:
        text = "".join(inspect.getsource(source) for source in sources)
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def known(name: str) -> bool:
    """Whether the installed source is one that this module was derived from; warns where it is not."""
    if digest(name) in KNOWN_SOURCES[name].values():
        return True
    releases = ", ".join(KNOWN_SOURCES[name])
    warnings.warn(
        f"lowerfix knows the {name} of {releases}, not the one that is installed: partitioning "
        "and lowering are left to that, and are as slow as without lowerfix",
        stacklevel=3,
    )
    return False


def levels(nodes: Sequence[Node], supported: Mapping[Node, bool]) -> dict[Node, int]:
    """The level of each supported node and the reach of each other one, by the recurrence above.

    Args:
        nodes: all nodes of a graph, each after what it reads.
        supported: whether the backend takes them.
    """
    level: dict[Node, int] = {}
    for node in reversed(nodes):
        takes = supported[node]
        highest = 0 if takes else -1
        for user in node.users:
            highest = max(highest, level[user] + (takes and not supported[user]))
        level[node] = highest
    return level


class LinearPartitioner(CapabilityBasedPartitioner):
    """PyTorch's partitioner, with the partitions worked out by their closed form.

    Takes what PyTorch's takes, and returns the same partitions with the same ids, in the same order. PyTorch's own
    search runs where ``skip_horizontal_fusion`` is asked for, where the graph is not in topological order, and where
    the installed PyTorch's search is not the one known here.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: Any,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        # Not PyTorch's own, which stores for each node all that come after it.
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops if non_compute_ops is not None else []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = bool(options.get("skip_horizontal_fusion", False))

    def propose_partitions(self) -> list[Partition]:
        """The partitions, as ``CapabilityBasedPartitioner.propose_partitions`` returns them."""
        nodes = list(self.graph_module.graph.nodes)
        _found.clear()
        if self.skip_horizontal_fusion or not _in_order(nodes) or not known("CapabilityBasedPartitioner"):
            self.dependency_viewer = torch_partitioner._DependencyViewer(self.graph_module)
            return super().propose_partitions()
        submodules = dict(self.graph_module.named_modules())
        supported = {node: self.operator_support.is_node_supported(submodules, node) for node in reversed(nodes)}
        level = levels(nodes, supported)
        of_level: dict[int, list[Node]] = {}
        for node in reversed(nodes):
            if supported[node]:
                of_level.setdefault(level[node], []).append(node)
        order = {node: place for place, node in enumerate(reversed(nodes))}
        partitions = _numbered(list(of_level.values()), order)
        _gather_outputs(nodes, partitions)
        if not self.allows_single_node_partition:
            partitions = {key: value for key, value in partitions.items() if self._computes_enough(value)}
        result = [partition for partition in partitions.values() if partition.size() > 0]
        _found.partitions, _found.order = tuple(result), order
        return result

    def _computes_enough(self, partition: Partition) -> bool:
        """Whether a partition has more than one op that counts."""
        ignored = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        names = [_get_qualified_name(node.target) for node in partition.nodes if node.op == "call_function"]  # type: ignore[arg-type]
        alone = sum(name in self.allowed_single_node_partition_ops for name in names)
        return sum(name not in ignored for name in names) + alone > 1


def _in_order(nodes: Sequence[Node]) -> bool:
    """Whether each node comes before all that read it."""
    seen: set[Node] = set()
    for node in reversed(nodes):
        if not all(user in seen for user in node.users):
            return False
        seen.add(node)
    return True


def _numbered(groups: Iterable[list[Node]], order: Mapping[Node, int]) -> dict[int, Partition]:
    """Partitions of the groups, each with the id that PyTorch's search gives it.

    Each supported node gets the next number. Of two partitions of one node the later number stays, and of others that
    of the larger, so a partition ends up with the number of its second node.

    Args:
        groups: the nodes of each partition, the last in the graph first.
        order: the place of each node, counted from the end of the graph.
    """
    numbers = {
        node: number for number, node in enumerate(sorted((n for g in groups for n in g), key=order.__getitem__))
    }
    made = {numbers[group[min(1, len(group) - 1)]]: group for group in groups}
    return {
        number: Partition(number, list(reversed(group)), [order[node] for node in reversed(group)])
        for number, group in sorted(made.items())
    }


def _gather_outputs(nodes: Sequence[Node], partitions: Mapping[int, Partition]) -> None:
    """Move each ``getitem`` to the partition of what it reads, where all that reads that is a ``getitem``."""
    assignment = {node: number for number, partition in partitions.items() for node in partition.nodes}
    tuples = [node for node in nodes if node.users and all(_is_getitem(user) for user in node.users)]
    while True:
        moves = {
            user: assignment.get(node)
            for node in tuples
            for user in node.users
            if assignment.get(user) != assignment.get(node)
        }
        if not moves:
            return
        for node, number in moves.items():
            before = assignment.pop(node, None)
            if before is not None:
                partitions[before].remove_node(node)
            if number is not None:
                assignment[node] = number
                partitions[number].add_node(node)


def _is_getitem(node: Node) -> bool:
    return node.op == "call_function" and _get_qualified_name(node.target) == "_operator.getitem"  # type: ignore[arg-type]


@cache
def _linear_group_partitioner(original: type) -> type:
    """A subclass of ExecuTorch's partitioner of groups that labels levels of the graph of groups.

    The original compares all pairs of groups. With each group contracted to one vertex the recurrence holds as it is,
    and there are never more partitions than in any other valid answer, at times fewer. Where groups interlock there is
    no order of the contracted graph; the original's own search runs then.
    """

    class LinearGroupPartitioner(original):  # type: ignore[misc]
        def __init__(
            self, graph_module: GraphModule, operator_support: Any, *args: Any, node_groups: Any = None, **options: Any
        ) -> None:
            # Not the original's, which stores for each node all that come before and after it.
            LinearPartitioner.__init__(self, graph_module, operator_support, *args, **options)
            self.made_with = (args, {**options, "node_groups": node_groups})
            self.groups: list[list[Node]] = [list(group) for group in node_groups or []]

        def propose_partitions(self) -> list[Partition]:
            nodes = list(self.graph_module.graph.nodes)
            place = {node: index for index, node in enumerate(nodes)}
            submodules = dict(self.graph_module.named_modules())
            supported = {n: self.operator_support.is_node_supported(submodules, n) for n in reversed(nodes)}
            groups = [[node for node in group if supported[node]] for group in self.groups]
            level = _group_levels(nodes, supported, groups)
            if level is None:
                args, options = self.made_with
                result: list[Partition] = original(
                    self.graph_module, self.operator_support, *args, **options
                ).propose_partitions()
                return result
            of_level: dict[int, list[Node]] = {}
            for node in nodes:
                if supported[node]:
                    of_level.setdefault(level[node], []).append(node)
            made = sorted(of_level.values(), key=lambda members: -place[members[-1]])
            partitions = {number: Partition(number, members) for number, members in enumerate(made)}
            assignment = {node: number for number, partition in partitions.items() for node in partition.nodes}
            self._process_getitem_nodes(partitions, assignment)
            self._filter_single_node_partitions(partitions)
            return [partition for partition in partitions.values() if partition.size() > 0]

    return LinearGroupPartitioner


def _group_levels(
    nodes: Sequence[Node], supported: Mapping[Node, bool], groups: Iterable[Sequence[Node]]
) -> dict[Node, int] | None:
    """The levels of nodes where each group is one vertex; None where the contracted graph has a cycle."""
    vertex: dict[Node, Node] = {node: node for node in nodes}
    members: dict[Node, Sequence[Node]] = {node: (node,) for node in nodes}
    for group in groups:
        for node in group:
            vertex[node] = group[0]
            del members[node]
        if group:
            members[group[0]] = group
    users = {
        first: {vertex[user] for node in group for user in node.users} - {first} for first, group in members.items()
    }
    pending = {first: len(behind) for first, behind in users.items()}
    readers: dict[Node, list[Node]] = {first: [] for first in members}
    for first, behind in users.items():
        for user in behind:
            readers[user].append(first)
    ready = [first for first in members if not pending[first]]
    level: dict[Node, int] = {}
    while ready:
        first = ready.pop()
        takes = supported[first]
        level[first] = max(
            [0 if takes else -1, *(level[user] + (takes and not supported[user]) for user in users[first])]
        )
        for reader in readers[first]:
            pending[reader] -= 1
            if not pending[reader]:
                ready.append(reader)
    if len(level) < len(members):
        return None
    return {node: level[vertex[node]] for node in nodes}


@dataclass
class Plan:
    """Which refused ops split a graph, and what it would take to have one delegate.

    Attributes:
        delegates: how many there are: the fewest that any partitioning has.
        costs: by op, how many fewer delegates there would be were it supported wherever it occurs; the dearest first,
            and only ops that alone make a difference.
        to_fix: the smallest set of nodes that have to be supported for there to be one delegate, in the graph's order:
            those refused ones that stand between supported ones.
    """

    delegates: int
    costs: dict[str, int]
    to_fix: tuple[Node, ...]


def plan(graph: Graph, supported: Callable[[Node], bool]) -> Plan:
    """Work out what the refused ops of a graph cost, in time linear in its size for each op that is refused.

    Args:
        graph: in topological order.
        supported: whether the backend takes a node.

    Raises:
        LowerfixError: where the graph is not in topological order.
    """
    nodes = list(graph.nodes)
    if not _in_order(nodes):
        raise LowerfixError("the graph is not in topological order: call its lint(), or legalize it first")
    takes = {node: bool(supported(node)) for node in nodes}
    level = levels(nodes, takes)
    delegates = 1 + max(level[node] for node in nodes if takes[node]) if any(takes.values()) else 0
    below: set[Node] = set()
    for node in nodes:
        if any(takes[source] or source in below for source in node.all_input_nodes):
            below.add(node)
    to_fix = tuple(node for node in nodes if not takes[node] and node in below and level[node] >= 0)
    costs: Counter[str] = Counter()
    for op in {op_name(node.target) for node in to_fix}:
        fixed = {n: takes[n] or (n.op == "call_function" and op_name(n.target) == op) for n in nodes}
        better = levels(nodes, fixed)
        costs[op] = delegates - 1 - max(better[node] for node in nodes if fixed[node])
    return Plan(delegates, {op: cost for op, cost in costs.most_common() if cost > 0}, to_fix)


class _RememberedSignature(ExportGraphSignature):
    """A signature whose dictionaries are made once, while nobody changes the program."""

    @cached_property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        return super().inputs_to_parameters

    @cached_property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        return super().inputs_to_buffers

    @cached_property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        return super().inputs_to_lifted_tensor_constants


@contextlib.contextmanager
def _remembered(program: ExportedProgram) -> Iterator[None]:
    original = program._graph_signature
    program._graph_signature = _RememberedSignature(original.input_specs, original.output_specs)
    try:
        yield
    finally:
        program._graph_signature = original


class _Found(threading.local):
    """The partitions that this thread's last search found, in order, and which of them is being tagged."""

    partitions: tuple[Partition, ...] = ()
    order: Mapping[Node, int] = MappingProxyType({})
    current: int = 0

    def clear(self) -> None:
        self.partitions, self.order, self.current = (), MappingProxyType({}), 0

    def tagged(self, tag: str) -> Partition | None:
        """The partition whose nodes have a tag: the current one or the next, for they are taken in order."""
        for index in range(self.current, min(self.current + 2, len(self.partitions))):
            if any(node.meta.get("delegation_tag") == tag for node in self.partitions[index].nodes):
                self.current = index
                return self.partitions[index]
        return None


_found = _Found()


def _quick_detag(original: Callable[..., None]) -> Callable[..., None]:
    """Arm's removal of the tags at a partition's border, which looks for the partition's nodes in the whole graph."""

    def detag(self: Any, module: GraphModule, tag: str, *args: Any, **options: Any) -> None:
        partition = _found.tagged(tag)
        if partition is None:
            return original(self, module, tag, *args, **options)
        nodes = sorted(partition.nodes, key=lambda node: -_found.order[node])
        return original(self, SimpleNamespace(graph=SimpleNamespace(nodes=nodes)), tag, *args, **options)

    return detag


def _quick_validate(original: Callable[[set[Node]], bool]) -> Callable[[set[Node]], bool]:
    """Arm's check that a partition has no cycle through others, which walks all that comes behind it.

    Levels never grow along a path, so one that leaves what is left of a partition and comes back stays within what the
    partition was.
    """

    def validate(nodes: set[Node]) -> bool:
        whole = _found.partitions[_found.current].nodes if _found.partitions else {}
        if not all(node in whole for node in nodes):
            return original(nodes)
        pending = [user for node in nodes for user in node.users if user in whole and user not in nodes]
        seen = set(pending)
        while pending:
            for user in pending.pop().users:
                if user in nodes:
                    return False
                if user in whole and user not in seen:
                    seen.add(user)
                    pending.append(user)
        return True

    return validate


def _with_signature(original: Callable[..., Any]) -> Callable[..., Any]:
    """A method that asks of each node whether it is a parameter, for which all parameters are listed each time."""

    def method(self: Any, program: ExportedProgram) -> Any:
        with _remembered(program):
            return original(self, program)

    return method


_lock = threading.Lock()
_MISSING: Any = object()
_replaced: dict[tuple[int, str], tuple[Any, Any, int]] = {}


@contextlib.contextmanager
def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Replace an attribute until the last of all that want it replaced, in any thread, is done."""
    key = (id(owner), name)
    with _lock:
        original, replacement, count = _replaced.get(key) or (getattr(owner, name, _MISSING), None, 0)
        if not count:
            replacement = make(original)
            setattr(owner, name, replacement)
        _replaced[key] = (original, replacement, count + 1)
    try:
        yield
    finally:
        with _lock:
            original, replacement, count = _replaced.pop(key)
            if count > 1:
                _replaced[key] = (original, replacement, count - 1)
            elif getattr(owner, name) is replacement:
                if original is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)


def _original(owner: Any, name: str) -> Any:
    """An attribute as it is while nobody wants it replaced."""
    with _lock:
        return _replaced.get((id(owner), name), (getattr(owner, name),))[0]


def _holders(name: str, classes: tuple[type, ...]) -> list[ModuleType]:
    """The loaded modules, but for this one, in which a name stands for one of the classes."""
    modules = [module for key, module in list(sys.modules.items()) if key != __name__]
    return [module for module in modules if getattr(module, "__dict__", {}).get(name) in classes]


@contextlib.contextmanager
def fast(*, groups: bool = False) -> Iterator[None]:
    """Partition in linear time within this context: for partitioners that were made, and are called, elsewhere.

    The result is the same. What is replaced are names in the modules of the installed partitioners; they are put back
    at the end. It may be nested, and used by several threads.

    Args:
        groups: also label the groups of XNNPACK's partitioner by levels. The result may differ: valid, and never with
            more delegates.
    """
    with contextlib.ExitStack() as stack:

        def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            stack.enter_context(_replace(owner, name, make))

        name = "CapabilityBasedPartitioner"
        for module in _holders(name, (CapabilityBasedPartitioner, LinearPartitioner)):
            replace(module, name, lambda _: LinearPartitioner)
        arm, config, grouped = (sys.modules.get(module) for module in (ARM_MODULE, CONFIG_MODULE, GROUP_MODULE))
        if arm is not None and known("TOSAPartitioner"):
            replace(arm.TOSAPartitioner, "_detag_boundary_nodes", _quick_detag)
            replace(arm, "_validate_partition", _quick_validate)
            replace(arm.TOSAPartitioner, "partition", _with_signature)
        if config is not None:
            replace(config.ConfigerationBasedPartitioner, "get_matched_nodes_from_configs", _with_signature)
        if groups and grouped is not None and known("GroupBasedPartitioner"):
            name = "GroupBasedPartitioner"
            original = _original(grouped, name)
            for module in _holders(name, (original, _linear_group_partitioner(original))):
                replace(module, name, _linear_group_partitioner)
        stack.callback(_found.clear)
        passes = sys.modules.get(PASSES_MODULE)
        if known("NodeSource"):
            replace(NodeSource, "__deepcopy__", quickening.shared)
        if known("GraphModule"):
            replace(GraphModule, "recompile", quickening.compiled_later)
            replace(GraphModule, "__str__", quickening.printed_if_read)
        if passes is not None and known("ExportPass"):
            replace(Interpreter, "call_function", quickening.remembered_call)
            replace(passes._ExportPassBase, "call", quickening.next_trace_first)
            replace(passes._ExportPassBase, "_fx", quickening.expecting)
        stack.enter_context(quickening.quick.active(_original(GraphModule, "recompile")))
        yield
