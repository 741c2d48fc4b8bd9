"""Compute once, now, what depends on no input of the user.

**What it rewrites.** Every tensor computed from parameters, buffers, constants and factory ops alone (``arange``
positions, causal masks, sin-cos tables, weight norm, LoRA sums, cast weights) becomes a stored tensor: a parameter
where parameters went into it, else a buffer. It is computed by the same ATen ops in the same dtypes, so it is exact.
What was only read by them is dropped from the program. For XNNPACK, which takes no ``full``, so does what is filled
with a number in the shape of an input, as ``zeros_like``. Equal tensors of one float are stored once.

**Why the backend needs it.** Tables are built with int64 and float64 ops that accelerators lack, and a weight that is
computed in the graph is not a constant weight: XNNPACK then leaves the convolution or matmul on the CPU.

**What it leaves alone.** Random and uninitialised tensors; whatever reads a buffer that the program changes; quantize
and dequantize ops, by which backends know quantized weights; for int8 targets a float ``full``, which their quantizers
know, while a stored one is quantized on the CPU; outputs of the program; and tensors that would make the program larger
by more than 16 MiB each, such as a scalar expanded to a large shape. A view of a large weight is stored only where it
is contiguous, and then it shares the weight's memory.
"""

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node
from torch.utils._pytree import tree_map

from lowerfix.base import Context, Pass
from lowerfix.errors import LowerfixError
from lowerfix.program import Program, mutated_arguments
from lowerfix.report import Outcome
from lowerfix.source import describe

SMALL = 1 << 20
"""Bytes up to which a strided view of a constant is worth a copy."""


@dataclass
class FoldConstants(Pass):
    """See the module's docstring.

    Attributes:
        growth: bytes by which one folded tensor may exceed what it was computed from.
    """

    id: ClassVar[str] = "fold-constants"
    after: ClassVar[tuple[str, ...]] = ("strip-guards", "out-of-place")
    cleans_up: ClassVar[bool] = True

    growth: int = 16 << 20

    def run(self, program: Program, context: Context) -> bool:
        sources = self._constant_nodes(program, context)
        values: dict[Node, Any] = {}
        changed = False
        for node in reversed(list(sources)):
            if not _is_op(node):
                continue
            readers = [user for user in node.users if user not in sources]
            if not readers:
                continue
            kept = any(user.op == "output" for user in readers) or _is_kept_number(node, context)
            if kept or not self._store(node, sources, values, program, context):
                del sources[node]  # then what it reads is the last that can be folded
                continue
            changed = True
        if changed:
            program.remove_dead()
        return changed

    def _constant_nodes(self, program: Program, context: Context) -> dict[Node, frozenset[Node]]:
        """The nodes that depend on no input, in order, each with the stored tensors that it was computed from."""
        sources: dict[Node, frozenset[Node]] = {}
        for node in program.graph.nodes:
            if program.tensor(node) is not None:
                sources[node] = frozenset([node])
                continue
            read_nodes = [] if _takes_no_full(context) and _is_filled(node) else node.all_input_nodes
            if _is_op(node) and _can_fold(node, program) and all(i in sources for i in read_nodes):
                read: frozenset[Node] = frozenset().union(*(sources[i] for i in read_nodes))
                value = node.meta.get("val")
                # An intermediate result is not kept, so it may be larger, but not without bound.
                if not isinstance(value, torch.Tensor) or _size(value) <= _sizes(read, program) + 16 * self.growth:
                    sources[node] = read
        return sources

    def _store(
        self,
        node: Node,
        sources: dict[Node, frozenset[Node]],
        values: dict[Node, Any],
        program: Program,
        context: Context,
    ) -> bool:
        """Store the value of a node in its place, unless that would cost too much memory."""
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor):
            return False
        limit = max(SMALL, _sizes(sources[node], program) + self.growth)
        if _size(fake) > limit:
            return False
        with torch.no_grad():
            value = _evaluate(node, program, values)
        stored = [program.tensor(source) for source in sources[node]]
        shared = any(t is not None and _storage(t) == _storage(value) for t in stored)
        if not value.is_contiguous():
            if shared and _size(value) > SMALL:
                return False
            value = value.contiguous()
        elif not shared:
            value = value.clone() if value.untyped_storage().nbytes() > 2 * _size(value) + 64 else value
        from_parameters = any(isinstance(t, torch.nn.Parameter) for t in stored)
        key = None if from_parameters or value.numel() != 1 or not value.is_floating_point() else _key(value)
        same = program.numbers.get(key)
        if same is not None and not same._erased:
            context.find(self.id, node, Outcome.REWRITTEN, "depends on no input: an equal number is stored already")
            program.replace(node, same)
            return True
        names = [program.stored_name(source) for source in sources[node]]
        new = program.add_tensor(
            value,
            f"{names[0] if len(names) == 1 else node.name}_folded",
            like=node,
            pass_id=self.id,
            parameter=from_parameters and value.is_floating_point(),
        )
        context.find(self.id, node, Outcome.REWRITTEN, "depends on no input: computed once and stored")
        program.replace(node, new)
        if key is not None:
            program.numbers[key] = new
        return True


