"""``explain``: what would stay on the CPU without lowerfix and with it, why, and what to do; nothing is changed."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_unflatten

from lowerfix import targets
from lowerfix.advice import advise, in_plain_words
from lowerfix.api import apply, not_quantized
from lowerfix.base import Pass
from lowerfix.composites import listed_once
from lowerfix.errors import LowerfixError, first_line
from lowerfix.lowering import at_boundary, at_partitioner, captured_output, execute, lower, quantize
from lowerfix.oracle import DIES, computes, missing_kernel, readable
from lowerfix.partitioning import fast, plan
from lowerfix.pipeline import Callback, Pipeline
from lowerfix.placement import Op, Placement, Verified
from lowerfix.program import Program, Stage, described, dynamic_shape, example, fake_tensors, stage_of, user_inputs
from lowerfix.report import Finding, Outcome, Report
from lowerfix.source import module_path, op_name, origins, source_line
from lowerfix.targets import Target
from lowerfix.verification import Watch, compare, evaluate, fitted, inputs_of, prefixed, unchanged

Calibration = Sequence[tuple[Any, ...]]


def explain(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    *,
    target: str | Target,
    pipeline: Pipeline | None = None,
    skip: str | Iterable[str] = (),
    only: str | Iterable[str] | None = None,
    allow: str | Iterable[str] = (),
    promises: Mapping[str, Any] | None = None,
    guard: str | None = None,
    calibration: Calibration | Mapping[str, Calibration] | None = None,
    verify: Any = None,
    dump: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Tell what the target's installed backend would take of a program, without lowerfix and with it, and why.

    The real partitioner is asked; nothing is compiled, and the program is not changed. For an int8 target a program
    that is not quantized is quantized on the way.

    Args:
        program: what ``torch.export.export`` returns, or a dict by method name.
        target, pipeline, skip, only, allow, promises, guard: as :func:`lowerfix.apply` takes them.
        calibration: tuples of inputs to quantize with, by method name for a dict of programs; where it is left out,
            those that the program was exported with, or zeros. Which ops are taken does not hang on them.
        verify: inputs, as a tuple of arguments, a list of such tuples, or ``True`` for those that the program was
            exported with; by method name for a dict of programs. Then the program is run after each rewrite, and what
            is lowered is executed on this machine, and compared with eager PyTorch: see ``report.verified``. That takes
            much longer.
        dump: a folder for the graph before and after each pass that changes something, as ``apply`` takes it.
        progress: called with the name of each stage as it begins.

    Returns:
        a report with the placement of all ops before and after, what was rewritten, what was declined, what stays on
        the CPU and what to do about it; what costs most delegates comes first.

    Raises:
        LowerfixError: as ``apply`` raises it, and for a program in Edge dialect. What the backend raises is told in the
            report.
    """
    target = targets.get(target)
    target.check_installed()
    programs = dict(program) if isinstance(program, Mapping) else {"": program}
    for name, one in programs.items():
        _check(one, name)
    given = calibration if isinstance(calibration, Mapping) else dict.fromkeys(programs, calibration)
    for data in given.values():
        if data is not None and not (isinstance(data, Sequence) and all(isinstance(one, tuple) for one in data)):
            raise LowerfixError("calibration is a list of tuples of a model's arguments")
    run = _Run(target, Report(target=target.name), progress or (lambda stage: None))
    found = Report()
    inputs = inputs_of(verify, programs) if verify is not None and verify is not False else {}
    watch = Watch(found)
    passes = Pipeline.default() if pipeline is None else pipeline
    if inputs and isinstance(passes, Pipeline):
        passes = passes.with_callback(_both(passes.callback, watch))

    def rewrite(programs: dict[str, ExportedProgram]) -> dict[str, ExportedProgram]:
        result = {}
        with run.stage("rewriting"), captured_output():
            for name, one in programs.items():
                watch.begin(inputs.get(name, ()))
                result[name] = apply(
                    one,
                    target=target,
                    pipeline=passes,
                    skip=skip,
                    only=only,
                    allow=allow,
                    promises=promises,
                    guard=guard,
                    report=found,
                    dump=dump,
                )
        return result

    run.report.before, before = run.place(programs, given, "without lowerfix")
    rewritten = rewrite(programs)
    if found.of(Outcome.REWRITTEN) or target.quantized:
        run.report.after, left = run.place(rewritten, given, "with lowerfix", rewrite)
    else:
        run.report.after, left = run.report.before, before
    if target.quantized:
        found = Report(finding for finding in found if finding.reason != not_quantized(target))
    run.report.before = _dying(run.report.before, found, target, rewritten=True)
    run.report.after = _dying(run.report.after, found, target, rewritten=False)
    run.report.extend(_ranked(left, found, bool(run.report.after.error)))
    if inputs and run.report.after.error:
        run.report.verified = Verified(drift=watch.drift, drifted=watch.drifted, error=run.report.after.error)
    elif inputs:
        run.report.verified = run.verify(programs, inputs, watch)
    return run.report


