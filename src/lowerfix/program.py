"""The working copy of a program that passes rewrite: its own graph, the caller's tensors.

``copy.deepcopy(exported_program)`` is never used: it copies the weights, and it renames placeholders that are called
like a Python builtin (``input``) while the signature keeps the old names.
"""

import copy
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.traceback import NodeSource, NodeSourceAction
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten, treespec_leaf, treespec_tuple
from torch.utils._sympy.symbol import SymT, symbol_is_type

from lowerfix.errors import LowerfixError
from lowerfix.ranges import Ranges
from lowerfix.source import describe

CASTS = ("aten.to.dtype", "aten._to_copy.default", "dim_order_ops._to_dim_order_copy.default")
"""Ops that change the dtype of a tensor, as exported programs spell them."""

_CONSTANT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class Stage(Enum):
    """How far a program has come on its way to the backend."""

    FLOAT = "ATen, not quantized"
    QUANTIZED = "ATen, quantized (with quantize and dequantize ops)"
    EDGE = "Edge dialect"


def stage_of(graph: Graph) -> Stage:
    """Tell the stage of a program by the ops in its graph."""
    stage = Stage.FLOAT
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if type(node.target).__name__ == "EdgeOpOverload":
            return Stage.EDGE
        if is_quantization_op(node.target):
            stage = Stage.QUANTIZED
    return stage


def is_quantization_op(target: object) -> bool:
    """Whether an ATen op quantizes or dequantizes (``quantized_decomposed`` and ``torchao`` namespaces)."""
    return getattr(target, "namespace", "") in ("quantized_decomposed", "torchao", "pt2e_quant")


def fake_tensors(node: Node) -> Iterator[torch.Tensor]:
    """The fake tensors that a node produces."""
    return (value for value in tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor))


def forget_pending_sizes(graph: Graph) -> None:
    """Drop the sizes that somebody has made for the program's fake tensors and never used.

    ``to_edge`` leaves such behind where a decomposition makes masks; the next to trace would be blamed for them.
    """
    for node in graph.find_nodes(op="placeholder"):
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        pending = getattr(getattr(mode, "shape_env", None), "pending_fresh_unbacked_symbols", None)
        if pending is not None:
            pending.clear()


def user_inputs(program: ExportedProgram) -> list[Node]:
    """The placeholders that the user's inputs come through, in order."""
    names = set(program.graph_signature.user_inputs)
    return [node for node in program.graph.find_nodes(op="placeholder") if node.name in names]


def example(value: Any) -> Any:
    """Zeros of the shape and dtype of an input's fake value, or its number."""
    if isinstance(value, torch.Tensor):
        return torch.zeros([_hint(size) for size in value.shape], dtype=value.dtype)
    return _hint(value)


def dynamic_shape(value: Any) -> Any:
    """The dynamic shape of an input, as ``torch.export.export`` takes it."""
    if not isinstance(value, torch.Tensor):
        return None
    return {d: torch.export.Dim.AUTO for d, size in enumerate(value.shape) if isinstance(size, torch.SymInt)}


def _hint(size: Any) -> Any:
    """The size that a symbolic one had when the program was exported; reading it pins nothing."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


def fits(value: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether a tensor has the rank and the sizes of an input's fake value, as far as those are not symbolic."""
    return value.dim() == expected.dim() and all(
        isinstance(size, torch.SymInt) or size == actual
        for size, actual in zip(expected.shape, value.shape, strict=True)
    )


def described(node: Node) -> str:
    """The dtypes and shapes of what a node makes, ``float32[2, 3]``."""
    return ", ".join(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in fake_tensors(node))


def trains_statistics(node: Node) -> bool:
    """Whether a node is a batch norm that changes its running statistics, which its schema does not always say."""
    aten = torch.ops.aten
    if node.target not in (
        aten.batch_norm.default,
        aten.native_batch_norm.default,
        aten._native_batch_norm_legit.default,
    ):
        return False
    return node.args[3] is not None and node.args[5] is True


