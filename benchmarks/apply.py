"""Measure what ``lowerfix.apply`` costs: seconds and memory, by the size of the graph and for a model of 2 GB.

The graphs are chains of Linear, Mish, indexing and ConvTranspose1d of 1k, 4k and 16k nodes, rewritten for VGF. The
large model has few ops: a token embedding, Linear layers and one ConvTranspose1d, in float32.

Each is measured once, in a process of its own, where a run over a short chain (for the large model, over itself) has
loaded the backend and made its answers known. The large model is measured with an empty cache too: then ``apply`` asks
the backend, which serializes the large weights of what it is asked about.

The seconds are the process's CPU time with one thread, which other work on the machine changes least. The memory is
that of the resident set over what it was before ``apply``: at its peak, and after the result was dropped. A part of the
latter is what Python's allocator holds on to; a second run takes no more.

Exits 1 unless the seconds grow with the nodes by a power of at most 1.15 (a least-squares line through the logarithms)
and, for the large model, ``apply`` takes and keeps at most 100 MB, with the answers known and without.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.export import ExportedProgram

import lowerfix
from lowerfix.report import Outcome

TARGET = "vgf"
SIZES = (1_000, 4_000, 16_000)
LARGEST_EXPONENT = 1.15
MOST_MB = 100.0


class Block(nn.Module):
    """Four ops on ``[1, 8, 16]``; 9 nodes of a graph with the parameters and the index."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.upsample = nn.ConvTranspose1d(8, 8, 3, padding=1)
        self.register_buffer("order", torch.arange(8).roll(number % 4 + 1))

    def forward(self, x: Tensor) -> Tensor:
        order = self.get_buffer("order")
        result: Tensor = self.upsample(F.mish(self.linear(x))[:, order])
        return result


class Large(nn.Module):
    """Token embedding, Linear layers, ConvTranspose1d: 2 GB of weights."""

    def __init__(self, width: int, layers: int, tokens: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))
        self.upsample = nn.ConvTranspose1d(width, width // 16, 4, stride=2)

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.upsample(self.layers(self.embedding(tokens)).transpose(1, 2))
        return result


def chain(nodes: int) -> ExportedProgram:
    model = nn.Sequential(*(Block(number) for number in range(nodes // 9))).eval()
    return torch.export.export(model, (torch.randn(1, 8, 16),))


def large(width: int = 4096, layers: int = 26, tokens: int = 16_384) -> ExportedProgram:
    with torch.device("meta"):  # no time for random numbers
        model = Large(width, layers, tokens)
    model = model.to_empty(device="cpu").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.01)
    return torch.export.export(model, (torch.zeros(1, 32, dtype=torch.int64),))


def resident(field: str) -> float:
    """``VmRSS`` or ``VmHWM`` (its peak) of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) * 1024 / 1e6


def settle() -> float:
    """MB in use, once what is garbage or merely reserved has gone back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident("VmRSS")


def measure(program: ExportedProgram) -> dict[str, Any]:
    nodes = len(program.graph.nodes)
    report = lowerfix.Report()
    before = settle()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    wall, start = time.perf_counter(), time.process_time()
    result = lowerfix.apply(program, target=TARGET, report=report)
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    peak = resident("VmHWM") - before
    del result
    return {
        "nodes": nodes,
        "rewritten": len(report.of(Outcome.REWRITTEN)),
        "weights": sum(tensor.nbytes for tensor in program.state_dict.values()) / 1e6,
        "seconds": seconds,
        "wall": wall,
        "peak": peak,
        "kept": settle() - before,
    }


def measured(*arguments: str, cache: str) -> dict[str, Any]:
    """What ``measure`` returns in a fresh process; ``arguments`` are those of this script."""
    command = [sys.executable, __file__, "--measure", *arguments]
    done = subprocess.run(command, env={**os.environ, "LOWERFIX_CACHE_DIR": cache}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def exponent(runs: list[dict[str, Any]]) -> float:
    """The slope of the least-squares line through log seconds over log nodes."""
    points = [(math.log(run["nodes"]), math.log(run["seconds"])) for run in runs]
    x_mean, y_mean = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    slope: float = sum((x - x_mean) * (y - y_mean) for x, y in points) / sum((x - x_mean) ** 2 for x, _ in points)
    return slope


def measure_here(kind: str, detail: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    if kind == "chain":
        lowerfix.apply(chain(SIZES[0]), target=TARGET)
        return measure(chain(int(detail)))
    program = large()
    # The backend is loaded either way, so that its own code is not counted.
    lowerfix.apply(program if detail == "known" else chain(9), target=TARGET)
    return measure(program)


def table(rows: dict[str, dict[str, Any]]) -> Table:
    result = Table(title=f"lowerfix.apply for {TARGET}")
    for heading in (
        "",
        "nodes",
        "rewritten",
        "weights\nMB",
        "CPU\ns",
        "elapsed\ns",
        "each node\nms",
        "peak\nMB",
        "kept\nMB",
    ):
        result.add_column(heading, justify="right" if heading else "left")
    for name, run in rows.items():
        result.add_row(
            name,
            f"{run['nodes']:,}",
            f"{run['rewritten']:,}",
            f"{run['weights']:,.0f}",
            f"{run['seconds']:.2f}",
            f"{run['wall']:.2f}",
            f"{1e3 * run['seconds'] / run['nodes']:.2f}",
            f"{run['peak']:.0f}",
            f"{run['kept']:.0f}",
        )
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure_here(*arguments.measure)))
        return 0

    with tempfile.TemporaryDirectory() as cache:
        # Asked first: it leaves the answers in the cache.
        asked = measured("large", "asked", cache=cache)
        known = measured("large", "known", cache=cache)
        chains = {f"chain {size:,}": measured("chain", str(size), cache=cache) for size in SIZES}
    power = exponent(list(chains.values()))

    console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120)
    console.print(table({**chains, "2 GB, answers known": known, "2 GB, backend asked": asked}))
    console.print(f"CPU seconds ~ nodes^{power:.2f}", highlight=False)

    broken = []
    # Written so that a NaN fails too.
    if not power <= LARGEST_EXPONENT:
        broken.append(f"the seconds grow with the nodes to the power of {power:.2f}, more than {LARGEST_EXPONENT}")
    for name, run in (("known", known), ("asked for", asked)):
        for what in ("peak", "kept"):
            if not run[what] <= MOST_MB:
                broken.append(f"2 GB, answers {name}: {what} {run[what]:.0f} MB, at most {MOST_MB:.0f} are allowed")
    for line in broken:
        console.print(f"FAILED: {line}", markup=False, highlight=False, soft_wrap=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