def _key(value: torch.Tensor) -> tuple[Any, ...]:
    """What makes two tensors of one number the same: NaN and the sign of a zero as well."""
    return value.dtype, value.shape, bytes(value.reshape(1).view(torch.uint8).tolist())


def _is_op(node: Node) -> bool:
    return bool(node.op == "call_function")


def _takes_no_full(context: Context) -> bool:
    """Whether the backend takes a number as a tensor only where it is stored; this pass asks the oracle nothing."""
    return context.target.name == "xnnpack"


def _is_kept_number(node: Node, context: Context) -> bool:
    """Whether it is a float number as a tensor that has to stay a ``full``.

    A quantizer does not know it where it is stored, and Arm gives what is stored without dimensions one dimension. That
    is not valid TOSA where all that it meets has none. XNNPACK takes it stored only.
    """
    value = node.meta["val"]
    if node.target is not torch.ops.aten.full.default or not value.is_floating_point():
        return False
    alone = not _takes_no_full(context) and value.dim() == 0 and any(_rank(user) == 0 for user in node.users)
    return context.target.quantized or alone


def _rank(node: Node) -> int | None:
    value = node.meta.get("val")
    return value.dim() if isinstance(value, torch.Tensor) else None


_FILLED = {
    torch.ops.aten.full_like.default,
    torch.ops.aten.zeros_like.default,
    torch.ops.aten.ones_like.default,
    torch.ops.aten.new_full.default,
    torch.ops.aten.new_zeros.default,
    torch.ops.aten.new_ones.default,
}


def _is_filled(node: Node) -> bool:
    """Whether only the shape and the type of what it reads matter, which are known."""
    return (
        node.target in _FILLED
        and len(node.all_input_nodes) == 1
        and all(isinstance(size, int) for size in node.all_input_nodes[0].meta["val"].shape)
    )


def _can_fold(node: Node, program: Program) -> bool:
    if node.target is operator.getitem:
        return True
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or mutated_arguments(node):
        return False
    if torch.Tag.nondeterministic_seeded in target.tags or "empty" in target._schema.name:
        return False
    value = node.meta.get("val")
    if node.name in program.mutable or not (isinstance(value, (torch.Tensor, tuple, list))):
        return False
    tensors = value if isinstance(value, (tuple, list)) else [value]
    return all(
        isinstance(t, torch.Tensor) and all(isinstance(size, int) for size in t.shape) and t.device.type == "cpu"
        for t in tensors
    )


def _evaluate(node: Node, program: Program, values: dict[Node, Any]) -> Any:
    """The value of a constant node, by running its ops on the stored tensors; no recursion, graphs can be deep."""
    pending = [node]
    while pending:
        current = pending[-1]
        if current in values:
            pending.pop()
            continue
        tensor = program.tensor(current)
        if tensor is not None:
            values[current] = tensor.detach()
            continue
        missing = [i for i in current.all_input_nodes if i not in values]
        if missing and _is_filled(current):
            values[current] = _filled(current)
            continue
        if missing:
            pending.extend(missing)
            continue
        args, kwargs = tree_map(lambda a: values[a] if isinstance(a, Node) else a, (current.args, current.kwargs))
        try:
            values[current] = current.target(*args, **kwargs)  # type: ignore[operator]
        except Exception as error:
            raise LowerfixError(
                f"{describe(current)} depends on constants alone and fails on them: {type(error).__name__}: {error}"
            ) from error
    return values[node]


def _filled(node: Node) -> torch.Tensor:
    """The value of a node that needs no more than the shape and the type of what it reads."""
    like = node.all_input_nodes[0].meta["val"]
    stand_in = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
    args, kwargs = tree_map(lambda a: stand_in if isinstance(a, Node) else a, (node.args, node.kwargs))
    result: torch.Tensor = node.target(*args, **kwargs)  # type: ignore[operator]
    return result


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _sizes(nodes: frozenset[Node], program: Program) -> int:
    return sum(_size(tensor) for tensor in map(program.tensor, nodes) if tensor is not None)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
