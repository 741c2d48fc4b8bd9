"""Findings and reports."""

from __future__ import annotations

import dataclasses

import pytest

from lowerfix.report import Finding, Outcome, Report

ONE = Finding("mish", "mish_1", "aten.mish.default", Outcome.REWRITTEN, "because", "model.py:3")
TWO = Finding("", "", "", Outcome.DORMANT, "too late")


def test_a_finding_reads_as_one_line() -> None:
    assert str(ONE) == "rewritten [mish]: mish_1 (aten.mish.default): because at model.py:3"
    assert str(TWO) == "dormant: too late"


def test_a_finding_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ONE.reason = "other"  # type: ignore[misc]


def test_a_report_keeps_the_order_and_each_finding_once() -> None:
    report = Report([ONE, TWO])
    report.add(dataclasses.replace(ONE))
    report.extend([TWO, dataclasses.replace(ONE, node="mish_2")])
    assert [finding.node for finding in report] == ["mish_1", "", "mish_2"]
    assert len(report) == 3
    assert report.findings == tuple(report)


def test_findings_are_selected_by_outcome() -> None:
    report = Report([ONE, TWO])
    assert report.of(Outcome.REWRITTEN) == report.of("rewritten") == (ONE,)
    assert report.of("left on the CPU") == ()
    with pytest.raises(ValueError, match="no outcome"):
        report.of("no outcome")


def test_a_report_prints_a_line_for_each_finding() -> None:
    assert str(Report([ONE, TWO])).splitlines() == [str(ONE), str(TWO)]
    assert str(Report()) == "nothing to report"