def _both(first: Callback | None, second: Callback) -> Callback:
    def call(before: Pass | None, program: Program, after: Pass | None) -> None:
        if first is not None:
            first(before, program, after)
        second(before, program, after)

    return call


@dataclasses.dataclass
class _Left:
    """A finding about an op on the CPU, and the names of the nodes of the rewritten program that it came from."""

    finding: Finding
    origins: frozenset[str]
    between: bool


@dataclasses.dataclass
class _Run:
    """One call of ``explain``."""

    target: Target
    report: Report
    progress: Callable[[str], None]
    to_lower: dict[str, ExportedProgram] = dataclasses.field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Tell that a stage begins, and add up its time."""
        self.progress(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.report.seconds[name] = self.report.seconds.get(name, 0.0) + time.perf_counter() - start

    def place(
        self,
        programs: dict[str, ExportedProgram],
        calibration: Mapping[str, Calibration | None],
        name: str,
        rewrite: Callable[[dict[str, ExportedProgram]], dict[str, ExportedProgram]] | None = None,
    ) -> tuple[Placement, list[_Left]]:
        """Where the ops of all methods run, and the findings about those on the CPU."""
        whole = _Method()
        self.to_lower = programs
        try:
            if self.target.quantized and any(stage_of(one.graph) is Stage.FLOAT for one in programs.values()):
                with self.stage(f"{name}: quantizing"):
                    programs = {
                        method: self._quantized(one, calibration.get(method)) for method, one in programs.items()
                    }
                if rewrite is not None:
                    programs = rewrite(programs)
            self.to_lower = programs
            with self.stage(f"{name}: partitioning"):
                for method, one in programs.items():
                    whole.add(_placed(one, self.target, f"{method}/" if method else ""))
        except (OSError, ImportError, MemoryError, LowerfixError):
            raise  # not the backend's word
        except Exception as error:
            return Placement(error=first_line(error)), []
        between = (one.finding.node for one in whole.left if one.between)
        placement = Placement.of(whole.ops, whole.borders, between)
        return dataclasses.replace(placement, error=whole.dies), whole.left

    def verify(
        self, programs: Mapping[str, ExportedProgram], inputs: Mapping[str, list[tuple[Any, ...]]], watch: Watch
    ) -> Verified:
        """Execute the last programs that were placed, and compare them with what was given."""
        found = Verified(drift=watch.drift, drifted=watch.drifted)
        for method, program in programs.items():
            prefix = f"{method}/" if method else ""
            try:
                with self.stage("verifying: eager"):
                    original, last = Program(program), Program(self.to_lower[method])
                    reference = [evaluate(original, given) for given in inputs[method]]
                    if self.target.quantized and original.stage is not last.stage:
                        quantized = compare(reference, [evaluate(last, given) for given in inputs[method]])
                        found = dataclasses.replace(found, quantized=found.quantized + prefixed(prefix, quantized))
                with self.stage("verifying: lowering"):
                    lowered = lower(self.to_lower[method], self.target, compile=False)
                with self.stage("verifying: executing"):
                    actual = []
                    for given in inputs[method]:
                        with unchanged(last):
                            actual.append(list(execute(lowered, tuple(fitted(last, given).values()))))
                compared = prefixed(prefix, compare(reference, actual))
            except (OSError, ImportError, MemoryError):
                raise
            except Exception as error:
                return dataclasses.replace(found, error=f"{prefix}{first_line(error)}")
            found = dataclasses.replace(found, lowered=found.lowered + compared)
        return found

    def _quantized(self, program: ExportedProgram, calibration: Calibration | None) -> ExportedProgram:
        if stage_of(program.graph) is not Stage.FLOAT:
            return program
        inputs = [tuple(one) for one in calibration] if calibration else [_example_inputs(program)]
        return quantize(program, self.target, inputs, dynamic_shapes=_dynamic_shapes(program))


def _check(program: Any, method: str) -> None:
    where = f" for method {method!r}" if method else ""
    if not isinstance(program, ExportedProgram):
        raise LowerfixError(
            f"lowerfix.explain takes what torch.export.export returns, got a {type(program).__name__}{where}. "
            "Next step: torch.export.export(model.eval(), example_inputs)"
        )
    if stage_of(program.graph) is Stage.EDGE:
        raise LowerfixError(
            f"the program{where} is in Edge dialect, where ops are decomposed already. "
            "Next step: explain what torch.export.export returns"
        )


def partitioned(program: ExportedProgram, target: Target) -> tuple[ExportedProgram, dict[str, str]]:
    """The Edge program with the tags of the target's partitioner, and why nodes are refused; nothing is lowered."""
    from executorch.exir import EdgeCompileConfig

    def partition(edge: ExportedProgram, original: Callable[[ExportedProgram], Any]) -> Any:
        with target.rejections() as reasons:
            original(edge)
        return edge, reasons

    config = EdgeCompileConfig(_check_ir_validity=False)
    with torch.no_grad(), listed_once(), fast():
        answer: tuple[ExportedProgram, dict[str, str]] = at_partitioner(program, target, partition, config)
    return answer


