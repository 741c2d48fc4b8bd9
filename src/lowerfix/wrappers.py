"""Drop-in wrappers: the same quantizer or partitioner, with the rewrites done at the hook it already has."""

import copy
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from lowerfix import targets
from lowerfix.api import apply, chosen
from lowerfix.errors import LowerfixError
from lowerfix.oracle import computes, missing_kernel, readable
from lowerfix.partitioning import Plan, fast, plan
from lowerfix.pipeline import Pipeline
from lowerfix.program import draws_random
from lowerfix.report import Finding, Outcome, Report
from lowerfix.rewriting import computing_in_int8
from lowerfix.source import describe, op_name, source_line
from lowerfix.targets import Target

Wrapped = TypeVar("Wrapped")


def wrap_quantizer(
    quantizer: Wrapped,
    *,
    target: str | Target,
    report: Report | None = None,
    pipeline: Pipeline | None = None,
    skip: str | Iterable[str] = (),
    only: str | Iterable[str] | None = None,
    allow: str | Iterable[str] = (),
) -> Wrapped:
    """A copy of a PT2E quantizer that rewrites the model before it is annotated.

    The copy has the class and the attributes of ``quantizer``, which is not changed. ``prepare_pt2e`` calls its
    ``transform_for_annotation``; that is where the rewrites are done, for what a quantizer does not know it does not
    quantize, and after ``convert_pt2e`` it is too late.

    Args:
        quantizer: for example an ``EthosUQuantizer``.
        target: the target that the model is meant for.
        report: a report to fill.
        pipeline, skip, only, allow: the passes to run, as :func:`lowerfix.apply` takes them.

    Raises:
        LowerfixError: for an unknown target or pass, or an object without ``transform_for_annotation``.
    """
    target = targets.get(target)
    passes = chosen(pipeline, skip, only, allow)
    original = _hook(quantizer, "transform_for_annotation", "a PT2E quantizer")

    def transform_for_annotation(model: GraphModule) -> GraphModule:
        with computing_in_int8():  # on a float target too, as VGF
            rewritten = apply(model, target=target, report=report, pipeline=passes)
        result: GraphModule = original(rewritten)
        return result

    wrapped = copy.copy(quantizer)
    wrapped.transform_for_annotation = transform_for_annotation  # type: ignore[attr-defined]
    return wrapped


def wrap_partitioner(
    partitioner: Wrapped,
    *,
    target: str | Target,
    report: Report | None = None,
    pipeline: Pipeline | None = None,
    skip: str | Iterable[str] = (),
    only: str | Iterable[str] | None = None,
    allow: str | Iterable[str] = (),
    groups: bool = False,
) -> Wrapped:
    """A copy of a partitioner that rewrites the program before it is decomposed.

    The copy has the class and the attributes of ``partitioner``, which is not changed.
    ``to_edge_transform_and_lower`` calls its ``transform_for_pre_decomposition``; that is where the rewrites are done.
    Its ``partition`` takes time linear in the size of the graph and finds the same (:mod:`lowerfix.partitioning`).
    Where a report is given, what ``partition`` then leaves on the CPU is added to it, with the backend's reason and
    what that costs in delegates.

    Args:
        partitioner: for example a ``VgfPartitioner``.
        target: the target that the partitioner is for.
        report: a report to fill.
        pipeline, skip, only, allow: the passes to run, as :func:`lowerfix.apply` takes them.
        groups: merge the groups of XNNPACK's partitioner in linear time too, which may find fewer partitions.

    Raises:
        LowerfixError: for an unknown target or pass, or an object without ``transform_for_pre_decomposition``
            (executorch before 1.5). The copy raises it for a program that draws random numbers for which ExecuTorch's
            runtime has no kernel, unless the pass ``no-kernel`` is left out.
    """
    target = targets.get(target)
    passes = chosen(pipeline, skip, only, allow)
    original = _hook(partitioner, "transform_for_pre_decomposition", "a partitioner of executorch 1.5 or later")

    def transform_for_pre_decomposition(program: ExportedProgram) -> ExportedProgram:
        rewritten = apply(program, target=target, report=report, pipeline=passes)
        if "no-kernel" in passes.ids:
            _refuse_random(rewritten)
        result: ExportedProgram = original(rewritten)
        return result

    wrapped = copy.copy(partitioner)
    wrapped.transform_for_pre_decomposition = transform_for_pre_decomposition  # type: ignore[attr-defined]
    if callable(getattr(partitioner, "partition", None)):
        wrapped.partition = _partition(wrapped, target, report, groups)  # type: ignore[attr-defined]
    return wrapped


def _refuse_random(program: ExportedProgram) -> None:
    """Raise for what would die later, in ``to_edge`` or on the device, with an error that names no line."""
    for node in program.graph.nodes:
        if draws_random(node) and missing_kernel(node.target):
            raise LowerfixError(
                f"{describe(node)} draws random numbers, for which ExecuTorch's runtime has no kernel. "
                'allow="random-to-input" makes them an input of the program; skip="no-kernel" lowers it as it is, '
                "for a runtime of your own that has one"
            )


def _partition(
    partitioner: Any, target: Target, report: Report | None, groups: bool
) -> Callable[[ExportedProgram], Any]:
    """The partitioner's own ``partition``, in linear time, which reports what it leaves on the CPU."""
    original = partitioner.partition

    def partition(program: ExportedProgram) -> Any:
        if report is None:
            with fast(groups=groups):
                return original(program)
        with fast(groups=groups), target.rejections() as reasons:
            result = original(program)
        cost = plan(program.graph, lambda node: node.op == "call_function" and "delegation_tag" in node.meta)
        between = set(cost.to_fix)
        for node in program.graph.nodes:
            if node.op == "call_function" and "delegation_tag" not in node.meta and computes(node):
                reason = readable(reasons.get(node.name, target.unexplained))
                reason += _splits(node, cost) if node in between else ""
                report.add(Finding("", node.name, op_name(node.target), Outcome.LEFT, reason, source_line(node)))
        return result

    return partition


def _splits(node: Node, cost: Plan) -> str:
    """What a node that stands between delegates costs in them."""
    op = op_name(node.target)
    fewer = cost.costs.get(op)
    if fewer is None:
        return f"; it is one of {len(cost.to_fix)} ops that stand between delegates"
    return f"; it stands between delegates: were every {op} taken, there would be {fewer} fewer of {cost.delegates}"


def _hook(owner: Any, name: str, kind: str) -> Any:
    hook = getattr(owner, name, None)
    if not callable(hook):
        raise LowerfixError(f"{type(owner).__name__} is not {kind}: it has no {name}")
    return hook
