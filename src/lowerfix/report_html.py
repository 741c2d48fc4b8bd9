"""A report as one HTML file that needs nothing else: counts, findings, and the graph before and after."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jinja2

from lowerfix.advice import PAGE
from lowerfix.placement import Op, Placement
from lowerfix.report import Outcome, Report
from lowerfix.report_table import short

FOLDER = Path(__file__).with_name("html")


def to_html(report: Report) -> str:
    """The page.

    Raises:
        LowerfixError: for a report without placements: one that ``explain`` did not make.
    """
    before, after = report.placements
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters.update(short=short, number=_number)
    fixes = {finding.node: finding.fix for finding in report.of(Outcome.LEFT)}
    data = {"before": _graph(before, {}), "after": _graph(after, fixes)}
    return environment.get_template("report.html.jinja").render(
        report=report,
        columns=[("stock", before), ("with lowerfix", after)],
        outcomes=list(Outcome),
        help_page=PAGE,
        style=(FOLDER / "report.css").read_text(encoding="utf-8"),
        script=(FOLDER / "report.js").read_text(encoding="utf-8"),
        data=_for_script(data),
    )


def _graph(placement: Placement, fixes: dict[str, str]) -> list[dict[str, Any]]:
    """The ops as the page's script reads them: short keys, for there may be thousands."""
    ops = []
    for op in placement.ops:
        entry = {
            "n": op.name,
            "o": op.op,
            "i": list(op.inputs),
            "v": op.value,
            "m": op.module,
            "s": short(op.source),
            "d": op.delegate,
            "c": op.counts and op.delegate is None,
            "r": op.reason,
            "f": fixes.get(op.name, ""),
        }
        ops.append({key: value for key, value in entry.items() if value or (key == "d" and value is not None)})
    return ops


def _for_script(data: Any) -> str:
    """JSON that no text in it can end the script element of."""
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def _number(value: float) -> str:
    return "exact" if value == math.inf else f"{value:.3g}"


def model_explorer(report: Report) -> dict[str, Any]:
    """The graphs before and after as a graph collection of Google's Model Explorer, to be written as JSON.

    Raises:
        LowerfixError: for a report without placements.
    """
    before, after = report.placements
    fixes = {finding.node: finding.fix for finding in report.of(Outcome.LEFT)}
    graphs = [
        {"id": name, "nodes": [_node(op, fixes if name == "with lowerfix" else {}) for op in placement.ops]}
        for name, placement in (("stock", before), ("with lowerfix", after))
    ]
    return {"label": f"lowerfix, {report.target}", "graphs": graphs}


def _node(op: Op, fixes: dict[str, str]) -> dict[str, Any]:
    where = "" if not op.counts else "CPU" if op.delegate is None else f"delegate {op.delegate}"
    facts = {"runs in": where, "source": op.source, "reason": op.reason, "next step": fixes.get(op.name, "")}
    node: dict[str, Any] = {
        "id": op.name,
        "label": op.op,
        "namespace": op.module.replace(".", "/"),
        "attrs": [{"key": key, "value": value} for key, value in facts.items() if value],
        "incomingEdges": [
            {"sourceNodeId": name, "sourceNodeOutputId": "0", "targetNodeInputId": str(number)}
            for number, name in enumerate(op.inputs)
        ],
        "outputsMetadata": [{"id": "0", "attrs": [{"key": "tensor_shape", "value": op.value}]}] if op.value else [],
    }
    if op.delegate is not None:
        node["style"] = {"backgroundColor": _colour(op.delegate)}
    elif op.counts:
        node["style"] = {"backgroundColor": "#f4b4ae", "borderColor": "#c0271a"}
    return node


def _colour(delegate: int) -> str:
    """A light colour for a delegate; neighbouring numbers get distant ones."""
    hue = (150 + 137.5 * delegate) % 360 / 60
    low, high = 190, 235
    middle = round(low + (high - low) * (1 - abs(hue % 2 - 1)))
    red, green, blue = (
        (high, middle, low),
        (middle, high, low),
        (low, high, middle),
        (low, middle, high),
        (middle, low, high),
        (high, low, middle),
    )[int(hue)]
    return f"#{red:02x}{green:02x}{blue:02x}"
