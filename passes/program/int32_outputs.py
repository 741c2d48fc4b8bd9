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
from lowerfix.program import Program, inherit_metadata, origin
from lowerfix.report import Outcome
from lowerfix.retyping import first_refusal, is_cast
from lowerfix.source import describe

aten = torch.ops.aten


@dataclass
class Int32Outputs(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "int32-outputs"
    after: ClassVar[tuple[str, ...]] = ("*", "decompose")
    retire_when: ClassVar[str] = "Arm gives int64 outputs"
    opt_in: ClassVar[str] = "the caller gets int32"

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for cast, problem in _outputs(program, context):
            context.find(self.id, cast, Outcome.REWRITTEN, f"{problem}: the output is int32 now")
            program.reroute(cast, _narrow(program, cast, self.id), [program.graph.output_node()])
            changed = True
        if changed:
            program.accept_outputs()
            program.remove_dead()
        return changed

    def tell(self, program: Program, context: Context) -> None:
        for cast, problem in _outputs(program, context):
            self.offer(cast, f"{problem}, and its numbers fit int32", context)


def _outputs(program: Program, context: Context) -> list[tuple[Node, str]]:
    """The outputs that can be int32, each with why the backend does not take its cast to int64."""
    found = []
    for cast in program.user_outputs():
        if not is_cast(cast) or cast.meta["val"].dtype is not torch.int64 or len(cast.users) != 1:
            continue
        interval = program.ranges.of(cast)
        if interval is None or not interval.fits(torch.int32):
            continue
        refusal = first_refusal([cast], program, context)
        if refusal is not None:
            found.append((cast, f"{context.target.name} does not take {describe(cast)} ({refusal[1]})"))
    return found


def _narrow(program: Program, cast: Node, pass_id: str) -> Node:
    """What is cast to int64, as int32."""
    source = cast.all_input_nodes[0]
    value = source.meta["val"]
    if value.dtype is torch.int32 and source.op != "placeholder":
        return source
    with program.graph.inserting_before(cast):
        node = program.graph.call_function(aten.to.dtype, (source, torch.int32))
    with value.fake_mode:
        node.meta["val"] = value.to(torch.int32)
    inherit_metadata(node, cast, pass_id, origin(cast, pass_id))
    return node
