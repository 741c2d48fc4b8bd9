"""Reports as JSON, in the form that ``report.schema.json`` describes."""

import json
import math
from dataclasses import asdict
from typing import Any

from lowerfix.errors import LowerfixError
from lowerfix.placement import Comparison, Op, Placement, Verified
from lowerfix.report import Finding, Outcome, Report

VERSION = 1
"""Grows when a field changes its meaning or goes; new fields may come without."""


def to_json(report: Report, *, graph: bool = False) -> str:
    """A report as JSON text.

    Args:
        report: the report.
        graph: write every op of the program too.
    """
    content = {
        "schema": VERSION,
        "target": report.target,
        "whole": report.after.whole if report.after else None,
        "before": _placement(report.before, graph),
        "after": _placement(report.after, graph),
        "verified": _verified(report.verified),
        "seconds": report.seconds,
        "findings": [{**asdict(finding), "outcome": finding.outcome.value} for finding in report],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Report:
    """The report that JSON text describes; fields that are not known are left out.

    Raises:
        LowerfixError: for text that is no report, or one of a later version.
    """
    try:
        content = json.loads(text)
        version = content["schema"]
        if version != VERSION:
            raise LowerfixError(f"the report has schema version {version}; this lowerfix reads version {VERSION}")
        report = Report(
            [_finding(finding) for finding in content["findings"]],
            target=content["target"],
            before=_read_placement(content["before"]),
            after=_read_placement(content["after"]),
        )
        report.seconds = dict(content["seconds"])
        report.verified = _read_verified(content.get("verified"))
    except (ValueError, KeyError, TypeError) as error:
        raise LowerfixError(f"this is not a report of lowerfix: {type(error).__name__}: {error}") from error
    return report


def _placement(placement: Placement | None, graph: bool) -> dict[str, Any] | None:
    if placement is None:
        return None
    content = asdict(placement)
    if not graph:
        del content["ops"]
    return content


def _read_placement(content: dict[str, Any] | None) -> Placement | None:
    if content is None:
        return None
    ops = tuple(Op(**{**_known(Op, op), "inputs": tuple(op["inputs"])}) for op in content.get("ops", ()))
    between = tuple(content.get("between", ()))
    return Placement(**{**_known(Placement, content), "ops": ops, "between": between})


_COMPARED = ("lowered", "quantized", "drifted")


def _verified(verified: Verified | None) -> dict[str, Any] | None:
    """Numbers that JSON does not have are strings: "inf", "nan"."""
    if verified is None:
        return None
    content = asdict(verified)
    for name in _COMPARED:
        content[name] = [
            {key: value if isinstance(value, str) or math.isfinite(value) else str(value) for key, value in one.items()}
            for one in content[name]
        ]
    return content


def _read_verified(content: dict[str, Any] | None) -> Verified | None:
    if content is None:
        return None
    compared = {name: tuple(map(_read_comparison, content[name])) for name in _COMPARED}
    return Verified(**{**_known(Verified, content), **compared})


def _read_comparison(content: dict[str, Any]) -> Comparison:
    numbers = {name: float(value) for name, value in _known(Comparison, content).items() if name != "output"}
    return Comparison(output=str(content["output"]), **numbers)


def _finding(content: dict[str, Any]) -> Finding:
    return Finding(**{**_known(Finding, content), "outcome": Outcome(content["outcome"])})


def _known(cls: Any, content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name in cls.__dataclass_fields__}
