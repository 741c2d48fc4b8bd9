"""What every pass is: the base class, its result, and the context it runs in."""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.passes.infra.pass_base import PassResult
from typing_extensions import Self

from lowerfix.errors import Decline, LowerfixError
from lowerfix.oracle import Oracle, Question
from lowerfix.program import Program, Stage, is_quantization_op
from lowerfix.report import Finding, Outcome, Report
from lowerfix.rewriting import Match, Rewrite, Trace, computing_in_int8, in_int8, trace
from lowerfix.source import op_name, source_line
from lowerfix.targets import Target

if TYPE_CHECKING:
    from lowerfix.rewritepass import RewritePass

ATEN = frozenset({Stage.FLOAT, Stage.QUANTIZED})


@dataclass
class Context:
    """What passes share while one program is rewritten.

    Attributes:
        target: the target that the program is meant for.
        oracle: answers what the target's installed backend takes.
        report: where findings go.
        traces: what rewrites were traced to, by (rewrite, argument metadata, whether it is in int8).
        declines: the findings of this round that a later round may overtake.
        questions: those made already, by all that they depend on.
        rewrites: the pipeline's rewrite passes, for what a replacement needs rewritten itself.
    """

    target: Target
    oracle: Oracle
    report: Report
    traces: dict[tuple[str, str, bool], Trace | Decline] = field(default_factory=dict)
    declines: list[Finding] = field(default_factory=list)
    questions: dict[tuple[Any, ...], Question] = field(default_factory=dict)
    rewrites: "tuple[RewritePass, ...]" = ()

    def traced(self, name: str, rewrite: Rewrite, match: Match) -> Trace:
        """What a rewrite makes of a match; equal matches are traced once.

        Args:
            name: stands for the rewrite, and for all that its function depends on beside the match.
            rewrite: the rewrite.
            match: the match.

        Raises:
            Decline: as the rewrite raised it.
        """
        int8 = in_int8() or self.target.quantized
        int8 = int8 or any(is_quantization_op(argument.node.target) for argument in match.arguments)
        key = (name, match.key, int8)
        if key not in self.traces:
            try:
                with computing_in_int8(int8):
                    self.traces[key] = trace(rewrite, match)
            except Decline as decline:
                self.traces[key] = decline
            except GuardOnDataDependentSymNode as error:
                self.traces[key] = Decline(f"the rewrite would ask for {error.cond}, of a size that depends on data")
        known = self.traces[key]
        if isinstance(known, Decline):
            raise known
        return known

    def find(self, pass_id: str, node: Node, outcome: Outcome, reason: str) -> None:
        """Add a finding about a node."""
        finding = Finding(pass_id, node.name, op_name(node.target), outcome, reason, source_line(node))
        if outcome is Outcome.REWRITTEN:
            self.report.add(finding)
        else:
            self.declines.append(finding)


class Result(PassResult):
    """A ``torch.fx`` ``PassResult`` (``graph_module``, ``modified``) that carries the program and the findings too."""

    exported_program: ExportedProgram | None
    findings: tuple[Finding, ...]

    def __new__(cls, program: ExportedProgram | GraphModule, modified: bool, report: Report) -> Self:
        module = program.graph_module if isinstance(program, ExportedProgram) else program
        self: Self = super().__new__(cls, module, modified)  # type: ignore[assignment]
        self.exported_program = program if isinstance(program, ExportedProgram) else None
        self.findings = report.findings
        return self


@dataclass(kw_only=True)
class Pass(ABC):
    """One pass: a rewrite of single ops, or a graph pass over the whole program.

    A subclass is a dataclass whose fields are its options; ``target`` is needed only to call the pass by itself.

    Class attributes:
        id: kebab-case name, unique.
        after: ids of passes that have to run earlier, where they run at all; ``*`` for all others
            but those that have it too.
        stages: the stages at which the pass has something to do; at others it is dormant, and the report says so.
        retire_when: the upstream issue or release that makes the pass unnecessary.
        cleans_up: the pass asks the oracle nothing, and runs over its probes too.
        opt_in: what the pass costs, where it does what the user has to ask for by ``allow=``; empty for all others.
    """

    id: ClassVar[str]
    after: ClassVar[tuple[str, ...]] = ()
    stages: ClassVar[frozenset[Stage]] = ATEN
    retire_when: ClassVar[str] = ""
    cleans_up: ClassVar[bool] = False
    opt_in: ClassVar[str] = ""

    target: str | Target | None = None

    def __post_init__(self) -> None:
        # EXIR's pass managers hand the whole program to what they know as one of theirs, and its graph alone to others.
        # Registering is enough; executorch takes seconds to import, and who has a pass manager has imported it.
        base = getattr(sys.modules.get("executorch.exir.pass_base"), "ExportedProgramPassBase", None)
        if base is not None:
            base.register(Pass)

    @abstractmethod
    def run(self, program: Program, context: Context) -> bool:
        """Rewrite ``program`` in place; return whether anything changed."""

    def questions(self, program: Program, context: Context) -> list[Question]:
        """What ``run`` will want to know of the backend; all passes' questions are asked in one probe.

        It is called again until it has nothing new to ask, so a question may wait for the answer to another.
        """
        return []

    def wants_functional(self, in_place: Sequence[Node], target: Target) -> Sequence[Node]:
        """Of the nodes of a program that work in place, those that this pass serves in functional form for a target."""
        return ()

    def tell(self, program: Program, context: Context) -> None:
        """Say what ``run`` would do, by :meth:`offer`; called instead of it where an opt-in pass is not allowed."""
        return

    def offer(self, node: Node, problem: str, context: Context) -> None:
        """Add the finding that this opt-in pass would help with a node, how to allow it, and what it costs."""
        context.find(self.id, node, Outcome.DECLINED, f'{problem}; allow="{self.id}" would help: {self.opt_in}')

    def __call__(self, program: ExportedProgram | GraphModule, target: str | Target | None = None) -> Result:
        """Run this pass alone, as pass managers do.

        Args:
            program: what to rewrite; it is not changed.
            target: the target to rewrite for; the pass's own ``target`` attribute where it is left out.

        Raises:
            LowerfixError: where no target is known, or the pass fails.
        """
        from lowerfix.pipeline import Pipeline

        target = target or self.target
        if target is None:
            raise LowerfixError(f"pass {self.id!r} needs a target: lowerfix.passes.get({self.id!r}, target='vgf')")
        report = Report()
        result, modified = Pipeline([self]).run(program, target, report)
        return Result(result, modified, report)

    @property
    def __name__(self) -> str:  # pass managers that log want a function's name
        return self.id


def kebab(name: str) -> str:
    """``ConvTranspose1d`` and ``conv_transpose1d`` both become ``conv-transpose1d``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    return words.replace("_", "-").lower()


def pascal(name: str) -> str:
    """``conv-transpose1d`` becomes ``ConvTranspose1d``."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[-_]", name))
