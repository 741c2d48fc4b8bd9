"""The command line. Only typer is imported here; the commands import for themselves what takes seconds.

Exit codes: 0 where all went well, 1 where ops are left on the CPU under ``--strict`` or more than in the baseline, 2
for wrong usage and for errors, 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lowerfix.errors import LowerfixError, first_line

app = typer.Typer(
    help="Rewrite a torch.export program so that ExecuTorch hands the whole model to the accelerator.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help needs no part of rich, and is there at once
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"lowerfix {version('lowerfix')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of all commands."""


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A .pt2 file that torch.export.save wrote, or module:factory: a function that returns "
        "(model, example_inputs) or (model, example_inputs, calibration_inputs).",
    ),
]
OneTarget = Annotated[str, typer.Option("--target", "-t", help="The target; 'lowerfix targets' lists them.")]
Skip = Annotated[list[str] | None, typer.Option(help="A pass to leave out; may be given more than once.")]
Only = Annotated[list[str] | None, typer.Option(help="A pass to run, and no others; may be given more than once.")]
Allow = Annotated[list[str] | None, typer.Option(help="A pass that has to be allowed; may be given more than once.")]
Promise = Annotated[
    list[str] | None, typer.Option(help="SITE=VALUE, as in 'x[keep]=all-true'; may be given more than once.")
]
Promises = Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file of promises.")]
DumpTo = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Write the graph before and after each pass, and a diff."),
]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - prints it.")]
Log = Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the output of the tools in this file.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 if ops are left on the CPU.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Calibration = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Inputs to quantize with: a list of tuples of arguments, by torch.save."),
]


@app.command()
def explain(
    model: Model,
    target: OneTarget,
    skip: Skip = None,
    only: Only = None,
    allow: Allow = None,
    promise: Promise = None,
    promises: Promises = None,
    calibration: Calibration = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one HTML page, with the graph drawn.")
    ] = None,
    model_explorer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the graphs for Google's Model Explorer.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Execute what is lowered here, and each rewrite; compare with eager.")
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An earlier JSON report; exit with 1 if it is worse now."),
    ] = None,
    json: Json = None,
    dump: DumpTo = None,
    log: Log = None,
    strict: Strict = False,
    debug: Debug = False,
) -> None:
    """Say which ops stay on the CPU, why, from which line, what lowerfix would do, and what is left for you to do."""
    commands, options = _prepared(model, target, skip, only, allow, promise, promises, json, dump, log, strict, debug)
    raise typer.Exit(commands.explain(options, calibration, baseline, verify, html, model_explorer))


@app.command()
def apply(
    model: Model,
    target: OneTarget,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the rewritten program goes, a .pt2 file.")],
    skip: Skip = None,
    only: Only = None,
    allow: Allow = None,
    promise: Promise = None,
    promises: Promises = None,
    json: Json = None,
    dump: DumpTo = None,
    log: Log = None,
    debug: Debug = False,
) -> None:
    """Rewrite a program. For an int8 target, quantize the result and apply it again, or use 'lowerfix lower'."""
    commands, options = _prepared(model, target, skip, only, allow, promise, promises, json, dump, log, False, debug)
    raise typer.Exit(commands.apply(options, output))


@app.command()
def lower(
    model: Model,
    target: OneTarget,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the lowered program goes, a .pte file.")],
    skip: Skip = None,
    only: Only = None,
    allow: Allow = None,
    promise: Promise = None,
    promises: Promises = None,
    calibration: Calibration = None,
    json: Json = None,
    dump: DumpTo = None,
    log: Log = None,
    strict: Strict = False,
    debug: Debug = False,
) -> None:
    """Rewrite a program, quantize it where the target needs that, and lower it to a .pte file for the device."""
    commands, options = _prepared(model, target, skip, only, allow, promise, promises, json, dump, log, strict, debug)
    raise typer.Exit(commands.lower(options, output, calibration))


def _prepared(
    model: str,
    target: str,
    skip: list[str] | None,
    only: list[str] | None,
    allow: list[str] | None,
    promise: list[str] | None,
    promises: Path | None,
    json: Path | None,
    dump: Path | None,
    log: Path | None,
    strict: bool,
    debug: bool,
) -> tuple[Any, Any]:
    """The module of the commands and their options; an unknown target is told at once, before torch is imported."""
    from lowerfix import targets

    name = targets.get(target).name
    from lowerfix import commands

    made = commands.promises_of(promise or (), promises)
    options = commands.Options(model, name, skip or [], only, allow or [], made, json, dump, log, strict, debug)
    return commands, options


@app.command("passes")
def list_passes(
    identifier: Annotated[str | None, typer.Argument(metavar="[PASS]", help="Show this one.")] = None,
) -> None:
    """List the passes, or show what one does."""
    from lowerfix import commands

    raise typer.Exit(commands.passes(identifier))


@app.command("targets")
def list_targets() -> None:
    """List the targets, and what is missing on this machine for each."""
    from rich.console import Console
    from rich.table import Table

    from lowerfix import targets

    table = Table()
    for heading in ("Target", "Stands for", "Numbers", "On this machine"):
        table.add_column(heading, no_wrap=heading == "Target")
    for name in targets.names():
        try:
            target = targets.get(name)
            alias = target.name if target.name != name else ""
            table.add_row(name, alias, "int8 only" if target.quantized else "float", _state(target))
        except LowerfixError as error:
            table.add_row(name, "", "", f"[red]{error}[/red]")
    Console().print(table)


def _state(target: object) -> str:
    from lowerfix.targets import Target

    assert isinstance(target, Target)
    try:
        target.check_installed()
        target.check_installed(compile=True)
    except LowerfixError as error:
        return f"[yellow]{error}[/yellow]"
    return "[green]ready[/green]"


@app.command()
def demo(
    target: Annotated[
        list[str] | None, typer.Option(help="A target; may be given more than once.  [default: ethos-u85, vgf]")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FACTORY",
            help="Lower your own model: a function that returns (model, example_inputs) or "
            "(model, example_inputs, calibration_inputs).",
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Where the .pte files go.")] = Path("demo-output"),
) -> None:
    """Lower a small robot policy, or your own model, by stock ExecuTorch and with lowerfix, and compare."""
    from lowerfix import targets

    # An unknown name is told at once, before torch is imported.
    names = [targets.get(name).name for name in target or ("ethos-u85", "vgf")]
    from lowerfix import demo

    demo.run(names, model, output)


@app.command()
def doctor(
    lower: Annotated[
        bool, typer.Option("--lower", help="Lower a tiny program for each target, to be sure; some seconds each.")
    ] = False,
) -> None:
    """Say what is installed, which targets work on this machine, and what to install."""
    from rich.console import Console

    from lowerfix import doctor

    if not doctor.run(lower, Console()):
        raise typer.Exit(1)


def main() -> None:
    """The `lowerfix` command: an error is one message and exit code 2, not a traceback."""
    debug = "--debug" in sys.argv
    try:
        app()
    except LowerfixError as error:
        if debug:
            raise
        typer.secho(f"Error: {' '.join(str(error).split())}", fg=typer.colors.RED, err=True)
    except Exception as error:
        if debug:
            raise
        message = f"Error: {first_line(error)}. This should not happen; --debug shows the traceback"
        typer.secho(message, fg=typer.colors.RED, err=True)
    sys.exit(2)