def depends_on_data(node: Node) -> bool:
    """Whether a node takes or makes a tensor whose size is known only when the program runs, as ``x[mask]`` does."""
    return any(
        isinstance(size, torch.SymInt) and free_unbacked_symbols(size)
        for one in (node, *node.all_input_nodes)
        for value in fake_tensors(one)
        for size in value.shape
    )


def mutated_arguments(node: Node) -> list[Node]:
    """The argument nodes whose values an in-place op changes; empty for a functional op."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or node.target is torch.ops.aten.detach_.default:
        return []
    mutated: list[Node] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            mutated.extend(leaf for leaf in tree_leaves(value) if isinstance(leaf, Node))
    return mutated


def is_view(node: Node) -> bool:
    """Whether a node's op returns a part of an argument's memory, such as ``select`` or ``diagonal``."""
    schema = getattr(node.target, "_schema", None)
    return (
        schema is not None
        and not schema.is_mutable
        and any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)
    )


def given_arguments(node: Node) -> dict[str, Any]:
    """The arguments of an op's node by name, the defaults of those that are left out included."""
    assert isinstance(node.target, torch._ops.OpOverload)
    defaults = {argument.name: argument.default_value for argument in node.target._schema.arguments}
    return {**defaults, **dict(zip(defaults, node.args, strict=False)), **node.kwargs}


def draws_random(node: Node) -> bool:
    """Whether a node draws random numbers, as dropout and its like do only with arguments that say so."""
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    given = given_arguments(node)
    chances = [given[name] for name in ("dropout", "dropout_p") if name in given]
    return not (given.get("train") is False or given.get("training") is False or chances == [0.0])


def copy_graph(graph: Graph) -> Graph:
    """Copy a graph with its node names; node metadata is copied one level deep, values are shared."""
    new = Graph(tracer_cls=graph._tracer_cls)
    new._codegen = copy.deepcopy(graph._codegen)
    mapping: dict[Node, Node] = {}
    for node in graph.nodes:
        copied = new.node_copy(node, lambda old: mapping[old])
        if copied.name != node.name:  # FX renames what is called like a builtin; the signature would then be stale
            copied.name = node.name
            new._graph_namespace.create_name(node.name, copied)
        mapping[node] = copied
    return new


