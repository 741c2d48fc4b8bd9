"""What nothing on the device would compute is rewritten so that something does, or reported.

**What it rewrites.** An operator that the backend refuses and that ExecuTorch's runtime has no kernel for, or has one
that refuses its arguments: ``fmax``, ``cumprod``, ``median``, ``conv3d``, ``bucketize``. A rewrite that is not taken
whole either is used all the same, where all that is left of it on the CPU runs; PyTorch's own decomposition, too.

**The identity.** That of the rewrite.

**Why the backend needs it.** The lowering says nothing of such an operator. ``to_executorch`` dies on it ("Missing out
variants"), or the ``.pte`` is written and does not load or run. The runtime is asked itself: for its list of kernels
and, where it executes the backend's delegates on this machine, by executing the operator on zeros, in a process of its
own.

**What it leaves alone.** What runs. Where there is no such rewrite, the report names the operator, its source line, and
what the runtime lacks. Symbolic sizes are not executed. Nothing is done for targets that quantize.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline
from lowerfix.oracle import Question, missing_kernel
from lowerfix.program import Program, Stage, is_view, mutated_arguments
from lowerfix.report import Outcome
from lowerfix.rewritepass import inner_match, question, substituted
from lowerfix.rewriting import Match, Trace, aliases_input, splice

_DEEPEST = 3
"""How many rewrites may serve what another rewrite made, one within the other."""


@dataclass
class NoKernel(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "no-kernel"
    after: ClassVar[tuple[str, ...]] = ("*", "decompose")
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.FLOAT})
    retire_when: ClassVar[str] = "ExecuTorch's runtime has a kernel for every ATen op"

    def run(self, program: Program, context: Context) -> bool:
        if context.target.quantized or not program.is_exported:
            return False  # its questions are about another program: what is exported again after quantizing
        matches = list(_matches(program, context))
        deaths = context.oracle.deaths([question(match, None, program, context) for match in matches])
        changed = False
        for match, death in zip(matches, deaths, strict=True):
            if not death:
                continue
            replacement = _running(match, program, context)
            if replacement is None:
                context.find(self.id, match.node, Outcome.LEFT, f"nothing would compute it: {death}")
                continue
            reason = f"nothing would compute it: {death}; what stands in its place now runs"
            context.find(self.id, match.node, Outcome.REWRITTEN, reason)
            splice(program, match, replacement, self.id)
            changed = True
        if changed:
            program.remove_dead()
        return changed


def _matches(program: Program, context: Context) -> Iterator[Match]:
    """The ops to ask about: what other passes have asked about, and what has no kernel by its own name."""
    for node in list(program.graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
            continue
        if mutated_arguments(node) or (is_view(node) and program.has_in_place_ops):
            continue
        try:
            match = Match.of(node, program)
        except Decline:
            continue
        asked = context.oracle.known(question(match, None, program, context)) is not None
        if asked or missing_kernel(node.target):
            yield match


def _running(match: Match, program: Program, context: Context, depth: int = 0) -> Trace | None:
    """The replacement of which the least stays on the CPU, of those that run; None where none does."""
    candidates: list[Trace] = []
    for other in context.rewrites:
        for rewrite in other._serving(match.node, context):
            try:
                replacement = other._trace(rewrite, match, context)
            except Decline:
                continue
            if not (aliases_input(replacement) and program.has_in_place_ops):
                candidates.append(replacement)
    while candidates:
        questions = [question(match, candidate, program, context) for candidate in candidates]
        deaths = context.oracle.deaths(questions)
        alive = [(c, q) for c, q, death in zip(candidates, questions, deaths, strict=True) if not death]
        if alive:
            return min(alive, key=lambda pair: _left(pair[1], context))[0]
        if depth == _DEEPEST:
            break
        depth += 1
        expanded = [_expanded(candidate, program, context, depth) for candidate in candidates]
        candidates = [candidate for candidate in expanded if candidate is not None]
    return None


def _left(asked: Question, context: Context) -> int:
    [answer] = context.oracle.ask([asked])
    return len(answer.refusals)


def _expanded(replacement: Trace, program: Program, context: Context, depth: int) -> Trace | None:
    """A replacement with those of its ops replaced that nothing computes; None where one cannot be."""
    matches = {
        node: inner_match(node)
        for node in replacement.graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    }
    deaths = context.oracle.deaths([question(match, None, program, context) for match in matches.values()])
    chosen: dict[Node, tuple[Match, Trace]] = {}
    for (node, match), death in zip(matches.items(), deaths, strict=True):
        if death:
            inner = _running(match, program, context, depth)
            if inner is None:
                return None
            chosen[node] = match, inner
    return substituted(replacement, chosen) if chosen else None
