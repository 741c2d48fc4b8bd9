"""What a command shows while it works, and where the output of the tools that it calls goes.

Vela, PyTorch and ExecuTorch print a lot, from C++ and from other processes too. While a command works, all of that goes
to a log file, which is kept, and named, only where something goes wrong.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from lowerfix import lowering
from lowerfix.advice import leads
from lowerfix.errors import LowerfixError, first_line

Say = Callable[[str], None]


class Failed(LowerfixError):
    """An error of the tools, in one line that names the log file."""


@contextmanager
def working(log: Path | None = None, debug: bool = False) -> Iterator[Say]:
    """Show the stages on the terminal, and send what tools print to a log file.

    Yields a function to be called with the name of each stage. Without a terminal, nothing is shown.

    Args:
        log: the log file, which is then kept; else a temporary one.
        debug: let exceptions through as they are.

    Raises:
        Failed: for every exception that is not one of lowerfix.
    """
    kept = log is not None
    try:
        descriptor, name = (
            (os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), str(log))
            if log
            else tempfile.mkstemp(prefix="lowerfix-", suffix=".log")
        )
    except OSError as error:
        raise LowerfixError(f"log file {str(log)!r} cannot be written: {error.strerror or error}") from error
    try:
        with os.fdopen(descriptor, "w") as file, _redirected(descriptor) as terminal, _stages(terminal) as say:
            lowering.transcript = file
            try:
                with (
                    redirect_stdout(file),
                    redirect_stderr(file),
                ):  # where they are not the descriptors, as in a notebook
                    yield say
            except Exception:
                traceback.print_exc(file=file)
                raise
            finally:
                lowering.transcript = None
    except LowerfixError:
        raise
    except Exception as error:
        if debug:
            raise
        kept = True
        reason = first_line(error)
        raise Failed(f"{reason}{leads(reason)}. The output of the tools is in {name}") from error
    finally:
        if not kept:
            Path(name).unlink(missing_ok=True)


@contextmanager
def _redirected(descriptor: int) -> Iterator[int]:
    """Send what is printed to another file; yields a descriptor of what was the standard error."""
    sys.stdout.flush()
    sys.stderr.flush()
    originals = [os.dup(1), os.dup(2)]
    try:
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        yield originals[1]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, original in zip((1, 2), originals, strict=True):
            os.dup2(original, number)
            os.close(original)


@contextmanager
def _stages(descriptor: int) -> Iterator[Say]:
    with os.fdopen(os.dup(descriptor), "w") as file:
        console = Console(file=file)
        if not console.is_terminal:
            yield lambda stage: None
            return
        columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            running: list[TaskID] = []

            def say(stage: str) -> None:
                finish()
                running.append(progress.add_task(stage, total=1))

            def finish() -> None:
                if running:
                    progress.update(running[-1], completed=1)

            yield say
            finish()
