"""Rewrites: plain PyTorch functions that say what an op may be replaced by.

    @rewrite(aten.argmin.default)
    def argmin(x, dim=None, keepdim=False):
        return torch.argmax(-x, dim, keepdim)

The engine calls the function on the fake tensors of the matched node, traces what it does, and splices the traced ops
in place of the node. Metadata, signatures, constants and dead nodes are the engine's work, never the author's.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from lowerfix.errors import Decline, LowerfixError
from lowerfix.program import CASTS, Program, inherit_metadata, is_view, origin
from lowerfix.ranges import Interval
from lowerfix.source import describe, op_name

Function = TypeVar("Function", bound=Callable[..., Any])

LARGEST_CONSTANT = 1 << 16
"""Constants of more elements are not shown to rewrites: an index is small, and a weight is none of their business."""


@dataclass(frozen=True)
class Rewrite:
    """One function registered by ``@rewrite``.

    Attributes:
        function: takes what the op takes, returns what the op returns.
        targets: the ops it replaces.
        cost: alternatives for one op are tried in ascending order of cost.
        wrong: what the backend computes wrongly where it takes the op; empty where it only refuses it.
        whole: record composite ops as they are called, as export does; else what they consist of.
        float_only: it is not for targets that quantize, which would round what it counts on.
        on: the targets that it is for; empty where it is for all.
    """

    function: Callable[..., Any]
    targets: tuple[Any, ...]
    cost: float = 1.0
    wrong: str = ""
    whole: bool = True
    float_only: bool = False
    on: tuple[str, ...] = ()

    def is_for(self, target: str) -> bool:
        """Whether it is for a target of this name; what follows a plus sign in it says nothing about that."""
        return not self.on or target.partition("+")[0] in self.on

    @property
    def module(self) -> str:
        return self.function.__module__

    @property
    def name(self) -> str:
        return self.function.__name__


_declared: list[Rewrite] = []


def rewrite(
    *targets: Any, cost: float = 1.0, wrong: str = "", float_only: bool = False, on: str | tuple[str, ...] = ""
) -> Callable[[Function], Function]:
    """Declare a function as the replacement of ATen ops.

    Args:
        targets: op overloads, such as ``torch.ops.aten.argmin.default``.
        cost: several functions for one op are alternatives; the cheapest that the backend takes whole is used.
        wrong: the rewrite fires although the backend takes the op, since it computes other numbers; says which. Such a
            function declines for arguments that are computed rightly, and has a test that fails once upstream is right.
        float_only: it is not used for targets that quantize, for it holds numbers in float, such as an index, that int8
            would round.
        on: the names of the targets that it is for, where it is about what their backend alone does; those of the
            module's ``ON`` where it is left out.

    The function gets the op's own arguments. It may look at shapes and dtypes, at the values of small constants through
    :func:`constant`, and at what is known of computed integers through :func:`bounds`; it raises
    :class:`~lowerfix.Decline` to leave the node alone. All functions of one file
    form one pass, whose id is the file's name in kebab-case.

    Raises:
        LowerfixError: if a target is not an op overload.
    """
    for target in targets:
        if not isinstance(target, torch._ops.OpOverload):
            raise LowerfixError(f"@rewrite takes op overloads such as torch.ops.aten.mish.default, got {target!r}")
        if target._schema.is_mutable:
            raise LowerfixError(
                f"@rewrite takes functional ops, and {target} works in place; serve the functional form, "
                "which the pass out-of-place makes of it"
            )

    def declare(function: Function) -> Function:
        given = on or getattr(function, "__globals__", {}).get("ON", ())
        here = (given,) if isinstance(given, str) else given
        _declared.append(Rewrite(function, targets, cost, wrong, float_only=float_only, on=here))
        return function

    return declare


def declared(module: str) -> tuple[Rewrite, ...]:
    """The rewrites that a module declared, the cheapest first."""
    return tuple(sorted((r for r in _declared if r.module == module), key=lambda r: r.cost))


def functional_form(node: Node) -> Any:
    """The functional op, such as ``aten.mish.default``, of a node that calls its in-place form; else None."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return None
    packet = getattr(torch.ops.aten, target._opname.removesuffix("_"), None)
    functional = getattr(packet, target._overloadname, None)
    return functional if functional is not target else None


