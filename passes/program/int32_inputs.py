"""On request: take int64 inputs that are only cast as int32 from the start.

**What it rewrites.** With ``allow="int32-inputs"``: an int64 input of which every reader is a cast, such as token ids
behind ``index-to-int32``, or a mask that becomes float. The input becomes int32, and the cast to int32 goes; the caller
has to pass int32.

**The identity.** Casting at the caller's side is the same cast. Values beyond int32 cannot be passed any more.

**Why the backend needs it.** Arm has no int64, so the cast of an int64 input is all that stays on the CPU.

**What it leaves alone.** Inputs that something else reads, or that would be an output too, and casts that the backend
does not take of int32 either.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import Program
from lowerfix.report import Outcome
from lowerfix.retyping import first_refusal, is_cast
from lowerfix.source import describe


@dataclass
class Int32Inputs(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "int32-inputs"
    after: ClassVar[tuple[str, ...]] = ("index-to-int32", "cast-before-view", "merge-casts")
    retire_when: ClassVar[str] = "Arm takes int64 inputs"
    opt_in: ClassVar[str] = "the caller has to pass int32"

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for node, cast, problem in _inputs(program, context):
            reason = f"{problem}: the input {node.name!r} is int32 now, and the caller has to pass that"
            context.find(self.id, cast, Outcome.REWRITTEN, reason)
            program.retype_input(node, torch.int32)
            for user in list(node.users):
                if user.meta["val"].dtype is torch.int32:
                    program.replace(user, node)
            changed = True
        return changed

    def tell(self, program: Program, context: Context) -> None:
        for node, cast, problem in _inputs(program, context):
            self.offer(cast, f"{problem}, and nothing else reads the input {node.name!r}", context)


def _inputs(program: Program, context: Context) -> list[tuple[Node, Node, str]]:
    """The inputs that can be int32, each with a cast that reads it and why the backend does not take that."""
    found = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if not program.is_user_input(node) or not isinstance(value, torch.Tensor) or value.dtype is not torch.int64:
            continue
        readers = list(node.users)
        casts = [user for user in readers if is_cast(user) and user.all_input_nodes == [node]]
        if not casts or len(casts) != len(readers) or any(cast.meta["val"].dtype is torch.int64 for cast in casts):
            continue
        narrow = [cast for cast in casts if cast.meta["val"].dtype is torch.int32]
        if any(user.op == "output" for cast in narrow for user in cast.users):
            continue  # the input would be an output
        refusal = first_refusal(casts, program, context)
        if refusal is None or not _taken(node, [cast for cast in casts if cast not in narrow], program, context):
            continue
        found.append((node, refusal[0], f"{context.target.name} does not take {describe(refusal[0])} ({refusal[1]})"))
    return found


def _taken(node: Node, casts: list[Node], program: Program, context: Context) -> bool:
    """Whether the backend takes casts of an input once it is int32."""
    wide = node.meta["val"]
    program.retype_input(node, torch.int32)
    try:
        return first_refusal(casts, program, context) is None
    finally:
        program.retype_input(node, wide.dtype)
