"""Write down what each pass does to a graph: before, after, and the difference."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from torch.fx import Graph

from lowerfix import files
from lowerfix.program import Program, described
from lowerfix.source import op_name, source_line

if TYPE_CHECKING:
    from lowerfix.base import Pass
    from lowerfix.pipeline import Callback


class Dump:
    """A pipeline's callback that writes files for each pass that changes something.

    They are called ``01-mish.before.txt``, ``01-mish.after.txt`` and ``01-mish.diff``; the numbers go on from those
    that are in the folder already, so that a program may be dumped before and after it is quantized.

    Args:
        folder: where the files go.
        then: another callback.
    """

    def __init__(self, folder: str | Path, then: Callback | None = None) -> None:
        self.folder = Path(folder)
        files.check_writable(self.folder / "1")
        self.then = then
        self._program: Program | None = None
        self._text = ""

    def __call__(self, before: Pass | None, program: Program, after: Pass | None) -> None:
        text = listing(program.graph)
        if before is not None and program is self._program and text != self._text:
            self._write(before.id, self._text, text)
        self._program, self._text = program, text
        if self.then is not None:
            self.then(before, program, after)

    def _write(self, pass_id: str, before: str, after: str) -> None:
        numbers = (re.match(r"(\d+)-", path.name) for path in self.folder.glob("*.diff"))
        number = 1 + max((int(found[1]) for found in numbers if found), default=0)
        name = f"{number:02d}-{pass_id}"
        lines = difflib.unified_diff(
            before.splitlines(True), after.splitlines(True), f"before {pass_id}", f"after {pass_id}"
        )
        files.write(self.folder / f"{name}.before.txt", before)
        files.write(self.folder / f"{name}.after.txt", after)
        files.write(self.folder / f"{name}.diff", "".join(lines))


def listing(graph: Graph) -> str:
    """A graph as text, a line for each node: name, dtype and shape, op and arguments, the user's source line."""
    lines = []
    for node in graph.nodes:
        values = described(node)
        what = f"{node.op} {node.target}" if node.op in ("placeholder", "get_attr", "output") else op_name(node.target)
        if node.op not in ("placeholder", "get_attr"):
            keywords = [f"{key}={value}" for key, value in node.kwargs.items()]
            what += f"({', '.join([*map(str, node.args), *keywords])})"
        place = source_line(node)
        lines.append(f"{node.name}{': ' + values if values else ''} = {what}{'  # ' + place if place else ''}\n")
    return "".join(lines)
