"""The HTML page: it needs nothing else, and what it draws can be searched, opened and read, in a real browser."""

from __future__ import annotations

import html.parser
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lowerfix.errors import LowerfixError
from lowerfix.placement import Comparison, Op, Placement, Verified
from lowerfix.report import Finding, Outcome, Report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def chain(blocks: int, refused: bool) -> Placement:
    """Blocks of five ops in modules of modules; the last of each block stays on the CPU, where it is refused."""
    ops = [Op("x", "input", counts=False)]
    before, delegate = "x", 0
    for number in range(blocks):
        module = f"encoder.layers.{number}.attention"
        for index in range(5):
            name = f"op_{number}_{index}"
            left = refused and index == 4
            ops.append(
                Op(
                    name,
                    "aten.atan2.default" if index == 4 else "aten.mul.Tensor",
                    (before,),
                    "float32[1, 8]",
                    module,
                    f"model.py:{number}",
                    None if left else delegate,
                    True,
                    "no <form> of it</script>" if left else "",
                )
            )
            before = name
        delegate += refused
    ops.append(Op("output", "output", (before,), counts=False))
    return Placement.of(ops)


def report(blocks: int = 3) -> Report:
    before, after = chain(blocks, True), chain(blocks, True)
    node = "op_1_4"
    what = ("", node, "aten.atan2.default", Outcome.LEFT, "no <form>", "model.py:1")
    finding = Finding(*what, fix="do & see", help="invalid-dtype", saves=2)
    made = Report([finding], target="vgf", before=before, after=after)
    made.verified = Verified((Comparison("0", 0.0, 0.0, float("inf"), 1.0),), drift="mish (a < b)")
    return made


class Links(html.parser.HTMLParser):
    """Whatever a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [
            f"{tag} {name}={value}" for name, value in attributes if name in ("src", "href", "srcset", "data")
        ]
        if tag == "link":
            self.found.append(tag)


def test_the_page_needs_nothing_else_and_text_cannot_break_it() -> None:
    text = report().to_html()
    links = Links()
    links.feed(text)
    assert links.found == []
    for loader in ("@import", "url(", "fetch(", "import(", "XMLHttpRequest"):
        assert loader not in text
    assert text.count("</script>") == 2
    assert "no &lt;form&gt;" in text
    assert "do &amp; see" in text
    assert "costs 2 delegates" in text
    assert "docs/troubleshooting.md#invalid-dtype" in text
    assert "mish (a &lt; b)" in text
    assert "exact" in text


def test_a_report_without_placements_has_no_page() -> None:
    for call in (Report().to_html, Report().model_explorer):
        with pytest.raises(LowerfixError, match=r"lowerfix\.explain makes one"):
            call()


def test_a_report_without_the_graph_has_a_page_of_findings() -> None:
    loaded = Report.from_json(report().to_json())
    assert "<svg" not in loaded.to_html()
    assert "<svg" in Report.from_json(report().to_json(graph=True)).to_html()


def test_model_explorer_gets_its_own_format() -> None:
    collection = json.loads(json.dumps(report().model_explorer()))
    assert [graph["id"] for graph in collection["graphs"]] == ["stock", "with lowerfix"]
    node = next(node for node in collection["graphs"][1]["nodes"] if node["id"] == "op_1_4")
    assert node["label"] == "aten.atan2.default"
    assert node["namespace"] == "encoder/layers/1/attention"
    assert node["incomingEdges"] == [{"sourceNodeId": "op_1_3", "sourceNodeOutputId": "0", "targetNodeInputId": "0"}]
    assert {"key": "next step", "value": "do & see"} in node["attrs"]
    assert {"key": "runs in", "value": "CPU"} in node["attrs"]
    colours = {node.get("style", {}).get("backgroundColor") for node in collection["graphs"][1]["nodes"]}
    assert len(colours) == 5  # none, the CPU, and three delegates
    builder = pytest.importorskip("model_explorer.graph_builder")
    for graph in collection["graphs"]:
        for node in graph["nodes"]:
            builder.GraphNode(**node)
        builder.Graph(**graph)


class Browser:
    """A page in headless Chromium, driven through the pipe of its DevTools protocol."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, from_: int, page: Path) -> None:
        self.process, self.to, self.number, self.rest = process, to, 0, b""
        self.from_ = from_
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.send("Network.enable")
        self.send("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.send("Page.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=1400, height=1000, deviceScaleFactor=1, mobile=False)
        self.send("Page.navigate", url=page.as_uri())
        for _ in range(300):
            if self.js("document.readyState === 'complete' && typeof graphs !== 'undefined'"):
                return
            time.sleep(0.1)
        raise AssertionError("the page was not ready in 30 s")

    session = ""

    def send(self, method: str, **parameters: Any) -> Any:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = os.read(self.from_, 1 << 16)
                assert part, "Chromium is gone"
                self.rest += part
            line, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(line)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def js(self, code: str) -> Any:
        """What an expression is in the page."""
        answer = self.send("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def at(self, code: str) -> tuple[float, float]:
        """The middle of an element, once it is in sight."""
        element = f"const e = {code}; if (!e.ownerSVGElement) e.scrollIntoView({{block: 'center'}});"
        middle = "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2];"
        x, y = self.js(f"(() => {{ {element} {middle} }})()")
        return x, y

    def click(self, code: str) -> None:
        x, y = self.at(code)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)


