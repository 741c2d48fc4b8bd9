"""Decompose what the partitioner keeps whole and then refuses.

**What it rewrites.** A partitioner names operators that are not to be decomposed (``pad``, ``hardswish``, ``celu``,
``selu``, ``linspace``, ... for Arm; ``prelu``, ``max_pool2d``, ... for XNNPACK), and then may refuse one for its dtype
or its arguments. Such an operator becomes its core ATen decomposition, unless another rewrite serves it.

**The identity.** It is PyTorch's own decomposition, the same that the operator gets where no partitioner keeps it.

**Why the backend needs it.** What is kept is no core ATen operator, and the runtime has no kernel for it: a ``pad`` in
bfloat16 or int64 ends in "Missing out variants" when the ``.pte`` is written, and others on the device.

**What it leaves alone.** Operators for which the runtime has a kernel, such as ``linear``, and those without a
decomposition.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch.export import default_decompositions
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline
from lowerfix.oracle import Answer, Question
from lowerfix.program import Program
from lowerfix.report import Outcome
from lowerfix.rewritepass import question
from lowerfix.rewriting import Match, Rewrite, splice
from lowerfix.source import op_name


@dataclass
class DecomposeRefused(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "decompose-refused"
    after: ClassVar[tuple[str, ...]] = ("fold-constants",)
    retire_when: ClassVar[str] = (
        "partitioners keep whole only what they take; in ExecuTorch 1.5.1 Arm's keeps pad whatever its dtype is"
    )

    def questions(self, program: Program, context: Context) -> list[Question]:
        return [question(match, None, program, context) for match in _matches(program, context)]

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for match in _matches(program, context):
            node = match.node
            [answer] = context.oracle.ask([question(match, None, program, context)])
            if not _is_left_whole(node, answer) or _served(match, program, context):
                continue
            try:
                replacement = context.traced(f"{__name__}: {node.target}", _decomposition(node.target), match)
            except Decline as decline:
                reason = f"{_refused(answer, context)}; {decline.reason}, and the runtime has no kernel for it"
                context.find(self.id, node, Outcome.DECLINED, reason)
                continue
            reason = f"{_refused(answer, context)}, and the runtime has no kernel for it: decomposed"
            context.find(self.id, node, Outcome.REWRITTEN, reason)
            splice(program, match, replacement, self.id)
            changed = True
        if changed:
            program.remove_dead()
        return changed


def _decomposition(op: Any) -> Rewrite:
    """PyTorch's decomposition of an op; raises Decline where there is none."""
    if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd"):
        return Rewrite(lambda *args, **kwargs: op(*args, **kwargs), (op,), whole=False)
    if op not in _table():
        raise Decline("it has no decomposition")
    return Rewrite(_table()[op], (op,), whole=False)


def _refused(answer: Answer, context: Context) -> str:
    return f"{context.target.name} keeps it whole and does not take it ({answer.reason})"


def _is_left_whole(node: Node, answer: Answer) -> bool:
    """Whether the op reaches the end of the lowering as it is; an op that was decomposed is refused by other names."""
    return any(refusal.op == op_name(node.target) for refusal in answer.refusals)


def _served(match: Match, program: Program, context: Context) -> bool:
    """Whether another pass has a better replacement."""
    for other in context.rewrites:
        if other._serving(match.node, context):
            try:
                if other._choose(match, program, context)[0] is not None:
                    return True
            except Decline:
                continue
    return False


def _matches(program: Program, context: Context) -> Iterator[Match]:
    """The ops that the partitioner keeps whole and the runtime has no kernel for."""
    if not program.is_exported:
        return  # the partitioner sees another program: what is exported again after quantizing
    for node in list(program.graph.nodes):
        if node.op == "call_function" and op_name(node.target) in context.oracle.kept and "val" in node.meta:
            try:
                yield Match.of(node, program)
            except Decline:
                continue


@lru_cache(maxsize=1)
def _table() -> Any:
    return default_decompositions()