@dataclasses.dataclass
class _Method:
    """What the partitioner makes of one method.

    ``borders`` names the quantize ops next to an input or output. ``dies`` says of what the preprocess will die.
    """

    ops: list[Op] = dataclasses.field(default_factory=list)
    borders: list[str] = dataclasses.field(default_factory=list)
    left: list[_Left] = dataclasses.field(default_factory=list)
    dies: str = ""

    def add(self, other: _Method) -> None:
        """Count another method in."""
        first = 1 + max((op.delegate for op in self.ops if op.delegate is not None), default=-1)
        for op in other.ops:
            self.ops.append(op if op.delegate is None else dataclasses.replace(op, delegate=op.delegate + first))
        self.borders += other.borders
        self.left += other.left
        self.dies = self.dies or other.dies


def _placed(program: ExportedProgram, target: Target, prefix: str) -> _Method:
    """Where the ops of one method run."""
    edge, reasons = partitioned(program, target)
    cost = plan(edge.graph, lambda node: node.op == "call_function" and "delegation_tag" in node.meta)
    between = set(cost.to_fix)
    users = set(edge.graph_signature.user_inputs)
    numbers: dict[str, int] = {}
    method = _Method()
    for node in edge.graph.nodes:
        if node.op == "output" or (node.op == "placeholder" and node.name in users):
            method.ops.append(_op(node, prefix, node.op.replace("placeholder", "input"), users, counts=False))
        if node.op != "call_function":
            continue
        tag = node.meta.get("delegation_tag")
        delegate = None if tag is None else numbers.setdefault(tag, len(numbers))
        # Without a tensor it is arithmetic of sizes.
        counts = computes(node) and any(True for _ in fake_tensors(node))
        name = op_name(node.target)
        reason = ""
        if delegate is None and counts:
            reason = in_plain_words(readable(reasons.get(node.name, target.unexplained)))
            reason += _other_dtypes(node)
            reason += (
                "; the size depends on data" if _unbacked(node) or any(map(_unbacked, node.all_input_nodes)) else ""
            )
            kernel = missing_kernel(node.target)
            reason += f"; and ExecuTorch's runtime has no kernel for {kernel}" if kernel else ""
            saves = cost.costs.get(name, 0) if node in between else 0
            finding = Finding("", prefix + node.name, name, Outcome.LEFT, reason, source_line(node), saves=saves)
            method.left.append(_Left(finding, origins(node), node in between))
        elif delegate is None and "quantize_per" in name and at_boundary(node, edge):
            method.borders.append(prefix + node.name)
        elif delegate is not None and _makes_size(node):
            method.dies = method.dies or f"{name}{_from(source_line(node))}: {_SIZE}"
        method.ops.append(_op(node, prefix, name, users, counts=counts, delegate=delegate, reason=reason))
    return method


