"""Cast a tensor before it is viewed, where the backend cannot view it as it is.

**What it rewrites.** ``mask.unsqueeze(-1).expand(n, m, d).float()``, for any chain of views that nothing else reads,
becomes ``mask.float().unsqueeze(-1).expand(n, m, d)``.

**The identity.** A view moves elements and a cast changes each by itself, so their order does not matter.

**Why the backend needs it.** Arm has no int64, so a view of an int64 input stays on the CPU, and the cast behind it
too. The other way round only the cast does.

**What it leaves alone.** Views that the backend takes, views that others read, sizes that are computed, and programs
with in-place ops, in which a view is more than a copy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node
from torch.utils._pytree import tree_structure

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline
from lowerfix.oracle import Question
from lowerfix.program import CASTS, Program
from lowerfix.report import Outcome
from lowerfix.rewritepass import question
from lowerfix.rewriting import Argument, Match, Rewrite, Trace, splice
from lowerfix.source import op_name

aten = torch.ops.aten

VIEWS = {
    aten.expand.default,
    aten.flatten.using_ints,
    aten.permute.default,
    aten.reshape.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.t.default,
    aten.transpose.int,
    aten.unflatten.int,
    aten.unsqueeze.default,
    aten.view.default,
}


@dataclass
class CastBeforeView(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "cast-before-view"
    retire_when: ClassVar[str] = (
        "Arm moves casts of int64 inputs ahead of views by itself; it does not in ExecuTorch 1.5.1"
    )
    after: ClassVar[tuple[str, ...]] = ("fold-constants", "merge-casts")

    def questions(self, program: Program, context: Context) -> list[Question]:
        return [
            question(match, replacement, program, context)
            for match, *both in _matches(program, context)
            for replacement in both
        ]

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for match, before, after in _matches(program, context):
            questions = [question(match, replacement, program, context) for replacement in (before, after)]
            now, then = context.oracle.ask(questions)
            if now.taken or not then.accepts_in_place_of(now) or len(then.refusals) >= len(now.refusals):
                continue
            reason = (
                f"{context.target.name} does not take the view as it is ({now.reason}); it takes it of the cast tensor"
            )
            context.find(self.id, match.node, Outcome.REWRITTEN, reason)
            splice(program, match, after, self.id)
            changed = True
        if changed:
            program.remove_dead()
        return changed


def _matches(program: Program, context: Context) -> Iterator[tuple[Match, Trace, Trace]]:
    """Casts of viewed tensors, each with the ops as they stand and with the cast first."""
    if program.has_in_place_ops:
        return
    for node in list(program.graph.nodes):
        if op_name(node.target) not in CASTS:
            continue
        views: list[Node] = []
        source: Any = node.args[0]
        while isinstance(source, Node) and source.target in VIEWS and len(source.users) == 1 and _literal(source):
            views.insert(0, source)
            source = source.args[0]
        if not views or "val" not in source.meta or program.tensor(source) is not None or not _literal(node):
            continue
        argument = Argument(source, source.meta["val"], None, "input")
        match = Match(node, (argument,), (source,), tree_structure(((0,), {})))
        try:
            before, after = (_traced(ops, match, context) for ops in ([*views, node], [node, *views]))
        except Decline:
            continue
        yield match, before, after


def _literal(node: Node) -> bool:
    """Whether a node depends on its first argument and on literals alone."""
    return node.all_input_nodes == [node.args[0]]


def _traced(ops: list[Node], match: Match, context: Context) -> Trace:
    def run(x: torch.Tensor) -> Any:
        for op in ops:
            x = op.target(x, *op.args[1:], **op.kwargs)  # type: ignore[operator]
        return x

    text = ";".join(f"{op.target}{op.args[1:]}{op.kwargs}" for op in ops)
    return context.traced(f"{__name__}: {text}", Rewrite(run, ()), match)
