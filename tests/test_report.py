"""Findings and reports."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

import lowerfix
from lowerfix import report_json
from lowerfix.advice import ENTRIES, OFFERS, advise
from lowerfix.errors import LowerfixError
from lowerfix.placement import Op, Placement
from lowerfix.report import Finding, NotWhole, Outcome, Report

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


def placement(**fields: Any) -> Placement:
    return Placement(**{"delegates": 1, "delegated_ops": 5, **fields})


def explained(*findings: Finding, target: str = "vgf", **fields: Any) -> Report:
    return Report(findings, target=target, before=placement(delegates=3), after=placement(**fields))


LEFT = Finding("", "n", "aten.x.default", Outcome.LEFT, "no", "model.py:5", fix="do it", help="invalid-dtype", saves=2)


def test_a_report_that_apply_filled_does_not_know_what_is_whole() -> None:
    report = Report([ONE])
    for call in (lambda: report.whole, report.assert_whole, lambda: report.regressions(report)):
        with pytest.raises(LowerfixError, match=r"lowerfix\.explain makes one"):
            call()


def test_whole_is_one_delegate_or_none_and_nothing_on_the_cpu() -> None:
    explained().assert_whole()
    assert explained(delegates=0).whole
    assert not explained(delegates=2).whole
    assert not explained(error="TypeError: no").whole
    with pytest.raises(NotWhole) as caught:
        explained(LEFT, cpu_ops={"aten.x.default": 1}).assert_whole()
    message = str(caught.value)
    assert message.startswith(
        "vgf does not take the whole program: 1 delegate with 5 ops, 1 on the CPU (aten.x.default)"
    )
    assert "n (aten.x.default) at model.py:5: no. Next step: do it" in message


def test_ops_left_are_told_as_far_as_there_are_ten() -> None:
    many = [dataclasses.replace(LEFT, node=f"n{number}") for number in range(12)]
    with pytest.raises(NotWhole) as caught:
        explained(*many, cpu_ops={"aten.x.default": 12}).assert_whole()
    lines = str(caught.value).splitlines()
    assert len(lines) == 12
    assert lines[-1].strip() == "and 2 more"


def test_what_has_become_worse_is_named(tmp_path: Path) -> None:
    old = explained(cpu_ops={"aten.y.default": 2})
    new = explained(LEFT, delegates=2, cpu_ops={"aten.x.default": 1, "aten.y.default": 2})
    assert old.regressions(new) == []
    old.assert_no_worse(new)
    file = tmp_path / "old.json"
    file.write_text(old.to_json())
    for baseline in (old, file, str(file)):
        with pytest.raises(NotWhole) as caught:
            new.assert_no_worse(baseline)
        lines = [line.strip() for line in str(caught.value).splitlines()]
        assert lines[1:] == [
            "2 delegates instead of 1",
            "aten.x.default: 1 more on the CPU, 1 instead of 0",
            "n (aten.x.default) at model.py:5: no. Next step: do it",
        ]
    with pytest.raises(NotWhole, match="2 delegates instead of 1"):
        new.assert_whole(old)
    failing = explained(error="TypeError: no")
    assert failing.regressions(old) == ["the lowering fails, and did not: TypeError: no"]
    assert failing.regressions(failing) == new.regressions(failing) == []
    with pytest.raises(LowerfixError, match="about xnnpack, this report about vgf"):
        new.regressions(explained(target="xnnpack"))


def test_json_holds_all_of_a_report_and_fits_its_schema() -> None:
    op = Op("n", "aten.x.default", ("a",), "float32[2]", "encoder.0", "model.py:5", None, True, "no")
    report = explained(LEFT, ONE, TWO, cpu_ops={"aten.x.default": 1}, between=("n",), ops=(op,))
    report.seconds = {"rewriting": 0.5}
    schema = json.loads(Path(lowerfix.__file__).with_name("report.schema.json").read_text())
    for one in (report, Report([ONE])):
        for graph in (False, True):
            text = one.to_json(graph=graph)
            jsonschema.validate(json.loads(text), schema)
            again = Report.from_json(text)
            assert again.to_json(graph=graph) == text
            assert again.findings == one.findings
            assert again.after == (one.after if graph or not one.after else dataclasses.replace(one.after, ops=()))
    broken = json.loads(report.to_json())
    del broken["findings"][0]["fix"]
    with pytest.raises(jsonschema.ValidationError, match="'fix' is a required property"):
        jsonschema.validate(broken, schema)


def test_the_schema_in_the_documentation_is_the_packages() -> None:
    published = Path(__file__).parents[1] / "docs" / "report.schema.json"
    assert published.read_text() == Path(lowerfix.__file__).with_name("report.schema.json").read_text()
    assert json.loads(published.read_text())["properties"]["schema"]["const"] == report_json.VERSION


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a report"),
        ("[]", "not a report"),
        ('{"schema": 1}', "not a report of lowerfix: KeyError"),
        ('{"schema": 99}', "schema version 99; this lowerfix reads version 1"),
    ],
)
def test_what_is_not_a_report_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LowerfixError, match=message):
        Report.from_json(text)
    file = tmp_path / "report.json"
    file.write_text(text)
    with pytest.raises(LowerfixError, match=f"report.json.*{message}"):
        Report.load(file)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(LowerfixError, match=r"missing\.json"):
        Report.load(tmp_path / "missing.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LowerfixError, match="binary"):
        Report.load(tmp_path / "binary")


def test_later_fields_are_left_out() -> None:
    content = json.loads(explained(LEFT).to_json())
    content["findings"][0]["new"] = content["after"]["new"] = content["new"] = 1
    assert Report.from_json(json.dumps(content)).findings == (LEFT,)


def test_next_steps_are_told_once_those_first_that_are_only_to_be_asked_for() -> None:
    other = dataclasses.replace(LEFT, fix='allow="x"', saves=0, help="what-has-to-be-allowed")
    quiet = dataclasses.replace(LEFT, node="q", fix="", help="")
    more = [dataclasses.replace(LEFT, node=f"m{n}", fix="something else", saves=0) for n in range(3)]
    report = explained(quiet, *more, LEFT, dataclasses.replace(LEFT, node="n2", saves=1), other)
    steps = report.next_steps
    assert [step.fix for step in steps] == ['allow="x"', "do it", "something else"]
    assert [(step.ops, step.saves, step.offered) for step in steps] == [(1, 0, True), (2, 2, False), (3, 0, False)]
    assert steps[1].help == ("invalid-dtype",)


def test_a_table_has_counts_reasons_places_and_next_steps() -> None:
    screen = io.StringIO()
    report = explained(LEFT, dataclasses.replace(LEFT, source="model.py:9"), TWO, cpu_ops={"aten.x.default": 2})
    Console(file=screen, width=100).print(report.table())
    text = screen.getvalue()
    for words in (
        "What vgf takes",
        "2 × aten.x.default",
        "costs 2 delegates",
        "model.py:5",
        "model.py:9",
        "Next step: do",
    ):
        assert words in text
    assert text.count("Next step:") == 1
    assert "what to do" in text
    assert "troubleshooting.md#invalid-dtype" in text


@pytest.mark.parametrize(
    ("reason", "fix", "anchor"),
    [
        ('x; allow="int32-inputs" would help: the caller', 'allow="int32-inputs"', "what-has-to-be-allowed"),
        (
            'promise it: apply(..., promises={"index": "all-true"}); "padded"',
            'promises={"index": "all-true"}, if',
            "could-",
        ),
        ('target="vgf+bf16", that is VgfCompileSpec("T+bf16"), has', 'lowerfix.compile_spec("vgf+bf16")', "bfloat16-"),
        ("ExecuTorch's runtime has no kernel for aten::x.out", "link a kernel", "missing-out-variants"),
        ("XNNPACK's partitioner does not take this op, or not with these arguments; here int64", "no int", "invalid-"),
        ("XNNPACK's partitioner does not take this op, or not with these arguments", "other ops", "not-included-"),
        ("Output dtype torch.int64 is not supported", "int32", "indextensor-"),
        ("invalid dtype; here int64; the size depends on data", "promise", "could-not-guard"),
        ("Had torch.float64 input a", "float32", "float64-"),
        ("words that nobody knows", "", ""),
    ],
)
def test_reasons_lead_to_a_next_step(reason: str, fix: str, anchor: str) -> None:
    found = advise(reason)
    assert fix in found[0]
    assert found[1].startswith(anchor)


def sections() -> dict[str, str]:
    """The sections of the troubleshooting page by their anchors, as GitHub makes them of headings."""
    page = (Path(__file__).parents[1] / "docs" / "troubleshooting.md").read_text()
    parts = re.split(r"^## (.*)$", page, flags=re.MULTILINE)[1:]
    slugs = (re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in parts[::2])
    return dict(zip(slugs, (f"{h}\n{body}" for h, body in zip(parts[::2], parts[1::2], strict=True)), strict=True))


def test_every_advice_leads_to_a_section_and_every_section_is_led_to() -> None:
    assert {advice.help for advice in (*ENTRIES, *OFFERS)} == set(sections())


@pytest.mark.parametrize(
    "message",
    [
        "call_module is not supported",
        "index.Tensor requires index dtype must be int32",
        "Missing out variants",
        "invalid dtype",
        "Could not guard on data-dependent expression",
        "is not in Core ATen opset",
        "Not included in BaseTOSASupportList",
        "Node was not marked as quantized",
    ],
)
def test_the_words_of_a_failure_are_found_where_they_lead(message: str) -> None:
    _, anchor = advise(message)
    assert message in sections()[anchor]