_SIZE = (
    "the partitioner takes it, and the lowering dies on it, for the size of its result depends on data; "
    "for x[mask] that is told as: index.Tensor requires index dtype must be int32"
)


def _makes_size(node: Node) -> bool:
    """Whether a node makes a size that depends on data; the partitioner looks at dtypes alone."""
    made = {str(symbol) for symbol in _unbacked(node)}
    return bool(made - {str(symbol) for source in node.all_input_nodes for symbol in _unbacked(source)})


def _unbacked(node: Node) -> set[Any]:
    sizes = (size for tensor in fake_tensors(node) for size in tensor.shape if isinstance(size, torch.SymInt))
    return {symbol for size in sizes for symbol in free_unbacked_symbols(size)}


def _from(source: str) -> str:
    return f" from {source}" if source else ""


def _other_dtypes(node: Node) -> str:
    """The dtypes that a node reads or makes, where some are not usual."""
    found = dict.fromkeys(
        str(tensor.dtype).removeprefix("torch.")
        for one in (*node.all_input_nodes, node)
        for tensor in fake_tensors(one)
    )
    unusual = [dtype for dtype in found if dtype not in _USUAL]
    return f"; here {', '.join(unusual)}" if unusual else ""


_USUAL = ("float32", "int8", "int32", "bool")


def _op(node: Node, prefix: str, name: str, users: set[str], **rest: Any) -> Op:
    read = (n for n in node.all_input_nodes if n.op == "call_function" or n.name in users)
    return Op(
        prefix + node.name,
        name,
        tuple(prefix + n.name for n in read),
        described(node),
        module_path(node),
        source_line(node),
        **rest,
    )


def _ranked(left: list[_Left], found: Report, dying: bool) -> list[Finding]:
    """All findings with what to do about them: what stays on the CPU first, and of that what costs most.

    Args:
        left: what stays.
        found: what the passes said.
        dying: whether the lowering fails.
    """
    wide = {name for finding in found if (name := _widened(finding))}
    keys = {id(one): _keys_of_op(one, wide) for one in left}
    saves: dict[Key, int] = {}
    for one in left:
        for key in keys[id(one)]:
            saves[key] = max(saves.get(key, 0), one.finding.saves)
    advised = []
    offers: dict[Key, dict[str, str]] = {}
    for finding in found:
        about = _keys(finding)
        if finding.outcome is Outcome.LEFT and any(key in saves for key in about):
            continue  # what stays says so itself
        # Not by what is said about a replacement.
        refusal = finding.reason.partition(" does not take the replacement")[0]
        fix, anchor = advise(refusal) if finding.outcome is not Outcome.REWRITTEN else ("", "")
        advised.append(dataclasses.replace(finding, fix=fix, help=anchor))
        if "allow=" in fix or "promises=" in fix:
            for key in about:
                offers.setdefault(key, {}).setdefault(fix, anchor)
    staying = []
    for one in sorted(left, key=lambda one: (-one.finding.saves, not one.between)):
        fix, anchor = advise(one.finding.reason)
        # What a pass offers by name is better than what helps in general.
        offered = {fix: anchor for key in keys[id(one)] for fix, anchor in offers.get(key, {}).items()}
        if offered:
            fix, anchor = " or ".join(offered), next(iter(offered.values()))
        staying.append(dataclasses.replace(one.finding, fix=fix, help=anchor))
    lines = {one.finding.source for one in left}
    others = []
    for finding in advised:
        related = [saves[key] for key in _keys(finding) if key in saves]
        if related and finding.outcome is not Outcome.REWRITTEN:
            others.append(dataclasses.replace(finding, saves=max(related)))
        elif finding.outcome is Outcome.DECLINED and finding.node and finding.source not in lines and not dying:
            # The op is taken in the end, or has gone: there is nothing to do.
            others.append(dataclasses.replace(finding, fix="", help=""))
        else:
            others.append(finding)
    order = list(Outcome)
    others.sort(key=lambda f: (f.outcome is Outcome.REWRITTEN, -f.saves, -order.index(f.outcome)))
    return staying + others


