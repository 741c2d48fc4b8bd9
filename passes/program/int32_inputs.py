"""On request: take int64 inputs as int32 from the start.

**What it rewrites.** With ``allow="int32-inputs"``: an int64 input of which every reader is a cast, such as token ids
behind ``index-to-int32``, or can be computed in int32 too, such as ``mask[:, None] == 0``. The input becomes int32, and
the cast to int32 goes; the caller has to pass int32.

**The identity.** Casting at the caller's side is the same cast. Values beyond int32 cannot be passed any more, so what
is computed of an input in int64 fits int32 as far as ``narrow-int64`` can prove it then.

**Why the backend needs it.** Arm has no int64, so the cast of an int64 input is all that stays on the CPU.

**What it leaves alone.** Inputs that something else reads as int64, or that would be an output too, and casts that
the backend does not take of int32 either.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.passes.integers.narrow_int64 import narrowed, questions
from lowerfix.program import Program
from lowerfix.ranges import of_dtype
from lowerfix.report import Outcome
from lowerfix.retyping import cast, first_refusal, is_cast, produces
from lowerfix.source import describe


@dataclass
class Int32Inputs(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "int32-inputs"
    after: ClassVar[tuple[str, ...]] = ("index-to-int32", "cast-before-view", "merge-casts", "narrow-int64")
    retire_when: ClassVar[str] = "Arm takes int64 inputs"
    opt_in: ClassVar[str] = "the caller has to pass int32"

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for node, reader, problem in _inputs(program, context):
            reason = f"{problem}: the input {node.name!r} is int32 now, and the caller has to pass that"
            context.find(self.id, reader, Outcome.REWRITTEN, reason)
            program.retype_input(node, torch.int32)
            for user in list(node.users):
                if user.meta["val"].dtype is torch.int32:
                    program.replace(user, node)
            changed = True
        for node, reader in _inputs_of_arithmetic(program, context):
            reason = (
                f"in int32 it can be computed: the input {node.name!r} is int32 now, and the caller has to pass that"
            )
            context.find(self.id, reader, Outcome.REWRITTEN, reason)
            readers = [user for user in node.users if not is_cast(user)]
            program.retype_input(node, torch.int32)
            wide = cast(program, node, torch.int64, readers[0], self.id)  # narrow-int64 does the rest
            program.reroute(node, wide, readers)
            changed = True
        return changed

    def tell(self, program: Program, context: Context) -> None:
        for node, reader, problem in _inputs(program, context):
            self.offer(reader, f"{problem}, and nothing else reads the input {node.name!r}", context)
        for node, reader in _inputs_of_arithmetic(program, context):
            self.offer(reader, f"in int32 it can be computed, if the input {node.name!r} is", context)


def _int64_inputs(program: Program) -> list[Node]:
    return [node for node in program.user_inputs if produces(node, torch.int64)]


def _inputs(program: Program, context: Context) -> list[tuple[Node, Node, str]]:
    """The inputs that can be int32, each with a cast that reads it and why the backend does not take that."""
    found = []
    for node in _int64_inputs(program):
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


def _inputs_of_arithmetic(program: Program, context: Context) -> list[tuple[Node, Node]]:
    """The inputs of which all that is computed can be computed in int32, each with the first op that reads it."""
    found = []
    for node in _int64_inputs(program):
        readers = [user for user in node.users if not is_cast(user)]
        if not readers or any(user.op == "output" for user in node.users):
            continue
        with program.ranges.assuming(node, of_dtype(torch.int32)):
            context.oracle.ask_all(lambda: questions(program, context))
            narrow = narrowed(program, context)
        if _all_follow(node, set(narrow)):
            found.append((node, readers[0]))
    return found


def _all_follow(node: Node, narrow: set[Node]) -> bool:
    """Whether all that reads an int64 node, and what reads that, is a cast or becomes narrow."""
    pending, seen = [node], {node}
    while pending:
        for user in pending.pop().users:
            if is_cast(user) or user in seen:
                continue
            if user not in narrow:
                return False
            seen.add(user)
            if user.meta["val"].dtype is torch.int64:
                pending.append(user)
    return True


def _taken(node: Node, casts: list[Node], program: Program, context: Context) -> bool:
    """Whether the backend takes casts of an input once it is int32."""
    wide = node.meta["val"]
    program.retype_input(node, torch.int32)
    try:
        return first_refusal(casts, program, context) is None
    finally:
        program.retype_input(node, wide.dtype)