class Program:
    """A program being rewritten: either a whole ``ExportedProgram`` or a bare ``GraphModule``.

    Attributes:
        graph_module: the module that owns ``graph``. Passes edit it freely.
        stage: the program's stage when it was cloned.
    """

    def __init__(self, source: ExportedProgram | GraphModule) -> None:
        """Clone the graph of ``source``; tensors are shared, ``source`` itself is never changed.

        Raises:
            LowerfixError: if ``source`` lacks a tensor that its signature names.
        """
        self.source = source
        module = source.graph_module if isinstance(source, ExportedProgram) else source
        graph = copy_graph(module.graph)
        self.graph_module = GraphModule(module, graph, class_name=type(module).__name__)
        self.graph_module.meta.update(module.meta)
        self.graph_module.training = module.training
        self.stage = stage_of(graph)
        self._renamed: dict[str, str] = {}
        self._in_place: bool | None = None
        self._ranges: Ranges | None = None
        self._new_inputs: list[Node] = []
        self._new_outputs = 0
        self.numbers: dict[Any, Node] = {}
        """Stored tensors of one number, for passes that would store it again."""
        self._used_before: set[str] = {node.name for node in graph.nodes if node.users}
        if isinstance(source, ExportedProgram):
            self._signature = copy.copy(source.graph_signature)
            self._input_specs: dict[str, InputSpec] = {
                spec.arg.name: copy.copy(spec) for spec in source.graph_signature.input_specs
            }
            self._output_specs = [copy.copy(spec) for spec in source.graph_signature.output_specs]
            self.state_dict: dict[str, Any] = dict(source.state_dict)
            self.constants: dict[str, Any] = dict(source.constants)
            self._check_complete()
        self.mutable = self._find_mutable()
        self.interface = self._interface()

    @property
    def graph(self) -> Graph:
        return self.graph_module.graph

    @property
    def is_exported(self) -> bool:
        return isinstance(self.source, ExportedProgram)

    @property
    def fake_mode(self) -> Any:
        """The ``FakeTensorMode`` of the program's values, or None where it has none."""
        for node in self.graph.nodes:
            for value in fake_tensors(node):
                mode = getattr(value, "fake_mode", None)
                if mode is not None:
                    return mode
        return None

    # Constants ------------------------------------------------------------------------------------------------------

    def _check_complete(self) -> None:
        for spec in self._input_specs.values():
            if (
                spec.kind in _CONSTANT_KINDS
                and spec.target not in self.state_dict
                and spec.target not in self.constants
            ):
                raise LowerfixError(
                    f"the program has lost its tensor {spec.target!r}: ExecuTorch's lowering takes tensors out of the "
                    "program that it is given. Next step: export the model again, and lower what lowerfix.apply returns"
                )

    def _find_mutable(self) -> set[str]:
        """Names of nodes whose tensor the program itself changes: mutated buffers and what in-place ops write to."""
        names = set()
        if isinstance(self.source, ExportedProgram):
            targets = set(self.source.graph_signature.buffers_to_mutate.values())
            names = {name for name, spec in self._input_specs.items() if spec.target in targets}
        pending = [node for user in self.graph.nodes for node in mutated_arguments(user)]
        while pending:  # an in-place op may write through a view: taint what the view was taken of
            node = pending.pop()
            if node.name not in names:
                names.add(node.name)
                if is_view(node) or not isinstance(node.target, torch._ops.OpOverload) or "dropout" in str(node.target):
                    pending.extend(node.all_input_nodes)  # dropout returns its input where it drops nothing
        stored = {node.name: tensor for node in self.graph.nodes if (tensor := self._stored(node)) is not None}
        changed = {_memory(stored[name]) for name in names if name in stored}
        return names | {name for name, tensor in stored.items() if changed and _memory(tensor) in changed}

    @property
    def has_in_place_ops(self) -> bool:
        if self._in_place is None:
            self._in_place = any(mutated_arguments(node) for node in self.graph.nodes)
        return self._in_place

    @property
    def ranges(self) -> Ranges:
        """What is known of the program's integers; stays true while passes rewrite it."""
        if self._ranges is None:
            self._ranges = Ranges(self.tensor, self.has_in_place_ops)
        return self._ranges

    def tensor(self, node: Node) -> torch.Tensor | None:
        """The tensor of a parameter, buffer or constant that nothing in the program changes; None for other nodes."""
        return None if node.name in self.mutable else self._stored(node)

    def _stored(self, node: Node) -> torch.Tensor | None:
        value: Any = None
        if self.is_exported and node.op == "placeholder":
            spec = self._input_specs[node.name]
            if spec.kind in _CONSTANT_KINDS:
                value = self.state_dict.get(spec.target or "", self.constants.get(spec.target or ""))
        elif node.op == "get_attr":
            value = self.graph_module
            for part in str(node.target).split("."):
                value = getattr(value, part, None)
        return value if isinstance(value, torch.Tensor) else None

    def initial(self, node: Node) -> torch.Tensor | None:
        """The tensor that a parameter, buffer or constant starts with, also where the program changes it."""
        return self._stored(node)

    @property
    def user_inputs(self) -> list[Node]:
        """The placeholders that the user's inputs come through, in order."""
        specs = self._input_specs if self.is_exported else {}
        return [
            node
            for node in self.graph.find_nodes(op="placeholder")
            if node.name not in specs or specs[node.name].kind is InputKind.USER_INPUT
        ]

    @property
    def output_kinds(self) -> list[OutputKind]:
        """What each output of the graph is for, in order."""
        return [spec.kind for spec in self._output_specs]

    def kind(self, node: Node) -> str:
        """How a node's value reaches the program: ``parameter``, ``buffer``, ``constant`` or ``input``.

        ``input`` stands for all that is not constant. Backends treat the others differently.
        """
        tensor = self.tensor(node)
        if tensor is None:
            return "input"
        if isinstance(tensor, torch.nn.Parameter):
            return "parameter"
        if self.is_exported and node.op == "placeholder":
            return "constant" if self._input_specs[node.name].kind is InputKind.CONSTANT_TENSOR else "buffer"
        owner, _, name = str(node.target).rpartition(".")
        return "buffer" if name in self.graph_module.get_submodule(owner)._buffers else "constant"

    def stored_name(self, node: Node) -> str:
        """The name under which a parameter, buffer or constant is stored, ``encoder.weight``."""
        return str(self._input_specs[node.name].target if node.op == "placeholder" else node.target)

    def add_tensor(self, tensor: torch.Tensor, name: str, like: Node, pass_id: str, parameter: bool = False) -> Node:
        """Store a tensor in the program and return the node that reads it.

        Args:
            tensor: the tensor, shared and not copied.
            name: what to call it; made unique.
            like: the node whose value it holds; its metadata is taken over.
            pass_id: the pass that made it.
            parameter: store it as a parameter rather than as a persistent buffer.
        """
        tensor = tensor.detach()
        if parameter:
            tensor = torch.nn.Parameter(tensor, requires_grad=False)
        first = next(iter(self.graph.nodes))
        with self.graph.inserting_before(first):
            name = self._unused(re.sub(r"\W", "_", name))
            if self.is_exported:
                kind = InputKind.PARAMETER if parameter else InputKind.BUFFER
                prefix = "p_" if parameter else "b_"
                node = self.graph.placeholder(f"{prefix}{name}")
                node.target = node.name
                self.state_dict[name] = tensor
                self._input_specs[node.name] = InputSpec(
                    kind, TensorArgument(name=node.name), name, None if parameter else True
                )
            else:
                if parameter:
                    setattr(self.graph_module, name, tensor)
                else:
                    self.graph_module.register_buffer(name, tensor)
                node = self.graph.get_attr(name)
        inherit_metadata(node, like, pass_id, origin(like, pass_id))
        mode = self.fake_mode
        node.meta["val"] = mode.from_tensor(tensor, static_shapes=True) if mode is not None else tensor
        return node

    def _unused(self, name: str) -> str:
        stored = (self.state_dict, self.constants) if self.is_exported else ()
        numbered = (f"{name}_{number}" for number in itertools.count(1))
        return next(
            candidate
            for candidate in itertools.chain([name], numbered)
            if not any(candidate in names for names in stored) and not hasattr(self.graph_module, candidate)
        )

    # Edits ----------------------------------------------------------------------------------------------------------

    def replace(self, node: Node, new: Node) -> None:
        """Let every reader of ``node`` read ``new`` instead, and erase ``node``."""
        self._renamed[node.name] = new.name
        node.replace_all_uses_with(new)
        self.graph.erase_node(node)

    def is_user_input(self, node: Node) -> bool:
        """Whether a node is what the user passes to the program."""
        if node.op != "placeholder":
            return False
        return not self.is_exported or self._input_specs[node.name].kind is InputKind.USER_INPUT

    def user_outputs(self) -> list[Node]:
        """The nodes that the user gets, each once, without those that also go to a buffer or an input."""
        nodes = [value if isinstance(value, Node) else None for value in tree_leaves(self._outputs())]
        if not self.is_exported:
            return list(dict.fromkeys(node for node in nodes if node is not None))
        pairs = list(zip(nodes, self._output_specs, strict=True))
        elsewhere = {node for node, spec in pairs if spec.kind is not OutputKind.USER_OUTPUT}
        return list(dict.fromkeys(node for node, _ in pairs if node is not None and node not in elsewhere))

    def add_input(self, name: str, value: torch.Tensor, like: Node, pass_id: str) -> Node:
        """Give the program one more input, after the user's own. For passes that were asked to change its interface.

        Args:
            name: what to call it; made unique.
            value: a fake tensor of its shape and dtype.
            like: the node whose origin it takes over.
            pass_id: the pass that made it.
        """
        if not self.is_exported:
            raise LowerfixError("only an ExportedProgram can get another input")
        last = [node for node in self.graph.nodes if node.op == "placeholder"][-1:]
        with self.graph.inserting_after(*last) if last else self.graph.inserting_before(next(iter(self.graph.nodes))):
            node = self.graph.placeholder(name)
        node.target = node.name
        node.meta["val"] = value
        inherit_metadata(node, like, pass_id, origin(like, pass_id))
        self._input_specs[node.name] = InputSpec(InputKind.USER_INPUT, TensorArgument(name=node.name), None)
        self._new_inputs.append(node)
        self.interface = self._interface()
        return node

    def add_output(self, node: Node) -> None:
        """Give the program one more output, after its own: its result becomes a tuple where it is none.

        For passes that were asked to change its interface.
        """
        if not self.is_exported:
            raise LowerfixError("only an ExportedProgram can get another output")
        self.graph.output_node().args = ((*self._outputs(), node),)
        self._output_specs.append(OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=node.name), None))
        self._new_outputs += 1
        self.interface = self.interface[0], self._interface()[1]

    def retype_input(self, node: Node, dtype: torch.dtype) -> None:
        """Let the user pass another dtype. For passes that were asked to change the program's interface."""
        value = node.meta["val"]
        with value.fake_mode:
            node.meta["val"] = torch.empty_strided(value.shape, value.stride(), dtype=dtype, device=value.device)
        self._ranges = None  # that of the input is another now
        self.interface = self._interface()

    def reroute(self, node: Node, new: Node, readers: Iterable[Node]) -> None:
        """Let some readers of ``node`` read ``new`` instead, which holds the same."""
        for reader in readers:
            reader.replace_input_with(node, new)
            if reader.op == "output":
                self._renamed[node.name] = new.name

    def remove_dead(self) -> None:
        """Erase ops that nothing reads, and stored tensors that a rewrite left without a reader."""
        self.graph.eliminate_dead_code()
        readers = Counter(spec.target for spec in self._input_specs.values()) if self.is_exported else Counter()
        for node in list(self.graph.nodes):
            if node.users or not (node.name in self._used_before or "lowerfix" in node.meta.get("custom", {})):
                continue
            if node.op == "get_attr":
                self.graph.erase_node(node)
            elif node.op == "placeholder" and self.is_exported:
                spec = self._input_specs[node.name]
                if spec.kind in _CONSTANT_KINDS and node.name not in self.mutable:
                    self.graph.erase_node(node)
                    del self._input_specs[node.name]
                    readers[spec.target] -= 1
                    if not readers[spec.target]:
                        self.state_dict.pop(spec.target or "", None)
                        self.constants.pop(spec.target or "", None)

    # Results --------------------------------------------------------------------------------------------------------

    def build(self) -> ExportedProgram | GraphModule:
        """Make the finished program: of the type that was given, validated, with its signature in step.

        The graph becomes the result's, so this is the last thing to do with a ``Program``.

        Raises:
            LowerfixError: if the result is not a valid program.
        """
        if not self.is_exported:
            self.graph_module.recompile()
            return self.graph_module
        assert isinstance(self.source, ExportedProgram)
        try:
            return ExportedProgram(
                root=self.graph_module,
                graph=self.graph,
                graph_signature=self._repaired_signature(),
                state_dict=dict(self.state_dict),
                range_constraints=self._ranges_of_sizes(),
                module_call_graph=self._repaired_calls(),
                example_inputs=self._example_inputs(),
                constants=dict(self.constants),
                verifiers=list(self.source.verifiers),
            )
        except Exception as error:
            raise LowerfixError(f"the rewritten program is not valid: {error}") from error

    def _ranges_of_sizes(self) -> dict[Any, Any]:
        """The ranges of the symbolic sizes that are still there."""
        assert isinstance(self.source, ExportedProgram)
        ranges = dict(self.source.range_constraints)
        if not any(isinstance(symbol, sympy.Symbol) and is_unbacked(symbol) for symbol in ranges):
            return ranges
        left = {symbol for node in self.graph.nodes for symbol in _symbols(node)}
        return {symbol: range_ for symbol, range_ in ranges.items() if not is_unbacked(symbol) or symbol in left}

    def check(self) -> None:
        """Check the graph as it stands: well-formed, every op with a value, the interface as it was.

        Raises:
            LowerfixError: for the first thing that is not so.
        """
        if self._in_place:  # a pass has changed the graph, and perhaps made it functional
            self._in_place = self._ranges = None
        try:
            self.graph.lint()
        except Exception as error:
            raise LowerfixError(f"the rewritten graph is not well-formed: {error}") from error
        for node in self.graph.nodes:
            if node.op == "call_function" and "val" not in node.meta and node.users:
                raise LowerfixError(f"{describe(node)} was made without a value")
            if node.op == "placeholder" and self.is_exported and node.name not in self._input_specs:
                raise LowerfixError(f"placeholder {node.name!r} is not in the program's signature")
        self._check_interface()

    def _outputs(self) -> tuple[Any, ...]:
        output = self.graph.output_node().args[0]
        return tuple(output) if isinstance(output, (tuple, list)) else (output,)

    def _repaired_signature(self) -> ExportGraphSignature:
        order = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        specs = []
        for spec, value in zip(self._output_specs, self._outputs(), strict=True):
            spec = copy.copy(spec)
            spec.arg = _argument(value)
            specs.append(spec)
        signature: ExportGraphSignature = copy.copy(self._signature)
        signature.input_specs = [self._input_specs[name] for name in order]
        signature.output_specs = specs
        return signature

    def _repaired_calls(self) -> list[Any]:
        """The module call graph, with the names of replaced nodes brought up to date."""
        assert isinstance(self.source, ExportedProgram)
        entries = []
        for entry in self.source.module_call_graph:
            entry = copy.copy(entry)
            if entry.signature is not None:
                entry.signature = copy.copy(entry.signature)
                for side in ("inputs", "outputs"):
                    arguments = [copy.copy(argument) for argument in getattr(entry.signature, side)]
                    for argument in arguments:
                        while getattr(argument, "name", None) in self._renamed:
                            argument.name = self._renamed[argument.name]
                    setattr(entry.signature, side, arguments)
                if not entry.fqn and self._new_inputs:
                    self._add_inputs(entry.signature)
                if not entry.fqn and self._new_outputs:
                    entry.signature.out_spec = _with_outputs(entry.signature.out_spec, self._new_outputs)
            entries.append(entry)
        return entries

    def _add_inputs(self, signature: Any) -> None:
        """Let the signature of ``forward`` take the new inputs."""
        names = [node.name for node in self._new_inputs]
        signature.inputs = [*signature.inputs, *(TensorArgument(name=name) for name in names)]
        given = tree_unflatten(range(signature.in_spec.num_leaves), signature.in_spec)
        signature.in_spec = tree_flatten(_with_inputs(given, dict.fromkeys(names)))[1]
        if signature.forward_arg_names is not None:
            signature.forward_arg_names = [*signature.forward_arg_names, *names]

    def _example_inputs(self) -> Any:
        """The example inputs that came with the program, as it takes them now; new ones are zeros."""
        assert isinstance(self.source, ExportedProgram)
        given = self.source.example_inputs
        if given is None:
            return None
        leaves, spec = tree_flatten(given)
        nodes = [node for node in self.graph.nodes if self.is_user_input(node) and node not in self._new_inputs]
        wanted = [node.meta.get("val") for node in nodes]
        leaves = [
            leaf.to(value.dtype) if isinstance(leaf, torch.Tensor) and isinstance(value, torch.Tensor) else leaf
            for leaf, value in itertools.zip_longest(leaves, wanted[: len(leaves)])
        ]
        zeros = {node.name: _zeros(node.meta["val"]) for node in self._new_inputs}
        return _with_inputs(tree_unflatten(leaves, spec), zeros)

    def _interface(self) -> tuple[list[Any], list[Any]]:
        """Names, shapes and dtypes of the user's inputs; shapes and dtypes of all outputs."""
        inputs = [
            (node.name, _signature(node.meta.get("val")))
            for node in self.graph.nodes
            if node.op == "placeholder"
            and (not self.is_exported or self._input_specs[node.name].kind not in _CONSTANT_KINDS)
        ]
        outputs = [
            _signature(leaf.meta.get("val") if isinstance(leaf, Node) else leaf)
            for leaf in tree_leaves(self._outputs())
        ]
        return inputs, outputs

    def accept_outputs(self) -> None:
        """Let the outputs be as they are now: the user has asked for another dtype, or promised a size."""
        self.interface = self.interface[0], self._interface()[1]

    def _check_interface(self) -> None:
        for side, before, now in zip(("inputs", "outputs"), self.interface, self._interface(), strict=True):
            if before != now:
                raise LowerfixError(f"the rewritten program has other {side}: {now} instead of {before}")


