"""On request: compute in float32 what the program computes in float64 on the way to float32.

**What it rewrites.** With ``allow="float64-to-float32"``: operators in float64 of which every reader either computes in
float64 too or casts to float32, bfloat16 or float16, such as ``(t.double() * frequencies).sin().float()``. They
compute in float32, on constants that are stored in float32.

**The error.** Each operator rounds to 24 bits instead of 53: an error of about 2**-24 of its result, about 6e-8. For
the sine and cosine of x it is |x| * 2**-24, as the error of the phase counts: 6e-5 for x = 1000. Cancellation enlarges
it, as always. Numbers beyond 3.4e38 overflow, and integers beyond 2**24 are rounded.

**Why the backend needs it.** No accelerator here has float64; Arm's quantizer fails on it.

**What it leaves alone.** float64 that is compared, turned into integers, or an output of the program, since small
errors could matter there; operators that are not ATen's. What depends on no input needs no permission: it is folded in
float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import Program, Stage
from lowerfix.report import Outcome
from lowerfix.retyping import computes_alike, first_refusal, is_cast, produces, retype
from lowerfix.source import describe, op_name
from lowerfix.targets import Target

_AT_MOST_FLOAT32 = (torch.float32, torch.bfloat16, torch.float16)


@dataclass
class Float64ToFloat32(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "float64-to-float32"
    after: ClassVar[tuple[str, ...]] = ("fold-constants",)
    retire_when: ClassVar[str] = "never: accelerators have no float64"
    opt_in: ClassVar[str] = (
        "an error of about 2**-24 of each op's result (of the sine or cosine of x: |x| * 2**-24), "
        "overflow beyond 3.4e38, and integers beyond 2**24 are rounded"
    )

    def run(self, program: Program, context: Context) -> bool:
        nodes, stuck = _islands(program)
        for node, reason in stuck.items():
            context.find(self.id, node, Outcome.DECLINED, reason)
        problem = self._problem(nodes, program, context)
        if not problem:
            return False
        ordered = [node for node in program.graph.nodes if node in nodes]
        if program.has_in_place_ops:
            reason = f"{problem}; it has in-place ops: apply lowerfix to the ExportedProgram"
            context.find(self.id, ordered[0], Outcome.DECLINED, reason)
            return False
        ops = ", ".join(dict.fromkeys(op_name(node.target) for node in ordered))
        context.find(self.id, ordered[0], Outcome.REWRITTEN, f"{problem}: {ops} compute in float32, with {self.opt_in}")
        retype(program, nodes, torch.float64, torch.float32, self.id)
        return True

    def wants_functional(self, in_place: Sequence[Node], target: Target) -> Sequence[Node]:
        return [node for node in in_place if produces(node, torch.float64)]

    def tell(self, program: Program, context: Context) -> None:
        nodes, stuck = _islands(program)
        for node, reason in stuck.items():
            context.find(self.id, node, Outcome.DECLINED, reason)
        problem = self._problem(nodes, program, context)
        if problem:
            self.offer(next(node for node in program.graph.nodes if node in nodes), problem, context)

    def _problem(self, nodes: set[Node], program: Program, context: Context) -> str:
        """Why the backend does not take the nodes; empty where it does."""
        refusal = first_refusal([node for node in program.graph.nodes if node in nodes], program, context)
        if refusal is None:
            return ""
        problem = f"{context.target.name} does not compute in float64 ({refusal[1]})"
        if context.target.quantized and program.stage is Stage.FLOAT:
            problem += ", and its quantizer fails on a program that does"
        return problem


def _islands(program: Program) -> tuple[set[Node], dict[Node, str]]:
    """The ops that may compute in float32, with the casts that read them, and the others with what is in the way."""
    nodes: set[Node] = set()
    blocked: set[Node] = set()
    stuck: dict[Node, str] = {}
    for node in reversed(program.graph.nodes):
        if node.op != "call_function" or not produces(node, torch.float64):
            continue
        wrong = next((user for user in node.users if user not in nodes and not _narrows(user)), None)
        if wrong is None and computes_alike(node):
            nodes.add(node)
            continue
        blocked.add(node)
        if wrong is None:
            stuck[node] = f"float64, and {op_name(node.target)} is not known to compute alike in float32"
        elif wrong not in blocked:
            where = "an output of the program" if wrong.op == "output" else describe(wrong)
            stuck[node] = f"float64, and read by {where}, where a small error could matter; cast it to float32 first"
    casts = {user for node in nodes for user in node.users if _narrows(user)}
    return nodes | casts, stuck


def _narrows(node: Node) -> bool:
    """Whether a node casts to at most float32."""
    return is_cast(node) and node.meta["val"].dtype in _AT_MOST_FLOAT32