# Constants that a rewrite may look at ---------------------------------------------------------------------------------

Array: TypeAlias = np.ndarray[Any, Any]

_arguments: ContextVar[tuple[tuple[Any, "Argument"], ...]] = ContextVar("arguments", default=())


def constant(tensor: torch.Tensor) -> Array | None:
    """The value of an argument that is a small integer or bool constant of the program; else None.

    For use inside a rewrite, for example to refuse an index that is out of range. It is a NumPy array, since what is
    done to a tensor there is traced.
    """
    return next((argument.shown for value, argument in _arguments.get() if value is tensor), None)


def never_negative(tensor: torch.Tensor) -> bool:
    """Whether an argument is known to hold no negative number, whatever the inputs are. For use inside a rewrite."""
    argument = next((argument for value, argument in _arguments.get() if value is tensor), None)
    if argument is None or argument.interval is None:
        return False
    return argument.interval.low >= 0 or argument.wrapped


def stored(tensor: torch.Tensor | None) -> bool:
    """Whether an argument is a parameter, buffer or constant of the program, or a view or cast of one, which will be
    folded. For use inside a rewrite."""
    return any(argument.stored for value, argument in _arguments.get() if value is tensor)


def bounds(tensor: torch.Tensor) -> Interval | None:
    """Between which numbers an integer or bool argument lies, whatever the inputs are. For use inside a rewrite.

    None for other tensors than the op's own integer arguments. See :mod:`lowerfix.ranges`.
    """
    return next((argument.interval for value, argument in _arguments.get() if value is tensor), None)


_int8: ContextVar[bool] = ContextVar("int8", default=False)


def in_int8() -> bool:
    """Whether the op is, or is going to be, computed on 8-bit integers. For use inside a rewrite.

    There each value of a replacement is rounded to 256 steps of its range: few of them, and none of a wide range, are
    worth more than what a float formula gains in the last places, at overflow and at NaN.
    """
    return _int8.get()


@contextmanager
def computing_in_int8(int8: bool = True) -> Iterator[None]:
    """Let :func:`in_int8` say so meanwhile."""
    token = _int8.set(int8)
    try:
        yield
    finally:
        _int8.reset(token)


@contextmanager
def _showing(arguments: tuple[tuple[Any, "Argument"], ...]) -> Iterator[None]:
    token = _arguments.set(arguments)
    try:
        yield
    finally:
        _arguments.reset(token)


# Matching -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Argument:
    """What decides about one argument: its metadata, its kind (see ``Program.kind``), what is known of its values."""

    node: Node
    value: Any
    constant: torch.Tensor | None
    kind: str
    interval: Interval | None = None
    stored: bool = False

    @property
    def key(self) -> str:
        known = f"{self.interval or ''}{' wrapped' * self.wrapped}{' stored' * self.stored}"
        text = f"{self.kind}{describe_value(self.value)}{known}"
        content = self.shown
        return text if content is None else text + hashlib.sha256(content.tobytes()).hexdigest()[:16]

    @cached_property
    def wrapped(self) -> bool:
        """Whether it is an index that was made to count from the start, where it is in range at all."""
        return _is_wrapped(self.node)

    @cached_property
    def shown(self) -> Array | None:
        """The integer or bool constant that rewrites may look at."""
        value = self.constant
        if value is None or value.is_floating_point() or value.is_complex() or value.numel() > LARGEST_CONSTANT:
            return None
        array: Array = value.detach().cpu().numpy()
        return array


_SAME_NUMBERS = (
    *CASTS,
    "aten.view.default",
    "aten.reshape.default",
    "aten.unsqueeze.default",
    "aten.expand.default",
    "aten.permute.default",
    "aten.clone.default",
)


