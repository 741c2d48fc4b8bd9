"""``lowerfix doctor``: what is installed, and which targets work on this machine."""

from __future__ import annotations

import platform
import shutil
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lowerfix import targets
from lowerfix.cache import cache_folder
from lowerfix.errors import LowerfixError, first_line
from lowerfix.targets import Target

PACKAGES = {
    "lowerfix": "",
    "torch": "2.12",
    "executorch": "1.5",
    "torchao": "0.17",
    "ethos-u-vela": "",
    "tosa-tools": "",
    "ai_ml_sdk_model_converter": "",
}
"""Distributions to look at, and the oldest version that lowerfix is made for."""

# A program that the Arm backend looks for on the PATH, by target.
TOOLS = {"vgf": "model-converter"}


def run(lower: bool, console: Console) -> bool:
    """Print what is there; returns whether every target can be used.

    Args:
        lower: lower a tiny program for each target, which tells for sure; some seconds each.
        console: where to print.
    """
    console.print(f"Python {platform.python_version()}, {platform.platform()}", highlight=False)
    table = Table("package", "installed", "")
    for name, oldest in PACKAGES.items():
        found = _version(name)
        note = ""
        if found is None:
            note = f"[yellow]pip install {name}[/yellow]"
        elif oldest and _numbers(found) < _numbers(oldest):
            note = f"[red]too old; pip install '{name}>={oldest}'[/red]"
        table.add_row(name, found or "", note)
    console.print(table)
    cache = cache_folder()
    console.print(f"Answers of the backends are kept in {cache}" if cache else "No cache: LOWERFIX_CACHE=0")
    works = True
    table = Table("target", "on this machine")
    for name in targets.names():
        problem = _problem(name, lower)
        works = works and not problem
        table.add_row(name, f"[yellow]{escape(problem)}[/yellow]" if problem else "[green]ready[/green]")
    console.print(table)
    return works


def _problem(name: str, lower: bool) -> str:
    try:
        target = targets.get(name)
        target.check_installed()
        target.check_installed(compile=True)
        tool = TOOLS.get(target.name)
        if tool and not shutil.which(tool) and not Path(sysconfig.get_path("scripts"), tool).exists():
            return f"the program {tool} is not on the PATH, where ExecuTorch looks for it"
        return _lowered(target) if lower else ""
    except LowerfixError as error:
        return str(error)


def _lowered(target: Target) -> str:
    """Why a tiny program cannot be lowered for a target; empty where it can."""
    import torch

    from lowerfix import lowering

    inputs = (torch.ones(1, 4),)
    try:
        program = torch.export.export(torch.nn.Linear(4, 4).eval(), inputs)
        if target.quantized:
            program = lowering.quantize(program, target, [inputs])
        lowered = lowering.lower(program, target, compile=True)
    except Exception as error:
        return first_line(error)
    return "" if lowered.delegates == 1 else "a Linear layer stays on the CPU"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, ``2.13.0+cpu`` as (2, 13, 0)."""
    parts = text.partition("+")[0].split(".")
    return tuple(int(part) for part in parts if part.isdigit())