Key = tuple[str, ...]
"""What an op on the CPU and a finding about the rewritten program have in common where they are about the same."""


def _keys(finding: Finding) -> list[Key]:
    keys: list[Key] = [("node", finding.source, finding.node)]
    if finding.source:
        keys.append(("op", finding.source, finding.op))
    if wide := _widened(finding):
        keys.append(("dtype", wide))
    if finding.pass_id == "promised-masks":
        keys.append(("data",))
    return keys


def _keys_of_op(one: _Left, wide: set[str]) -> list[Key]:
    keys: list[Key] = [("node", one.finding.source, name) for name in sorted(one.origins)]
    if one.finding.source:
        keys.append(("op", one.finding.source, one.finding.op))
    keys += [("dtype", name) for name in sorted(wide) if name in one.finding.reason]
    if "depends on data" in one.finding.reason:
        keys.append(("data",))
    return keys


def _widened(finding: Finding) -> str:
    """The dtype that a pass is about: that pass is about all ops that have it."""
    wide, found, _ = finding.pass_id.partition("-to-float32")
    return wide if found else ""


def _dying(placement: Placement, found: Report, target: Target, *, rewritten: bool) -> Placement:
    """A placement with an error where the backend takes an op and its preprocess then dies on it."""
    if placement.error:
        return placement
    said = re.compile(rf"{re.escape(target.name)} does not take it whole \({DIES}: (.*?)\)(?:;|,|$)")
    outcomes = {Outcome.DECLINED, Outcome.DORMANT, *([Outcome.REWRITTEN] if rewritten else [])}
    for finding in found:
        error = said.match(finding.reason)
        if error and finding.outcome in outcomes:
            return dataclasses.replace(placement, error=f"{finding.op}{_from(finding.source)}: {error[1]}")
    return placement


def _example_inputs(program: ExportedProgram) -> tuple[Any, ...]:
    """The arguments that a program was exported with, or zeros."""
    if program.example_inputs is not None:
        arguments, keywords = program.example_inputs
    else:
        values = [example(node.meta["val"]) for node in user_inputs(program)]
        arguments, keywords = tree_unflatten(values, program.call_spec.in_spec)
    if keywords:
        raise LowerfixError(
            "a program that takes keyword arguments cannot be quantized here. "
            "Next step: export it with positional ones, or quantize it first (prepare_pt2e, convert_pt2e, export)"
        )
    return tuple(arguments)


def _dynamic_shapes(program: ExportedProgram) -> Any:
    """The dynamic shapes that a program was exported with, for an export anew; None where it has none."""
    shapes = [dynamic_shape(node.meta["val"]) for node in user_inputs(program)]
    return tree_unflatten(shapes, program.call_spec.in_spec)[0] if any(shapes) else None