def _is_wrapped(node: Node) -> bool:
    """Whether a node is ``where(i < 0, i + n, i)``, as a rewrite makes it of an index that may count from the end.

    Or a view or cast of it: what is in range fits every type that an index is held in.
    """
    while op_name(node.target) in _SAME_NUMBERS and isinstance(node.args[0], Node):
        node = node.args[0]
    if op_name(node.target) != "aten.where.self":
        return False
    below, shifted, index = node.args
    below_zero = isinstance(below, Node) and op_name(below.target) == "aten.lt.Scalar" and below.args == (index, 0)
    by_size = isinstance(shifted, Node) and op_name(shifted.target) == "aten.add.Tensor" and shifted.args[0] is index
    return below_zero and by_size


def describe_value(value: Any) -> str:
    """Everything about a value that support can depend on, as text: dtype, shape, strides, symbols."""
    if isinstance(value, torch.Tensor):
        return f"<{value.dtype}{list(value.shape)}{list(value.stride())}>"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(describe_value, value))}]"
    return f"{type(value).__name__}:{value}"


def _viewed(node: Node) -> Node:
    """What a tensor was made of by a few ops that read nothing else, such as views and casts."""
    for _ in range(8):
        if node.op != "call_function" or len(node.all_input_nodes) != 1:
            break
        node = node.all_input_nodes[0]
    return node


@dataclass(frozen=True)
class Match:
    """A node with its arguments taken apart: nodes and literals."""

    node: Node
    arguments: tuple[Argument, ...]
    leaves: tuple[Any, ...]
    spec: Any

    @classmethod
    def of(cls, node: Node, program: Program) -> "Match":
        leaves, spec = tree_flatten((node.args, node.kwargs), is_leaf=lambda leaf: isinstance(leaf, Node))
        arguments = {}
        for leaf in leaves:
            if isinstance(leaf, Node) and leaf not in arguments:
                if "val" not in leaf.meta:
                    raise Decline(f"its argument {leaf.name!r} carries no fake value; re-export the program")
                interval, stored = program.ranges.of(leaf), program.kind(_viewed(leaf)) != "input"
                arguments[leaf] = Argument(
                    leaf, leaf.meta["val"], program.tensor(leaf), program.kind(leaf), interval, stored
                )
        if "val" not in node.meta:
            raise Decline("it carries no fake value; re-export the program")
        return cls(node, tuple(arguments.values()), tuple(leaves), spec)

    @cached_property
    def key(self) -> str:
        positions = {argument.node: str(index) for index, argument in enumerate(self.arguments)}
        leaves = [f"%{positions[leaf]}" if isinstance(leaf, Node) else repr(leaf) for leaf in self.leaves]
        return f"{self.node.target}{self.spec}({','.join(leaves)}|{','.join(a.key for a in self.arguments)})"


@dataclass(eq=False)
class Trace:
    """The ops that a rewrite put in place of a match, as a graph of their own."""

    graph: Graph
    placeholders: list[Node] = field(default_factory=list)
    constants: dict[Node, torch.Tensor] = field(default_factory=dict)


