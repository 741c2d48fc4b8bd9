"""What is left is written out as PyTorch itself defines it.

**What it rewrites.** Any op that the backend refuses and that PyTorch defines by other ops, where the backend takes
those: ``true_divide`` by ``div``, ``max(a, b)`` by ``maximum``, ``addr``, ``logsigmoid``, ``avg_pool1d``, and some
hundreds more.

**The identity.** PyTorch's own: the composite kernel that eager runs, or the reference decomposition that
``run_decompositions`` and ``to_edge`` use.

**Why the backend needs it.** Quantizers know ops by name, and see the program before it is decomposed: an op that they
do not know stays in float, although each op that it is made of has an int8 form. And the other passes serve what they
know by name, too: here they get at the ops inside.

**What it leaves alone.** Ops that another pass rewrites; random ones; those whose definition is no other ATen ops, or
returns other dtypes or layouts; for int8 targets, those that pad with an infinity.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar

import torch
from torch._decomp import decomposition_table
from torch.fx import Node

from lowerfix.base import Context
from lowerfix.errors import Decline, LowerfixError
from lowerfix.oracle import Question
from lowerfix.program import CASTS, Program, Stage, depends_on_data, is_view, mutated_arguments
from lowerfix.rewritepass import RewritePass, question
from lowerfix.rewriting import Match, Rewrite, Trace, functional_form
from lowerfix.source import op_name

UNDEFINED = "PyTorch does not define it by other ATen ops"


class Decompose(RewritePass):
    """See the module's docstring."""

    id: ClassVar[str] = "decompose"
    after: ClassVar[tuple[str, ...]] = ("*",)
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.FLOAT})
    retire_when: ClassVar[str] = "quantizers annotate what to_edge makes of an op; those of ExecuTorch 1.5.1 know names"

    def matches(self, program: Program, context: Context) -> Iterator[Node]:
        called = (node for node in program.graph.nodes if node.op == "call_function")
        return (node for node in called if _definition(node.target) and not depends_on_data(node))

    def questions(self, program: Program, context: Context) -> list[Question]:
        """Whether the ops are taken as they are. More is asked when the other passes have run."""
        questions = []
        for node in self.matches(program, context):
            with suppress(Decline):
                questions.append(question(Match.of(node, program), None, program, context))
        return questions

    def run(self, program: Program, context: Context) -> bool:
        context.oracle.ask_all(lambda: RewritePass.questions(self, program, context))
        return super().run(program, context)

    def _choose(self, match: Match, program: Program, context: Context, depth: int = 0) -> tuple[Trace | None, str]:
        """As all rewrites, but not where only a cast at the border stays on the CPU: that is no fault of the op."""
        [now] = context.oracle.ask([question(match, None, program, context)])
        return (None, "") if now.serves else super()._choose(match, program, context, depth)

    def declined(self, node: Node, reason: str, context: Context) -> None:
        """Nothing to add where a pass that knows the op has given a better reason, or where there is no definition."""
        known = any(finding.node == node.name for finding in context.declines)
        if not known and UNDEFINED not in reason:
            super().declined(node, reason, context)

    def _serving(self, node: Node, context: Context) -> list[Rewrite]:
        rewrite = _definition(node.target)
        return [rewrite] if rewrite is not None else []

    def _trace(self, rewrite: Rewrite, match: Match, context: Context) -> Trace:
        try:
            traced = super()._trace(rewrite, match, context)
        except LowerfixError as error:
            raise Decline(f"{UNDEFINED}: its own cannot be traced here: {error}") from error
        for node in traced.graph.nodes:
            if mutated_arguments(node):
                _make_functional(node)
        ops = [node.target for node in traced.graph.nodes if node.op == "call_function"]
        foreign = {str(op) for op in ops if isinstance(op, torch._ops.OpOverload) and op.namespace != "aten"}
        if foreign or match.node.target in ops:
            raise Decline(f"{UNDEFINED}, but by {', '.join(sorted(foreign)) or 'itself'}")
        written = sorted({str(op) for op in ops if isinstance(op, torch._ops.OpOverload) and op._schema.is_mutable})
        if written:
            raise Decline(f"{UNDEFINED}, but by {', '.join(written)}, which works in place")
        if context.target.quantized and any(map(_pads_with_infinity, traced.graph.nodes)):
            raise Decline("PyTorch defines it by padding with an infinity, for which int8 would give up its range")
        return traced


@cache
def _definition(op: Any) -> Rewrite | None:
    """The op's definition as a rewrite; None where there is none."""
    if not isinstance(op, torch._ops.OpOverload):
        return None
    if op_name(op) in CASTS:  # a cast that stays on the CPU is no better by another name
        return None
    if op.namespace != "aten" or op._schema.is_mutable or torch.Tag.nondeterministic_seeded in op.tags:
        return None
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    definition = op if composite else decomposition_table.get(op)
    if definition is None:
        return None

    def written_out(*args: Any, **kwargs: Any) -> Any:
        return definition(*args, **kwargs)

    written_out.__name__ = op.name().removeprefix("aten::")
    # Calling a composite op runs its kernel, unless composite ops are recorded whole.
    return Rewrite(written_out, (op,), whole=not composite)


def _pads_with_infinity(node: Node) -> bool:
    pads = node.target in (torch.ops.aten.pad.default, torch.ops.aten.constant_pad_nd.default)
    return pads and any(isinstance(value, float) and math.isinf(value) for value in node.args)


def _make_functional(node: Node) -> None:
    """Composite kernels work in place on what they have just computed; what follows is recorded to read the result."""
    changed: Any = node.args[0]
    if functional_form(node) is None or changed.op != "call_function" or is_view(changed) or len(changed.users) > 1:
        raise Decline("PyTorch defines it by in-place ops")
    node.target = functional_form(node)
