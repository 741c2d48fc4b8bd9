"""What happened and why: findings, and the report that collects them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum


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
    """

    pass_id: str
    node: str
    op: str
    outcome: Outcome
    reason: str
    source: str = ""

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        by = f" [{self.pass_id}]" if self.pass_id else ""
        what = " ".join(part for part in (self.node, f"({self.op})" if self.op else "") if part)
        return f"{self.outcome.value}{by}: {what + ': ' if what else ''}{self.reason}{where}"


class Report:
    """The findings of one or several calls of ``apply``, in order, each once."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self._findings: dict[Finding, None] = dict.fromkeys(findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._findings)

    def add(self, finding: Finding) -> None:
        """Add a finding, unless an equal one is there."""
        self._findings.setdefault(finding)

    def extend(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.add(finding)

    def of(self, outcome: Outcome | str) -> tuple[Finding, ...]:
        """The findings with one outcome."""
        return tuple(finding for finding in self._findings if finding.outcome == Outcome(outcome))

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self._findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self._findings)) or "nothing to report"
