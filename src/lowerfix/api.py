"""``apply`` and ``compile_spec``: the calls that users make."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from lowerfix import targets
from lowerfix.dump import Dump
from lowerfix.errors import LowerfixError
from lowerfix.pipeline import Pipeline
from lowerfix.program import Stage, fake_tensors, forget_pending_sizes, stage_of
from lowerfix.report import Finding, Outcome, Report
from lowerfix.return_types import name_return_types
from lowerfix.source import source_line
from lowerfix.targets import Target

OneProgram = TypeVar("OneProgram", ExportedProgram, GraphModule)


@overload
def apply(
    program: OneProgram,
    *,
    target: str | Target,
    pipeline: Pipeline | None = None,
    skip: str | Iterable[str] = (),
    only: str | Iterable[str] | None = None,
    allow: str | Iterable[str] = (),
    promises: Mapping[str, Any] | None = None,
    guard: str | None = None,
    report: Report | None = None,
    dump: str | Path | None = None,
) -> OneProgram: ...
@overload
def apply(
    program: dict[str, ExportedProgram],
    *,
    target: str | Target,
    pipeline: Pipeline | None = None,
    skip: str | Iterable[str] = (),
    only: str | Iterable[str] | None = None,
    allow: str | Iterable[str] = (),
    promises: Mapping[str, Any] | None = None,
    guard: str | None = None,
    report: Report | None = None,
    dump: str | Path | None = None,
) -> dict[str, ExportedProgram]: ...
def apply(
    program: ExportedProgram | GraphModule | dict[str, ExportedProgram],
    *,
    target: str | Target,
    pipeline: Pipeline | None = None,
    skip: str | Iterable[str] = (),
    only: str | Iterable[str] | None = None,
    allow: str | Iterable[str] = (),
    promises: Mapping[str, Any] | None = None,
    guard: str | None = None,
    report: Report | None = None,
    dump: str | Path | None = None,
) -> ExportedProgram | GraphModule | dict[str, ExportedProgram]:
    """Rewrite a program so that the target's installed backend takes more of it, with the same numbers.

    Call it on what ``torch.export.export`` returns, before ``to_edge_transform_and_lower``. For an int8 target call it
    before ``prepare_pt2e`` and again after ``convert_pt2e`` and the export that follows: it sees by itself which of the
    two it was given.

    Args:
        program: an ``ExportedProgram``, a dict of them by method name, or a ``GraphModule`` such as
            ``ExportedProgram.module()`` returns. It is not changed, and its tensors are shared, not copied.
        target: ``"vgf"``, ``"ethos-u85"``, ``"xnnpack"``, ... ; ``lowerfix.targets.names()`` lists them.
        pipeline: the passes to run; all that are known where it is left out.
        skip: ids of passes to leave out.
        only: ids of the passes to run, and no others.
        allow: ids of opt-in passes to run as well: those that change the program's interface, or its numbers by more
            than rounding. What one that is not allowed would do is told in the report.
        promises: what only you can know about a size that depends on data, by its site: ``{"x[keep]": "all-true"}``
            says that the mask on the line that contains ``x[keep]`` is true for every row, whatever the inputs are;
            ``{"n.item()": 7}`` that the number there, or the count of the mask, is 7; ``{"x[keep]": "padded"}`` that
            you take all rows and drop those yourself that the mask, a further output, does not select. A site is a
            piece of the line, ``file.py:line``, or the name of the node, and has to fit one such size of the program.
        guard: how to notice on the device that a promise is broken: ``"output"`` adds what was promised to be true as a
            further output for each promise, ``"poison"`` makes NaN of the rows of floats for which it is not.
        report: a report to fill with what was rewritten, what was not, and why.
        dump: a folder; for each pass that changes something, the graph before, the graph after and the difference are
            written there.

    Returns:
        the rewritten program, of the type that was given.

    Raises:
        LowerfixError: for an unknown target or pass, a missing package, or a program that is not one. Nothing
            half-rewritten is ever returned.
    """
    target = targets.get(target)
    pipeline = chosen(pipeline, skip, only, allow)
    if promises:
        from lowerfix.passes.masks.promised_masks import PromisedMasks

        pipeline = pipeline.with_(PromisedMasks(promises=_promises(promises), guard=guard))
    elif guard is not None:
        raise LowerfixError(f"guard={guard!r} watches over promises, and there are none: give promises={{...}} as well")
    if dump is not None:
        if not isinstance(dump, (str, Path)):
            raise LowerfixError(f"dump is the path of a folder, got {dump!r}")
        pipeline = pipeline.with_callback(Dump(dump, then=pipeline.callback))
    report = Report() if report is None else report
    if not isinstance(report, Report):
        raise LowerfixError(f"report has to be a lowerfix.Report, got a {type(report).__name__}")
    if isinstance(program, dict):
        return {name: _apply(one, target, pipeline, report, name) for name, one in program.items()}  # type: ignore[misc]
    return _apply(program, target, pipeline, report)


def _apply(
    program: ExportedProgram | GraphModule, target: Target, pipeline: Pipeline, report: Report, method: str = ""
) -> ExportedProgram | GraphModule:
    if not isinstance(program, (ExportedProgram, GraphModule)):
        where = f" for method {method!r}" if method else ""
        raise LowerfixError(
            f"lowerfix.apply takes what torch.export.export returns, got a {type(program).__name__}{where}. "
            "Next step: torch.export.export(model.eval(), example_inputs)"
        )
    name_return_types()
    module = program.graph_module if isinstance(program, ExportedProgram) else program
    stage = stage_of(module.graph)
    forget_pending_sizes(module.graph)
    ops = [node for node in module.graph.nodes if node.op.startswith("call_") and node.target != "_guards_fn"]
    exported = any(isinstance(node.target, torch._ops.OperatorBase) for node in ops) or stage is not Stage.FLOAT
    if ops and isinstance(program, GraphModule) and not exported:
        raise LowerfixError(
            "the GraphModule has no ATen ops; torch.fx.symbolic_trace made it, perhaps. "
            "Next step: torch.export.export(model.eval(), example_inputs)"
        )
    if target.quantized and stage is Stage.FLOAT:
        report.add(Finding("", "", "", Outcome.DORMANT, not_quantized(target)))
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            report.add(
                Finding(
                    "",
                    node.name,
                    str(node.target),
                    Outcome.DECLINED,
                    "the body of a control-flow op is left as it is; only the program around it is rewritten",
                    source_line(node),
                )
            )
    result, _ = pipeline.run(program, target, report)
    return result


def compile_spec(
    target: str | Target, program: ExportedProgram | GraphModule | dict[str, ExportedProgram] | None = None
) -> Any:
    """ExecuTorch's compile spec of a target, with the TOSA extensions that a program's dtypes need.

    The default ``VgfCompileSpec()`` has no bfloat16, and leaves what computes in it on the CPU::

        partitioner = VgfPartitioner(lowerfix.compile_spec("vgf", program))

    Args:
        target: as :func:`apply` takes it; ``"vgf+bf16"`` has the extension whatever the program is.
        program: what will be lowered, or a dict by method name.

    Returns:
        a ``VgfCompileSpec``, ``EthosUCompileSpec`` or ``TosaCompileSpec``.

    Raises:
        LowerfixError: for an unknown target, an extension that it cannot have, or a target without a compile spec.
    """
    target = targets.get(target)
    target.check_installed()
    programs = program.values() if isinstance(program, dict) else [] if program is None else [program]
    dtypes = {value.dtype for one in programs for node in one.graph.nodes for value in fake_tensors(node)}
    return target.suited_to(dtypes).compile_spec()


def not_quantized(target: Target) -> str:
    """What ``apply`` says of a float program for a target that computes in int8 only."""
    return (
        f"{target.name} computes in int8 only and this program is not quantized: as it is, all of it stays on the CPU. "
        "Quantize what apply returns (prepare_pt2e, calibrate, convert_pt2e, export), then apply lowerfix again"
    )


def chosen(
    pipeline: Pipeline | None,
    skip: str | Iterable[str] | None,
    only: str | Iterable[str] | None,
    allow: str | Iterable[str] = (),
) -> Pipeline:
    """The passes that ``pipeline=``, ``skip=``, ``only=`` and ``allow=`` leave.

    Raises:
        LowerfixError: for what they cannot be.
    """
    pipeline = Pipeline.default() if pipeline is None else pipeline
    if not isinstance(pipeline, Pipeline):
        raise LowerfixError(f"pipeline has to be a lowerfix.Pipeline, got a {type(pipeline).__name__}")
    pipeline = pipeline.allow(*_ids(allow or (), "allow"))
    if only is not None:
        pipeline = pipeline.only(*_ids(only, "only"))
    return pipeline.without(*_ids(skip or (), "skip"))


def _promises(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(site, str) for site in value):
        raise LowerfixError(f'promises takes a dict such as {{"x[keep]": "all-true"}}, got {value!r}')
    return dict(value)


def _ids(value: str | Iterable[str], option: str) -> tuple[str, ...]:
    ids = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(identifier, str) for identifier in ids):
        raise LowerfixError(f"{option} takes the id of a pass or several, got {value!r}")
    return ids