@contextmanager
def opened(made: Report, folder: Path) -> Iterator[Browser]:
    page = folder / "report.html"
    page.write_text(made.to_html())
    assert CHROMIUM is not None
    read_by_browser, to = os.pipe()
    from_, written_by_browser = os.pipe()

    def pipes() -> None:
        read, written = os.dup(read_by_browser), os.dup(written_by_browser)
        os.dup2(read, 3)
        os.dup2(written, 4)

    process = subprocess.Popen(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}/p",
        ],
        preexec_fn=pipes,
        close_fds=False,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    os.close(read_by_browser)
    os.close(written_by_browser)
    try:
        yield Browser(process, to, from_, page)
    finally:
        process.kill()
        process.wait()
        os.close(to)
        os.close(from_)


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@needs_chromium
def test_the_graph_is_drawn_searched_opened_and_explained(tmp_path: Path) -> None:
    with opened(report(), tmp_path) as browser:
        count = "document.querySelectorAll('#after .op').length"
        assert browser.js(count) == 17
        assert browser.js("document.querySelectorAll('#after .op.cpu').length") == 3
        fills = browser.js(
            "new Set([...document.querySelectorAll('#after .op:not(.cpu) rect')].map(r => r.getAttribute('fill'))).size"
        )
        assert fills == 4  # three delegates, and the input and the output
        assert browser.js("document.querySelectorAll('#after .edge').length") == 16
        browser.js("document.getElementById('find').value = 'op_2_4'")
        browser.js("document.getElementById('find').dispatchEvent(new Event('input'))")
        assert browser.js("document.getElementById('found').textContent") == "1 and 1 found"
        assert browser.js("document.querySelectorAll('#after .hit').length") == 1
        browser.click("document.querySelector('#findings tr[data-node]')")
        assert browser.js("document.querySelector('#after .hit').dataset.key") == "op 10"
        x, y = browser.at("document.querySelector('#after .hit rect')")
        browser.mouse("mouseMoved", x, y)
        text = browser.js("document.getElementById('tip').innerText")
        for words in (
            "aten.atan2.default",
            "model.py:1",
            "on the CPU",
            "no <form> of it</script>",
            "Next step: do & see",
        ):
            assert words in text
        assert browser.js("document.querySelectorAll('#after .edge.near').length") == 2
        browser.js("document.getElementById('close').click()")
        assert browser.js("document.querySelectorAll('#after .module').length") == 1
        assert browser.js("document.querySelector('#after .module').classList.contains('mixed')")
        assert "3 on the CPU" in browser.js("document.querySelector('#after .module').textContent")
        browser.click("document.querySelector('#after .module rect')")
        assert browser.js("[...document.querySelectorAll('#after .frame text')].map(t => t.textContent)") == [
            "− encoder"
        ]
        browser.click("document.querySelector('#after .frame text')")
        assert browser.js("document.querySelectorAll('#after .frame').length") == 0
        scale = "graphs[1].scale"
        x, y = browser.at("document.getElementById('after')")
        first = browser.js(scale)
        browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
        assert browser.js(scale) > first
        place = browser.js("graphs[1].x")
        browser.mouse("mousePressed", x, y, button="left", clickCount=1)
        browser.mouse("mouseMoved", x + 50, y + 10, button="left", buttons=1)
        browser.mouse("mouseReleased", x + 50, y + 10, button="left", clickCount=1)
        assert browser.js("graphs[1].x") == pytest.approx(place + 50)


@needs_chromium
def test_five_thousand_ops_stay_readable(tmp_path: Path) -> None:
    with opened(report(blocks=1000), tmp_path) as browser:
        assert browser.js("DATA.after.length") == 5002
        assert browser.js("document.querySelectorAll('#after .op, #after .module').length") <= 80
        start = time.perf_counter()
        browser.js("document.getElementById('next').click()")
        assert browser.js("document.querySelectorAll('#after .op.cpu.hit').length") == 1
        assert time.perf_counter() - start < 10
        start = time.perf_counter()
        browser.js("document.getElementById('open').click()")
        assert browser.js("document.querySelectorAll('#after .op').length") == 5002
        assert time.perf_counter() - start < 30


@needs_chromium
def test_five_thousand_ops_without_modules_are_bundled(tmp_path: Path) -> None:
    ops = [Op("x", "input", counts=False)]
    ops += [Op(f"n{i}", "aten.mul.Tensor", (ops[-1].name if not i else f"n{i - 1}",), delegate=0) for i in range(5000)]
    placement = Placement.of(ops)
    with opened(Report([], target="vgf", before=placement, after=placement), tmp_path) as browser:
        assert browser.js("document.querySelectorAll('#after .module').length") == 1
