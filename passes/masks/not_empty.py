"""Sizes that depend on data and are asserted not to be zero, said to be at least one.

**What it rewrites.** The assertion ``n >= 0`` becomes ``n >= 1`` where the program asserts ``n != 0`` as well.

**The identity.** Together they say ``n >= 1``.

**Why the backend needs it.** What is lowered is traced again, and a range of a size is learned from a bound and not
from ``n != 0``. Without it ``to_executorch`` fails where it sorts strides: ``Could not guard on data-dependent
expression 32*u0 < 32``.

**What it leaves alone.** Sizes that may be zero.
"""

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.passes.masks._propagation import is_assertion
from lowerfix.program import Program, inherit_metadata, origin
from lowerfix.report import Outcome

aten = torch.ops.aten


@dataclass
class NotEmpty(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "not-empty"
    after: ClassVar[tuple[str, ...]] = ("strip-guards", "promised-masks", "masked-rows", "last-selected-row")
    cleans_up: ClassVar[bool] = True
    retire_when: ClassVar[str] = "ExecuTorch sorts strides of unknown sizes; not in 1.5.1"

    def run(self, program: Program, context: Context) -> bool:
        asserted = [node for node in program.graph.nodes if is_assertion(node) and isinstance(node.args[0], Node)]
        filled = {size for node in asserted if (size := _not_zero(node.args[0])) is not None}
        changed = False
        for node in asserted:
            bound: Any = node.args[0]
            if bound.target is not operator.ge or bound.args[1] != 0 or bound.args[0] not in filled:
                continue
            with program.graph.inserting_before(node):
                new = program.graph.call_function(operator.ge, (bound.args[0], 1))
            new.meta["val"] = bound.args[0].meta["val"] >= 1
            inherit_metadata(new, bound, self.id, origin(bound, self.id))
            node.args = (new, *node.args[1:])
            context.find(self.id, node, Outcome.REWRITTEN, "it is asserted not to be zero as well")
            changed = True
        if changed:
            program.remove_dead()
        return changed


def _not_zero(asserted: Any) -> Node | None:
    """The size that an assertion says is not zero."""
    if asserted.target is operator.ne and asserted.args[1] == 0:
        size: Any = asserted.args[0]
        return size if isinstance(size, Node) else None
    if asserted.target is torch.sym_not and isinstance(asserted.args[0], Node):
        equal = asserted.args[0]
        if equal.target is operator.eq and equal.args[1] == 0 and isinstance(equal.args[0], Node):
            return equal.args[0]
    return None
