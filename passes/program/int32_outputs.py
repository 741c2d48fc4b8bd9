"""On request: give results that were int64 for PyTorch's sake as int32.

**What it rewrites.** With ``allow="int32-outputs"``: an int64 output that is a cast of a narrower integer, or of
numbers that are proven to fit int32, such as the indices of ``topk`` and ``argmax``. The output is int32, and the cast
goes.

**The identity.** The numbers are the same; the caller gets another dtype.

**Why the backend needs it.** Arm has no int64, so the cast to it is all that stays on the CPU.

**What it leaves alone.** Outputs that may exceed int32 for all that is known, those that something else reads as int64,
and what goes to a buffer.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import Program
from lowerfix.report import Outcome
from lowerfix.retyping import cast, first_refusal, is_cast
from lowerfix.source import describe


@dataclass
class Int32Outputs(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "int32-outputs"
    after: ClassVar[tuple[str, ...]] = ("*", "decompose")
    retire_when: ClassVar[str] = "Arm gives int64 outputs"
    opt_in: ClassVar[str] = "the caller gets int32"

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for node, problem in _outputs(program, context):
            context.find(self.id, node, Outcome.REWRITTEN, f"{problem}: the output is int32 now")
            program.reroute(node, _narrow(program, node, self.id), [program.graph.output_node()])
            changed = True
        if changed:
            program.accept_outputs()
            program.remove_dead()
        return changed

    def tell(self, program: Program, context: Context) -> None:
        for node, problem in _outputs(program, context):
            self.offer(node, f"{problem}, and its numbers fit int32", context)


def _outputs(program: Program, context: Context) -> list[tuple[Node, str]]:
    """The outputs that can be int32, each with why the backend does not take its cast to int64."""
    found = []
    for node in program.user_outputs():
        if not is_cast(node) or node.meta["val"].dtype is not torch.int64 or len(node.users) != 1:
            continue
        interval = program.ranges.of(node)
        if interval is None or not interval.fits(torch.int32):
            continue
        refusal = first_refusal([node], program, context)
        if refusal is not None:
            found.append((node, f"{context.target.name} does not take {describe(node)} ({refusal[1]})"))
    return found


def _narrow(program: Program, node: Node, pass_id: str) -> Node:
    """What is cast to int64, as int32."""
    source = node.all_input_nodes[0]
    if source.meta["val"].dtype is torch.int32 and source.op != "placeholder":
        return source
    return cast(program, source, torch.int32, node, pass_id)
