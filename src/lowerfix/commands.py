"""What the commands of the command line do; they print, write files and return the exit code."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import lowerfix
from lowerfix import files, lowering, targets
from lowerfix.errors import LowerfixError
from lowerfix.lowering import Lowered
from lowerfix.program import Stage, stage_of
from lowerfix.report import NotWhole, Report
from lowerfix.report_table import findings
from lowerfix.screen import working
from lowerfix.subject import Subject, check_inputs, load, load_calibration
from lowerfix.targets import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CLEAN, LEFT = 0, 1


@dataclass
class Options:
    """What the commands that work on a model share.

    Attributes:
        model: a ``.pt2`` file or ``module:factory``.
        target: the target's name.
        skip, only, allow: ids of passes.
        promises: as :func:`lowerfix.apply` takes them.
        json: where the report goes; ``-`` for the screen.
        dump: a folder for the graphs before and after each pass.
        log: where the output of the tools goes.
        strict: whether an op on the CPU is a failure.
        debug: whether errors come with their traceback.
    """

    model: str
    target: str
    skip: list[str] = field(default_factory=list)
    only: list[str] | None = None
    allow: list[str] = field(default_factory=list)
    promises: dict[str, Any] = field(default_factory=dict)
    json: Path | None = None
    dump: Path | None = None
    log: Path | None = None
    strict: bool = False
    debug: bool = False

    @property
    def of_apply(self) -> dict[str, Any]:
        """The options of ``lowerfix.apply``."""
        return {
            "skip": self.skip,
            "only": self.only or None,
            "allow": self.allow,
            "promises": self.promises or None,
            "dump": self.dump,
        }

    @property
    def to_screen(self) -> bool:
        """Whether JSON alone is printed."""
        return self.json is not None and str(self.json) == "-"

    def check(self, compile: bool = False, *outputs: Path | None) -> Target:
        """The target, once it is clear that it can be used and that files can be written."""
        target = targets.get(self.target)
        target.check_installed(compile=compile)
        for path in (*outputs, None if self.to_screen else self.json):
            if path is not None:
                files.check_writable(path)
        return target


def explain(
    options: Options,
    calibration: Path | None,
    baseline: Path | None,
    verify: bool,
    html: Path | None,
    model_explorer: Path | None,
) -> int:
    """Say what stays on the CPU and why."""
    target = options.check(False, html, model_explorer)
    old = Report.load(baseline) if baseline else None
    with working(options.log, options.debug) as say:
        say("loading")
        subject = load(options.model)
        data = _calibration(subject, calibration)
        say("exporting")
        report = lowerfix.explain(
            subject.program,
            target=target,
            calibration=data or None,
            verify=(data or subject.representative)[:4] if verify else None,
            progress=say,
            **options.of_apply,
        )
    _show(report, options)
    if html is not None:
        files.write(html, report.to_html())
    if model_explorer is not None:
        files.write(model_explorer, json.dumps(report.model_explorer()))
    worse = report.regressions(old) if old else []
    if worse:
        _complain([f"worse than {baseline}:", *worse])
    if options.strict and not report.whole:
        _complain(_why_not_whole(report))
    return LEFT if worse or (options.strict and not report.whole) else CLEAN


def apply(options: Options, output: Path) -> int:
    """Rewrite a program and write it to a ``.pt2`` file."""
    target = options.check(False, output)
    report = Report(target=target.name)
    with working(options.log, options.debug) as say:
        say("loading")
        subject = load(options.model)
        say("exporting")
        program = subject.program
        say("rewriting")
        with lowering.captured_output():
            program = lowerfix.apply(program, target=target, report=report, **options.of_apply)
            say("writing")
            buffer = io.BytesIO()
            torch.export.save(program, buffer)
    files.write(output, buffer.getvalue())
    _show(report, options)
    _say(f"Wrote {output}", options)
    return CLEAN


def lower(options: Options, output: Path, calibration: Path | None) -> int:
    """Rewrite, quantize where the target needs it, lower, and write the ``.pte`` file."""
    target = options.check(True, output)
    report = Report(target=target.name)
    with working(options.log, options.debug) as say:
        say("loading")
        subject = load(options.model)
        data = _calibration(subject, calibration)
        say("exporting")
        program = subject.program
        if target.quantized and stage_of(program.graph) is Stage.FLOAT and not data:
            raise LowerfixError(
                f"{target.name} computes in int8, so the model has to be quantized, which needs inputs that it will "
                "meet. Next step: --calibration data.pt, a list of tuples of arguments that torch.save wrote, or a "
                "factory that returns (model, example_inputs, calibration_inputs)"
            )
        say("rewriting")
        with lowering.captured_output():
            program = lowerfix.apply(program, target=target, report=report, **options.of_apply)
        if target.quantized and stage_of(program.graph) is Stage.FLOAT:
            say("quantizing")
            program = lowering.quantize(program, target, data)
            say("rewriting")
            with lowering.captured_output():
                program = lowerfix.apply(program, target=target, report=report, **options.of_apply)
        say(f"lowering for {target.name}")
        partitioner = lowerfix.wrap_partitioner(target.partitioner(), target=target, report=report, only=())
        lowered = lowering.lower(program, target, compile=True, partitioner=partitioner)
        say("writing")
        content = lowered.pte()
    files.write(output, content)
    _show(report, options, lowered)
    _say(f"Wrote {output}, {len(content):,d} bytes", options)
    if options.strict and lowered.cpu_ops:
        _complain([f"{sum(lowered.cpu_ops.values())} ops stay on the CPU: {', '.join(lowered.cpu_ops)}"])
        return LEFT
    return CLEAN


def passes(identifier: str | None) -> int:
    """List the passes, or show one."""
    from lowerfix import registry

    console = _console()
    if identifier is not None:
        cls = registry.get(identifier)
        console.print(f"[bold]{cls.id}[/bold]", f"[dim]{sys.modules[cls.__module__].__file__}[/dim]", soft_wrap=True)
        print((sys.modules[cls.__module__].__doc__ or "").strip())
        for heading, text in (
            ("Runs after", ", ".join(cls.after)),
            ("Has to be allowed", cls.opt_in),
            ("Can be retired", cls.retire_when),
        ):
            if text:
                console.print(f"\n[bold]{heading}:[/bold] {escape(text)}", highlight=False)
        return CLEAN
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, cls in registry.all_passes().items():
        title = (sys.modules[cls.__module__].__doc__ or "").partition("\n")[0]
        table.add_row(name, escape(title) + (" [dim]It has to be allowed.[/dim]" if cls.opt_in else ""))
    console.print(table)
    return CLEAN


def promises_of(pairs: Sequence[str], file: Path | None) -> dict[str, Any]:
    """Promises from ``site=value`` pairs and from a TOML file; in the file they may be in a table ``promises``.

    Raises:
        LowerfixError: where they cannot be read.
    """
    promises: dict[str, Any] = {}
    if file is not None:
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise LowerfixError(f"promises {str(file)!r} cannot be read: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise LowerfixError(f"promises {str(file)!r} is not TOML: {error}") from error
        table = content.get("promises", content)
        if not isinstance(table, dict):
            raise LowerfixError(f"promises {str(file)!r} has to have a table of sites: [promises]")
        promises.update(table)
    for pair in pairs:
        site, found, value = pair.rpartition("=")
        if not found or not site:
            raise LowerfixError(f'a promise is "site=value", as in "x[keep]=all-true" or "n.item()=7"; got {pair!r}')
        promises[site.strip()] = int(value) if value.strip().isdecimal() else value.strip()
    return promises


def _calibration(subject: Subject, file: Path | None) -> list[tuple[Any, ...]]:
    data = load_calibration(file) if file is not None else list(subject.calibration)
    check_inputs(subject.program, data)
    return data


def _show(report: Report, options: Options, lowered: Lowered | None = None) -> None:
    """Print a report and write it where it is wanted."""
    if options.to_screen:
        print(report.to_json(), end="")
        return
    if options.json is not None:
        files.write(options.json, report.to_json())
    console = _console()
    if report.after is not None:
        console.print(report.table(), highlight=False)
    else:
        for part in findings(report):
            console.print(part, highlight=False)
    if lowered is not None:
        left = ", ".join(f"{n} × {op}" for op, n in lowered.cpu_ops.items()) or "none"
        console.print(f"\nDelegates: {lowered.delegates}. On the CPU: {left}", highlight=False)
        if lowered.vela:
            console.print(f"Vela expects {lowered.vela.cycles:,d} cycles and {lowered.vela.sram_kib:.1f} KiB of SRAM")


def _why_not_whole(report: Report) -> list[str]:
    try:
        report.assert_whole()
    except NotWhole as error:
        return [str(error).partition("\n")[0]]
    return []


def _say(text: str, options: Options) -> None:
    print(text, file=sys.stderr if options.to_screen else sys.stdout)


def _complain(lines: list[str]) -> None:
    print("\n  ".join(lines), file=sys.stderr)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120)