def _with_inputs(given: Any, new: dict[str, Any]) -> tuple[Any, Any]:
    """Positional and keyword arguments with further ones behind them, by keyword where there are keywords."""
    args, kwargs = given
    return (args, {**kwargs, **new}) if kwargs else ((*args, *new.values()), kwargs)


def _with_outputs(spec: TreeSpec, count: int) -> TreeSpec:
    """The structure of a result with further tensors behind it."""
    before = spec.children() if spec.type is tuple else [spec]
    return treespec_tuple([*before, *(treespec_leaf() for _ in range(count))])


def _zeros(value: torch.Tensor) -> torch.Tensor:
    sizes = [size.node.hint if isinstance(size, torch.SymInt) else size for size in value.shape]
    return torch.zeros(sizes, dtype=value.dtype)


def origin(original: Node, pass_id: str) -> NodeSource:
    """The provenance of what a pass puts in place of a node."""
    return NodeSource(original, f"lowerfix.{pass_id}", NodeSourceAction.REPLACE)


def inherit_metadata(node: Node, original: Node, pass_id: str, source: NodeSource) -> None:
    """Give a new node the origin of the one it replaces, and note which pass made it.

    ``source`` is what :func:`origin` says, made once for all the nodes that replace one.
    """
    for key in ("stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack"):
        if key in original.meta:
            node.meta[key] = original.meta[key]
    node.meta["from_node"] = [source]
    node.meta["custom"] = {**original.meta.get("custom", {}), "lowerfix": pass_id}


def _symbols(node: Node) -> Iterator[Any]:
    """The symbols in the sizes that a node returns, and in the numbers."""
    for value in tree_leaves(node.meta.get("val")):
        for size in value.shape if isinstance(value, torch.Tensor) else [value]:
            if isinstance(size, (torch.SymInt, torch.SymBool)):
                yield from size.node.expr.free_symbols


def is_unbacked(symbol: Any) -> bool:
    """Whether a symbol stands for a number that depends on data, rather than for a size of an input."""
    return bool(symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)))


def _memory(tensor: torch.Tensor) -> int:
    """What tensors that share memory have in common; 0 for one without memory of its own."""
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0


def _signature(value: Any) -> Any:
    """What must not change of an input or output: shape and dtype of a tensor, or the value itself."""
    if isinstance(value, torch.Tensor):
        return str(tuple(value.shape)), str(value.dtype)
    return str(value)


def _argument(value: Any) -> Any:
    if not isinstance(value, Node):
        return ConstantArgument(name="", value=value)
    result = value.meta.get("val")
    kinds = {torch.SymInt: SymIntArgument, torch.SymFloat: SymFloatArgument, torch.SymBool: SymBoolArgument}
    return kinds.get(type(result), TensorArgument)(name=value.name)
