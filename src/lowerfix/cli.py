"""The command line. Only typer is imported here; the commands import for themselves what takes seconds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lowerfix.errors import LowerfixError

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


def main() -> None:
    """The `lowerfix` command: an error of lowerfix is one message and exit code 2, not a traceback."""
    try:
        app()
    except LowerfixError as error:
        typer.secho(f"Error: {error}", fg=typer.colors.RED, err=True)
        sys.exit(2)
