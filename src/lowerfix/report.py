"""What happened and why: findings, and the report that collects them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowerfix.errors import LowerfixError

if TYPE_CHECKING:
    from lowerfix.placement import Placement, Verified


class Outcome(str, Enum):
    """What became of a node."""

    REWRITTEN = "rewritten"
    DECLINED = "declined"
    DORMANT = "dormant"
    """The right pass at the wrong stage: it would have to run earlier."""
    LEFT = "left on the CPU"
    """The backend refuses the op, and no rewrite serves it."""


@dataclass(frozen=True)
class Finding:
    """One rewrite, one decline or one op left on the CPU.

    Attributes:
        pass_id: the kebab-case id of the pass, empty where no pass is concerned.
        node: the name of the node in the program that ``apply`` was given (or, for what a rewrite made, in its result).
        op: the node's op, ``aten.argmin.default``.
        outcome: what became of the node.
        reason: why, in words that a user can act on.
        source: the user's own ``file:line``, empty where the program does not tell.
        fix: what the user can do about it; ``lowerfix.explain`` fills this in, and what follows.
        help: the section of ``docs/troubleshooting.md`` that says more.
        saves: how many delegates fewer there would be if every op of this kind were taken.
    """

    pass_id: str
    node: str
    op: str
    outcome: Outcome
    reason: str
    source: str = ""
    fix: str = ""
    help: str = ""
    saves: int = 0

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        by = f" [{self.pass_id}]" if self.pass_id else ""
        what = " ".join(part for part in (self.node, f"({self.op})" if self.op else "") if part)
        return f"{self.outcome.value}{by}: {what + ': ' if what else ''}{self.reason}{where}"


@dataclass(frozen=True)
class NextStep:
    """One thing to do about ops on the CPU.

    Attributes:
        fix: what to do.
        ops: how many ops on the CPU it is about.
        saves: how many delegates fewer there would be for the op that costs most of them.
        help: the sections of ``docs/troubleshooting.md`` that say more.
    """

    fix: str
    ops: int
    saves: int
    help: tuple[str, ...] = ()

    @property
    def offered(self) -> bool:
        """Whether lowerfix does it once it is asked to."""
        return any(option in self.fix for option in ("allow=", "promises=", "target="))


class NotWhole(AssertionError):
    """Some of a program stays on the CPU, or more of it than before; the message says what, why and where."""


class Report:
    """What happened to a program and why.

    Attributes:
        target: the target that was asked about, by :func:`lowerfix.explain`.
        before: where the ops of the program run without lowerfix; None where nobody asked.
        after: where they run with it.
        verified: whether the numbers hold, where that was asked for.
        seconds: what each stage took.
    """

    def __init__(
        self,
        findings: Iterable[Finding] = (),
        *,
        target: str = "",
        before: "Placement | None" = None,
        after: "Placement | None" = None,
    ) -> None:
        self._findings: dict[Finding, None] = dict.fromkeys(findings)
        self.target = target
        self.before = before
        self.after = after
        self.verified: Verified | None = None
        self.seconds: dict[str, float] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of one or several calls of ``apply``, in order, each once."""
        return tuple(self._findings)

    def add(self, finding: Finding) -> None:
        """Add a finding, unless an equal one is there."""
        self._findings.setdefault(finding)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add several findings."""
        for finding in findings:
            self.add(finding)

    def of(self, outcome: Outcome | str) -> tuple[Finding, ...]:
        """The findings with one outcome."""
        return tuple(finding for finding in self._findings if finding.outcome == Outcome(outcome))

    @property
    def next_steps(self) -> tuple[NextStep, ...]:
        """What there is to do, each thing once: first what saves most delegates, then what is about most ops.

        What has to be allowed or promised comes before what has to be changed in the model.
        """
        grouped: dict[str, list[Finding]] = {}
        for finding in self.of(Outcome.LEFT):
            if finding.fix:
                grouped.setdefault(finding.fix, []).append(finding)
        steps = [
            NextStep(
                fix, len(found), max(f.saves for f in found), tuple(dict.fromkeys(f.help for f in found if f.help))
            )
            for fix, found in grouped.items()
        ]
        return tuple(sorted(steps, key=lambda step: (not step.offered, -step.saves, -step.ops)))

    @property
    def placements(self) -> "tuple[Placement, Placement]":
        """Where the ops run without lowerfix, and with it.

        Raises:
            LowerfixError: for a report that :func:`lowerfix.explain` did not make.
        """
        if self.before is None or self.after is None:
            raise LowerfixError("this report does not know where the ops run; lowerfix.explain makes one that does")
        return self.before, self.after

    @property
    def whole(self) -> bool:
        """Whether the backend takes the whole program once it is rewritten.

        Raises:
            LowerfixError: for a report that :func:`lowerfix.explain` did not make.
        """
        return self.placements[1].whole

    def assert_whole(self, baseline: "Report | str | Path | None" = None) -> None:
        """Assert that the backend takes the whole program, for a test or a CI job.

        Args:
            baseline: an earlier report or its file; the message then says what has become worse since.

        Raises:
            NotWhole: with the ops that stay on the CPU, the reasons, the source lines and what to do.
            LowerfixError: for a report that :func:`lowerfix.explain` did not make.
        """
        if self.whole:
            return
        lines = [f"{self.target} does not take the whole program: {self.after}"]
        lines += self.regressions(baseline) if baseline is not None else []
        raise NotWhole("\n  ".join([*lines, *self._left()]))

    def assert_no_worse(self, baseline: "Report | str | Path") -> None:
        """Assert that no more stays on the CPU, in no more delegates, than in an earlier report or its file.

        Raises:
            NotWhole: with what has become worse, the reasons, the source lines and what to do.
            LowerfixError: for a report that :func:`lowerfix.explain` did not make.
        """
        worse = self.regressions(baseline)
        if worse:
            raise NotWhole("\n  ".join([f"{self.target} takes less of the program than before", *worse]))

    def regressions(self, baseline: "Report | str | Path") -> list[str]:
        """What has become worse since an earlier report, one line each; empty where nothing has.

        Raises:
            LowerfixError: for a report that :func:`lowerfix.explain` did not make, or for another target.
        """
        old = baseline if isinstance(baseline, Report) else Report.load(baseline)
        if old.target != self.target:
            raise LowerfixError(f"the baseline is about {old.target or 'no target'}, this report about {self.target}")
        was, now = old.placements[1], self.placements[1]
        if now.error:
            return [] if was.error else [f"the lowering fails, and did not: {now.error}"]
        if was.error:
            return []
        lines = []
        if now.delegates > max(was.delegates, 1):
            lines.append(f"{now.delegates} delegates instead of {was.delegates}")
        for op, more in (Counter(now.cpu_ops) - Counter(was.cpu_ops)).items():
            lines.append(f"{op}: {more} more on the CPU, {now.cpu_ops[op]} instead of {was.cpu_ops.get(op, 0)}")
            lines += [f"  {line}" for line in self._left(op)]
        return lines

    def to_json(self, *, graph: bool = False) -> str:
        """The report as JSON, in the form of ``docs/report.schema.json``; ``graph`` adds every op of the program."""
        from lowerfix.report_json import to_json

        return to_json(self, graph=graph)

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """The report that ``to_json`` wrote.

        Raises:
            LowerfixError: for what is not one, or one that a later lowerfix wrote.
        """
        from lowerfix.report_json import from_json

        return from_json(text)

    @classmethod
    def load(cls, path: "str | Path") -> "Report":
        """The report in a JSON file.

        Raises:
            LowerfixError: where it cannot be read, or is not one.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LowerfixError(f"report {str(path)!r} cannot be read: {error}") from error
        try:
            return cls.from_json(text)
        except LowerfixError as error:
            raise LowerfixError(f"{str(path)!r}: {error}") from error

    def to_html(self) -> str:
        """The report as one HTML page that needs nothing else: with the graph before and after, to be searched.

        Raises:
            LowerfixError: for a report that :func:`lowerfix.explain` did not make.
        """
        from lowerfix.report_html import to_html

        return to_html(self)

    def model_explorer(self) -> dict[str, Any]:
        """The graphs as a graph collection for Google's Model Explorer; write it as JSON and open the file there.

        Raises:
            LowerfixError: for a report that :func:`lowerfix.explain` did not make.
        """
        from lowerfix.report_html import model_explorer

        return model_explorer(self)

    def table(self) -> Any:
        """The report for the terminal, as something that ``rich`` prints."""
        from lowerfix.report_table import table

        return table(self)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self._findings)

    def __str__(self) -> str:
        placed = [f"{name}: {place}" for name, place in (("before", self.before), ("after", self.after)) if place]
        return "\n".join([*placed, *map(str, self._findings)]) or "nothing to report"

    def _left(self, op: str = "") -> list[str]:
        """A line for each op that stays on the CPU, as far as there are ten."""
        found = [f for f in self.of(Outcome.LEFT) if not op or f.op == op]
        lines = []
        for finding in found[:10]:
            fix = f". Next step: {finding.fix}" if finding.fix else ""
            where = f" at {finding.source}" if finding.source else ""
            lines.append(f"{finding.node} ({finding.op}){where}: {finding.reason}{fix}")
        return lines + ([f"and {len(found) - 10} more"] if len(found) > 10 else [])