def trace(rewrite: Rewrite, match: Match) -> Trace:
    """Call a rewrite on the match's fake tensors and record the ATen ops it runs.

    Raises:
        Decline: as the rewrite raised it, or where it would pin a symbolic size.
        LowerfixError: if the rewrite fails, or returns another shape or dtype than the op it replaces.
    """
    expected = match.node.meta["val"]
    mode = next((v.fake_mode for a in match.arguments for v in tree_leaves(a.value) if hasattr(v, "fake_mode")), None)
    if mode is None:
        raise Decline("it has no tensor argument")

    wanted, spec = tree_flatten(expected)
    relayed = is_view(match.node) and not any(op_name(user.target) in _BY_STRIDES for user in match.node.users)
    layouts = [(_strides(v), v.is_contiguous()) if isinstance(v, torch.Tensor) else None for v in wanted]

    def run(*values: Any) -> Any:
        by_node = dict(zip((argument.node for argument in match.arguments), values, strict=True))
        known = tuple((by_node[argument.node], argument) for argument in match.arguments)
        leaves = [by_node[leaf] if isinstance(leaf, Node) else leaf for leaf in match.leaves]
        args, kwargs = tree_unflatten(leaves, match.spec)
        with _showing(known):
            result = rewrite.function(*args, **kwargs)
        if not _same(result, expected):
            return result
        laid_out = [_laid_out(v, layout, relayed) for v, layout in zip(tree_leaves(result), layouts, strict=True)]
        return tree_unflatten(laid_out, spec)

    module = record(run, [a.value for a in match.arguments], mode, match.node, rewrite.name, rewrite.whole)
    graph = module.graph
    produced = tree_map(lambda leaf: leaf.meta["val"] if isinstance(leaf, Node) else leaf, graph.output_node().args[0])
    if not _same(produced, expected):
        raise LowerfixError(
            f"rewrite {rewrite.name!r} returned {describe_value(produced)} for {describe(match.node)}, "
            f"which returns {describe_value(expected)}"
        )
    result = Trace(graph, [node for node in graph.nodes if node.op == "placeholder"])
    for node in graph.nodes:
        if node.op == "get_attr":  # what torch.tensor(...) makes in a rewrite
            tensor = getattr(module, str(node.target))
            result.constants[node] = tensor
            node.meta["val"] = mode.from_tensor(tensor, static_shapes=True)
    return result


def record(
    function: Callable[..., Any], values: Sequence[Any], mode: Any, node: Node, name: str, whole: bool = True
) -> GraphModule:
    """Call a function on fake tensors and record the ATen ops it runs.

    Args:
        function: takes ``values``, returns tensors.
        values: fake tensors, symbolic sizes.
        mode: the fake tensors' mode.
        node: the node that the ops are to replace, for errors.
        name: the function's name, for errors.
        whole: record composite ops as they are called, as export does; else what they consist of.

    Raises:
        Decline: as the function raised it, or where it would pin a symbolic size.
        LowerfixError: if the function fails.
    """
    shape_env = mode.shape_env
    try:
        guarded = shape_env.error_on_new_guards() if shape_env else nullcontext()
        with mode, torch.no_grad(), _without_mkldnn(), _without_cache(mode), guarded:
            module: GraphModule = make_fx(function, pre_dispatch=whole)(*values)
    except Decline:
        raise
    except LowerfixError as error:
        raise LowerfixError(f"{describe(node)}: {error}") from error
    except Exception as error:
        guard = _guard(error)
        if guard:
            reason = f"the rewrite would assume {guard} of a symbolic size; export with that size constant"
            raise Decline(reason) from error
        raise LowerfixError(f"rewrite {name!r} failed on {describe(node)}: {type(error).__name__}: {error}") from error
    _bare_constants(module.graph)
    _merge_casts(module.graph)
    module.graph.eliminate_dead_code()
    return module


def _bare_constants(graph: Graph) -> None:
    """Read what ``torch.tensor(...)`` makes as it is: it is recorded with a copy, and detached in place."""
    wrappers = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.detach_.default)
    for node in list(graph.nodes):
        if node.target in wrappers:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _merge_casts(graph: Graph) -> None:
    """Let equal casts of one tensor, such as of an index that is read twice, be one: it may stay on the CPU."""
    seen: dict[tuple[Any, ...], Node] = {}
    for node in graph.nodes:
        if op_name(node.target) in CASTS:
            first = seen.setdefault((node.target, node.args, str(node.kwargs)), node)
            if first is not node:
                node.replace_all_uses_with(first)


def _same(produced: Any, expected: Any) -> bool:
    """Whether two results have the same structure, shapes and dtypes."""
    ours, their = tree_flatten(produced), tree_flatten(expected)
    if len(ours[0]) != len(their[0]):
        return False
    return all(
        a.dtype == b.dtype and tuple(a.shape) == tuple(b.shape)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        else type(a) is type(b)
        for a, b in zip(ours[0], their[0], strict=True)
    )


