"""The demo: one model, lowered by stock ExecuTorch and with lowerfix, side by side."""

from __future__ import annotations

import copy
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import nn
from torch.export import ExportedProgram

import lowerfix
from lowerfix import files, lowering, report_table, targets
from lowerfix.errors import LowerfixError, first_line
from lowerfix.lowering import Lowered, max_abs_error, signal_to_noise
from lowerfix.report import Report
from lowerfix.screen import Say, working
from lowerfix.subject import Subject, load
from lowerfix.targets import Target

# What fits side by side: three targets, each stock and with lowerfix.
COLUMNS = 6


def checks(subject: Subject) -> Sequence[tuple[Any, ...]]:
    """The inputs that the results are compared on: the reference model is slow, so only a few."""
    return subject.representative[:4]


@dataclass
class Run:
    """One column of the table: a target, with or without lowerfix.

    `lowered` is compiled for the device and `path` its `.pte`. `max_error` and `snr` (dB) compare what the delegates
    computed on this machine with the float model in eager, over the first calibration inputs; `eager_snr` does so for
    the quantized model in eager, so tells what int8 alone costs. `rewrite_seconds` is lowerfix's own time. `error` is
    the first line of what stopped the run.
    """

    target: Target
    with_lowerfix: bool
    lowered: Lowered | None = None
    path: Path | None = None
    max_error: float | None = None
    snr: float | None = None
    eager_snr: float | None = None
    rewrite_seconds: float | None = None
    error: str = ""

    @property
    def side(self) -> str:
        return "lowerfix" if self.with_lowerfix else "stock"


def run(
    targets: Sequence[str] = ("ethos-u85", "vgf"),
    model: str | None = None,
    output: Path = Path("demo-output"),
    console: Console | None = None,
) -> list[Run]:
    """Lower a model for each target, stock and with lowerfix, print what came of it, and write the `.pte` files.

    `model` is `module:factory`, where `factory()` returns `(model, example_inputs)` or `(model, example_inputs,
    calibration_inputs)`; without it the demo's own `RobotPolicy` is taken. The files go to the directory `output`.
    A lowering that fails is shown with its error. Raises `LowerfixError` for an unknown target, a target with
    packages missing, and a `model` that cannot be used.
    """
    chosen = [_installed(name) for name in targets]
    subject = load(model)
    if not isinstance(subject.model, nn.Module):
        raise LowerfixError(f"{model!r} is a program; the demo needs a model, from a factory: module:factory")
    console = console or Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120)
    reports = {target: Report() for target in chosen}
    runs = []
    with working() as say:
        say("exporting")
        with lowering.captured_output(), torch.no_grad():
            # On copies: a call may change the model's buffers.
            reference = [copy.deepcopy(subject.model)(*inputs) for inputs in checks(subject)]
        program = subject.program
        for target, report in reports.items():
            for result in (Run(target, with_lowerfix=False), Run(target, with_lowerfix=True)):
                runs.append(result)
                try:
                    _run(result, program, reference, subject, output, report, say)
                except Exception as error:
                    result.error = first_line(error)

    for start in range(0, len(runs), COLUMNS):
        console.print(_table(runs[start : start + COLUMNS]))
    for target, report in reports.items():
        if len(report):
            _print_findings(console, target, report)
    console.print()
    for result in runs:
        if result.path:
            console.print(f"Wrote {result.path}", soft_wrap=True, highlight=False)
    return runs


def _installed(name: str) -> Target:
    target = targets.get(name)
    target.check_installed(compile=True)
    return target


