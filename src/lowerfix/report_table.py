"""A report as tables for the terminal."""

import os
from collections.abc import Callable, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from lowerfix.advice import PAGE
from lowerfix.placement import Placement, Verified
from lowerfix.report import Finding, NextStep, Outcome, Report

_COLOURS = {Outcome.LEFT: "red", Outcome.DECLINED: "yellow", Outcome.DORMANT: "yellow", Outcome.REWRITTEN: "green"}


def table(report: Report) -> RenderableType:
    """What ``rich`` prints of a report: the counts, then the findings, those at several places told once."""
    parts: list[RenderableType] = []
    if report.before is not None and report.after is not None:
        parts.append(_counts(report.target, report.before, report.after))
        if len(report.after.between) > 1:
            parts.append(
                f"{len(report.after.between)} ops stand between delegates; were they all taken, there would be one.\n"
            )
    if report.next_steps:
        parts.append(_next_steps(report.next_steps))
    if report.verified is not None:
        parts += _verified(report.verified)
    parts += findings(report)
    return Group(*parts)


def findings(report: Iterable[Finding]) -> list[RenderableType]:
    """The findings, those that differ only in their place told once."""
    groups: dict[tuple[Outcome, str, str, str, str, str, int], list[str]] = {}
    for f in report:
        key = (f.outcome, f.pass_id, f.op, f.reason, f.fix, f.help, f.saves)
        groups.setdefault(key, []).append(short(f.source))
    parts: list[RenderableType] = []
    for (outcome, pass_id, op, reason, fix, anchor, saves), places in groups.items():
        what = "  ".join(filter(None, (pass_id, op if len(places) == 1 else f"{len(places)} × {op}")))
        cost = f"  [bold]costs {saves} delegate{'' if saves == 1 else 's'}[/bold]" if saves else ""
        parts.append(f"[{_COLOURS[outcome]}]{outcome.value}[/]  {escape(what)}{cost}")
        parts += [_indented(f"[cyan]{escape(place)}[/cyan]") for place in dict.fromkeys(filter(None, places))]
        parts.append(_indented(escape(reason)))
        if fix:
            parts.append(_indented(f"[bold]Next step:[/bold] {escape(fix)}"))
        if anchor:
            parts.append(_indented(f"[dim]{PAGE}#{anchor}[/dim]"))
    return parts


def short(source: str) -> str:
    """A source line, relative to the current directory where that is shorter."""
    return min(source, os.path.relpath(source), key=len) if source.startswith(os.sep) else source


def _counts(target: str, before: Placement, after: Placement) -> Table:
    made = Table("", title=f"What {target} takes", show_lines=True)
    made.add_column("stock", justify="right", overflow="fold")
    made.add_column("with lowerfix", justify="right", overflow="fold")
    rows: dict[str, Callable[[Placement], str]] = {
        "Delegates": lambda place: str(place.delegates),
        "Ops in delegates": lambda place: str(place.delegated_ops),
        "Ops left on the CPU": _left,
        "Quantize and dequantize on the CPU": _quantize,
        "Fails": lambda place: f"[red]{escape(place.error)}[/red]" if place.error else "",
    }
    for heading, cell in rows.items():
        cells = [cell(before), cell(after)]
        if any(cells):
            made.add_row(heading, *cells)
    return made


def _next_steps(steps: Sequence[NextStep]) -> Table:
    """What there is to do, the most worthwhile first."""
    made = Table("what to do", title="Next steps")
    made.add_column("ops", justify="right")
    made.add_column("delegates saved", justify="right")
    for step in steps:
        made.add_row(escape(step.fix), str(step.ops), str(step.saves or ""))
    return made


def _verified(verified: Verified) -> list[RenderableType]:
    """The outputs, and what changed them."""
    made = Table("output", "against eager", title="Numbers")
    for heading in ("max abs error", "max rel error", "SNR, dB", "cosine"):
        made.add_column(heading, justify="right")
    for name, comparisons in (
        ("lowered", verified.lowered),
        ("quantized, in eager", verified.quantized),
        ("drifting rewrite", verified.drifted),
    ):
        for c in comparisons:
            numbers = (f"{c.max_abs:.2g}", f"{c.max_rel:.2g}", f"{c.snr:.1f}", f"{c.cosine:.6f}")
            made.add_row(c.output, name, *numbers)
    parts: list[RenderableType] = [made] if made.row_count else []
    if verified.error:
        parts.append(f"[red]Not executed:[/red] {escape(verified.error)}\n")
    drift = verified.drift or "none"
    parts.append(f"Rewrites that change numbers by more than rounding, the first: {escape(drift)}\n")
    return parts


def _left(place: Placement) -> str:
    names = [name if count == 1 else f"{count} × {name}" for name, count in place.cpu_ops.items()]
    return "\n".join([f"[yellow]{place.left}[/yellow]", *map(escape, names)]) if names else "[green]none[/green]"


def _quantize(place: Placement) -> str:
    boundary, inner = place.boundary_quantize, place.inner_quantize
    return f"{boundary} at the boundary\n{inner} inside" if boundary + inner else ""


def _indented(text: str) -> RenderableType:
    return Padding(text, (0, 0, 0, 4))