@contextmanager
def _without_mkldnn() -> Iterator[None]:
    """As export does: the choice of a kernel for a convolution asks for the size of the batch."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


@contextmanager
def _without_cache(mode: Any) -> Iterator[None]:
    """The cache of fake results asks for the size of a view's memory, which is symbolic even where no shape is."""
    enabled, mode.cache_enabled = mode.cache_enabled, False
    try:
        yield
    finally:
        mode.cache_enabled = enabled


def _guard(error: BaseException | None) -> str:
    """What was asked of a symbolic size, where that is why a trace failed."""
    while error is not None:
        if type(error).__name__ == "_ShapeEnvGuardError":
            return str(error).rpartition("frozen: ")[2]
        if isinstance(error, GuardOnDataDependentSymNode):
            return str(error.cond)
        error = error.__cause__ or error.__context__
    return ""


_BY_STRIDES = ("aten.as_strided.default", "aten.view.dtype", "aten.set_.source_Tensor")
"""Ops whose result depends on how their argument is laid out."""


def _laid_out(result: Any, layout: Any, relayed: bool) -> Any:
    """Lay the result out as the replaced op did, so that later views of it stay valid.

    ``relayed``: the replaced op is a view with strides of its own. Its copy is contiguous: any view of it is valid.
    """
    if not isinstance(result, torch.Tensor) or _strides(result) == layout[0]:
        return result
    if layout[1] or relayed:
        return result.contiguous()
    long = [dim for dim, size in enumerate(result.shape) if not _is_one(size)]
    if all(isinstance(step, int) for step in layout[0]):
        steps = dict(zip(long, layout[0], strict=True))
        order = sorted(range(result.dim()), key=lambda dim: -steps.get(dim, 0))
        permuted = result.permute(order).contiguous().permute([order.index(dim) for dim in range(result.dim())])
        if _strides(permuted) == layout[0]:
            return permuted
    raise Decline(f"the replacement would have strides {result.stride()} instead of {layout[0]}")


def _strides(tensor: torch.Tensor) -> list[Any]:
    """Strides of the dimensions where they matter, those of more than one element."""
    return [_expression(step) for size, step in zip(tensor.shape, tensor.stride(), strict=True) if not _is_one(size)]


def _expression(size: Any) -> Any:
    """A symbolic size as an expression: comparing it is not traced, and asks for no guard."""
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def splice(program: Program, match: Match, replacement: Trace, pass_id: str) -> None:
    """Put the traced ops in place of the matched node."""
    node = match.node
    arguments = [argument.node for argument in match.arguments]
    mapping: dict[Node, Node] = dict(zip(replacement.placeholders, arguments, strict=True))
    for traced, tensor in replacement.constants.items():
        mapping[traced] = program.add_tensor(tensor, f"{node.name}_constant", like=node, pass_id=pass_id)
    source = origin(node, pass_id)
    with program.graph.inserting_before(node):
        for traced in replacement.graph.nodes:
            if traced.op != "call_function":
                continue
            new = program.graph.node_copy(traced, lambda old: mapping[old])
            value = traced.meta["val"]
            new.meta = {"val": value}
            inherit_metadata(new, node, pass_id, source)
            mapping[traced] = new
    output: Any = replacement.graph.output_node().args[0]
    if isinstance(output, Node):
        program.replace(node, mapping[output])
        return
    for user in list(node.users):  # a tuple is read through getitem nodes only
        position: Any = user.args[1]
        program.replace(user, mapping[output[position]])
    program.graph.erase_node(node)


def aliases_input(replacement: Trace) -> bool:
    """Whether a result of the replacement shares its memory with an argument, as a bare view does."""

    def storages(values: Any) -> set[int]:
        return {v.untyped_storage()._cdata for v in tree_leaves(values) if isinstance(v, torch.Tensor)}

    outputs = [
        leaf.meta["val"] for leaf in tree_leaves(replacement.graph.output_node().args[0]) if isinstance(leaf, Node)
    ]
    return bool(storages(outputs) & storages([node.meta["val"] for node in replacement.placeholders]))