def _run(
    result: Run, program: ExportedProgram, reference: Any, subject: Subject, output: Path, report: Report, say: Say
) -> None:
    """Fill in `result`, step by step, so that what was measured before an error is kept."""
    target = result.target
    at = f"{target.name}, {result.side}: "

    def rewritten(program: ExportedProgram) -> ExportedProgram:
        if not result.with_lowerfix:
            return program
        say(at + "rewriting")
        start = time.perf_counter()
        with lowering.captured_output():
            program = lowerfix.apply(program, target=target.name, report=report)
        result.rewrite_seconds = (result.rewrite_seconds or 0) + time.perf_counter() - start
        return program

    program = rewritten(program)
    if target.quantized:
        say(at + "quantizing")
        with lowering.captured_output():
            quantizer = target.quantizer()
            if result.with_lowerfix:
                quantizer = lowerfix.wrap_quantizer(quantizer, target=target.name)
        program = lowering.quantize(program, target, subject.representative, quantizer=quantizer)
        with torch.no_grad():
            module = program.module(check_guards=False)
            result.eager_snr = signal_to_noise(reference, [module(*inputs) for inputs in checks(subject)])
        program = rewritten(program)
    say(at + "compiling for the device")
    result.lowered = lowering.lower(program, target, compile=True)
    path = output / f"{subject.name}-{target.name}-{result.side}.pte"
    files.write(path, result.lowered.pte())
    result.path = path
    say(at + "executing on this machine")
    executable = lowering.lower(program, target, compile=False)
    actual = [lowering.execute(executable, inputs) for inputs in checks(subject)]
    result.max_error, result.snr = max_abs_error(reference, actual), signal_to_noise(reference, actual)


def _table(runs: Sequence[Run]) -> Table:
    """A column for each run, since the names of the ops need the height."""
    table = Table("", title="Stock ExecuTorch and lowerfix", show_lines=True)
    for run in runs:
        table.add_column(f"{run.target.name}\n{run.side}", justify="right", overflow="fold")
    for heading, cell in _CELLS.items():
        cells = [cell(run) for run in runs]
        if any(cells):
            table.add_row(heading, *cells)
    return table


def _cpu_ops(lowered: Lowered) -> str:
    left = sum(lowered.cpu_ops.values())
    names = [name if count == 1 else f"{count} × {name}" for name, count in lowered.cpu_ops.items()]
    return "\n".join([f"[yellow]{left}[/yellow]", *names]) if left else "[green]none[/green]"


def _quantize_ops(lowered: Lowered) -> str:
    boundary, inner = lowered.boundary_quantize, lowered.inner_quantize
    return f"{boundary} at the boundary\n{inner} inside" if boundary + inner else ""


def _number(value: float | None, form: str) -> str:
    if value is None:
        return ""
    return "exact" if value == math.inf else format(value, form)


def _of_lowered(cell: Callable[[Lowered], str]) -> Callable[[Run], str]:
    return lambda run: cell(run.lowered) if run.lowered else ""


# Heading -> cell of a run; a row that is empty for all runs is left out.
_CELLS: dict[str, Callable[[Run], str]] = {
    "Delegates": _of_lowered(lambda lowered: str(lowered.delegates)),
    "Ops left on the CPU": _of_lowered(_cpu_ops),
    "Quantize and dequantize on the CPU": _of_lowered(_quantize_ops),
    "Rewriting, s": lambda run: _number(run.rewrite_seconds, ".1f"),
    "Lowering, s": _of_lowered(lambda lowered: format(lowered.seconds, ".1f")),
    "  of it partitioning": _of_lowered(lambda lowered: format(lowered.partition_seconds, ".3f")),
    "NPU cycles, by Vela, the CPU's work not in it": _of_lowered(
        lambda lowered: f"{lowered.vela.cycles:,d}" if lowered.vela else ""
    ),
    "SRAM by Vela, KiB": _of_lowered(lambda lowered: f"{lowered.vela.sram_kib:.1f}" if lowered.vela else ""),
    "Max error against float eager": lambda run: _number(run.max_error, ".2g"),
    "SNR against float eager, dB": lambda run: _number(run.snr, ".1f"),
    "  of int8 eager, for scale": lambda run: _number(run.eager_snr, ".1f"),
    "Failed": lambda run: f"[red]{escape(run.error)}[/red]" if run.error else "",
}


def _print_findings(console: Console, target: Target, report: Report) -> None:
    """What lowerfix did and did not do for a target."""
    console.print(f"\n[bold]What lowerfix did for {target.name}[/bold]")
    for part in report_table.findings(report):
        console.print(part, highlight=False)
