"""Measure what ``lowerfix.explain`` costs, against the to_edge and the partitioning that it cannot do without.

It has to make the Edge program and to run the backend's partitioner twice, of the program as it is and as lowerfix
rewrites it; for Ethos-U85 it has to quantize both as well. That is measured by itself, with the partitioner as it is in
ExecuTorch. Then comes ``explain``: with an empty cache, when the backend has to be asked what it takes, and with the
answers known. Seconds are the process's CPU time with one thread, the least of a few runs.

Exits 1 unless ``explain`` with the answers known takes at most 1.3 times as long, for each model and target.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from seed import Blocks

import lowerfix
from lowerfix import demo_model, lowering, pipeline, targets
from lowerfix.testing import export

MOST = 1.3
BLOCKS = 20


def to_edge_and_partition(program: Any, target: str) -> None:
    """What nobody can do without: the Edge program, and the partitioner's answer."""
    from executorch.exir import EdgeCompileConfig

    config = EdgeCompileConfig(_check_ir_validity=False)
    lowering.at_partitioner(program, target, lambda edge, partition: partition(edge), config)


def seconds(work: Callable[[], object], runs: int) -> float:
    """The least CPU time of a few runs."""
    taken = []
    for _ in range(runs):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def measure(model: Any, inputs: tuple[Any, ...], target: str, runs: int) -> tuple[float, float, float]:
    """Seconds of what has to be done, of ``explain`` at first, and with the answers known."""
    program = export(model, inputs)
    to_edge_and_partition(lowering.quantize(program, target, [inputs]) if _int8(target) else program, target)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["LOWERFIX_CACHE_DIR"] = cache
        pipeline.oracle_for.cache_clear()
        first = seconds(lambda: lowerfix.explain(program, target=target), 1)
        rewritten = lowerfix.apply(program, target=target)

        def needed() -> None:
            for one in (program, rewritten):
                to_edge_and_partition(lowering.quantize(one, target, [inputs]) if _int8(target) else one, target)

        return seconds(needed, runs), first, seconds(lambda: lowerfix.explain(program, target=target), runs)


def _int8(target: str) -> bool:
    return targets.get(target).quantized


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="*", default=["vgf", "xnnpack", "ethos-u85"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="blocks of the chain, VGF alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases: list[tuple[str, Any, tuple[Any, ...], str]] = [
        ("demo model", demo_model.RobotPolicy(), demo_model.example_inputs(), target) for target in options.targets
    ]
    if "vgf" in options.targets:
        cases.append((f"chain of {options.blocks} blocks", Blocks(options.blocks), (torch.randn(1, 32),), "vgf"))
    table = Table(title="explain, against the to_edge and partitioning it has to run anyway")
    for heading in ("Model", "Target", "Needed, s", "explain, s", "Ratio", "The first time, s"):
        table.add_column(heading, justify="left" if heading in ("Model", "Target") else "right")
    worst = 0.0
    for name, model, inputs, target in cases:
        needed, first, known = measure(model, inputs, target, options.runs)
        worst = max(worst, known / needed)
        table.add_row(name, target, f"{needed:.2f}", f"{known:.2f}", f"{known / needed:.2f}", f"{first:.2f}")
    Console(width=120).print(table)
    print(f"largest ratio {worst:.2f}, at most {MOST} wanted")
    return 0 if worst <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
