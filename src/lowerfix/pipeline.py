"""The order in which passes run, and the loop that runs them until nothing changes."""

import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import networkx as nx
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from lowerfix import registry, targets
from lowerfix.base import Context, Pass
from lowerfix.errors import LowerfixError
from lowerfix.oracle import Oracle, Question
from lowerfix.program import Program, Stage, is_view, mutated_arguments, stage_of, trains_statistics
from lowerfix.report import Finding, Outcome, Report
from lowerfix.rewritepass import RewritePass
from lowerfix.source import op_name, source_line
from lowerfix.targets import Target

ROUNDS = 10
"""A pipeline that still changes the program after so many rounds has passes that undo each other."""

_ONE_AT_A_TIME = threading.RLock()
"""Tracing and ExecuTorch's lowering keep state for the whole process: two threads in them break each other."""

Callback = Callable[[Pass | None, Program, Pass | None], None]


class Pipeline:
    """An immutable sequence of passes.

        pipeline = lowerfix.Pipeline.default().without("mish").with_(MyPass())
        lowerfix.apply(program, target="vgf", pipeline=pipeline)

    Args:
        passes: pass objects or ids, in the order in which they run.
        callback: called as ``callback(before, program, after)`` between passes with the pass that has just run (None
            at the start), the working program, and the pass that runs next (None at the end). For printing, timing and
            viewers; it must not change the program.
        offered: opt-in passes that do not run, and only tell what they would do.

    Raises:
        LowerfixError: for an unknown or repeated id, or an order that breaks a pass's ``after``; every broken pair is
            named.
    """

    def __init__(
        self, passes: Iterable[Pass | str], callback: Callback | None = None, offered: Iterable[Pass | str] = ()
    ) -> None:
        self._passes = tuple(map(_made, passes))
        self._callback = callback
        self._offered = tuple(map(_made, offered))
        self._check_order()

    @classmethod
    def default(cls) -> "Pipeline":
        """Every registered pass but the opt-in ones, which are offered; ordered by their ``after`` and then by id."""
        passes = [registry.get(identifier)() for identifier in _default_order()]
        return cls((p for p in passes if not p.opt_in), offered=(p for p in passes if p.opt_in))

    @property
    def callback(self) -> Callback | None:
        """What is called between passes."""
        return self._callback

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(p.id for p in self._passes)

    def __iter__(self) -> Iterator[Pass]:
        return iter(self._passes)

    def __len__(self) -> int:
        return len(self._passes)

    def __repr__(self) -> str:
        return f"Pipeline({list(self.ids)})"

    def without(self, *ids: str) -> "Pipeline":
        """The same pipeline less some passes."""
        gone = {identifier if identifier in self.ids else registry.get(identifier).id for identifier in ids}
        return self._of((p for p in self._passes if p.id not in gone), (p for p in self._offered if p.id not in gone))

    def only(self, *ids: str) -> "Pipeline":
        """The named passes alone, in this pipeline's order."""
        wanted = {identifier if identifier in self.ids else registry.get(identifier).id for identifier in ids}
        absent = sorted(wanted - set(self.ids))
        if absent:
            opt_in = [p.id for p in self._offered if p.id in absent]
            hint = f"; {', '.join(opt_in)} has to be allowed, by allow=" if opt_in else ""
            raise LowerfixError(f"not in this pipeline: {', '.join(absent)}{hint}; it has {', '.join(self.ids)}")
        return self._of((p for p in self._passes if p.id in wanted), ())

    def with_(self, new: Pass | str) -> "Pipeline":
        """The same pipeline with one pass more, at the end; a pass of the same id is replaced where it stands."""
        added = _made(new)
        offered = [p for p in self._offered if p.id != added.id]
        if added.id in self.ids:
            return self._of((added if p.id == added.id else p for p in self._passes), offered)
        return self._of((*self._passes, added), offered)

    def allow(self, *ids: str) -> "Pipeline":
        """The same pipeline with some opt-in passes, each where the default order has it.

        Raises:
            LowerfixError: for an id that is not an opt-in pass's, with those that are.
        """
        known = {identifier: cls for identifier, cls in registry.all_passes().items() if cls.opt_in}
        passes = list(self._passes)
        rank = {identifier: index for index, identifier in enumerate(_default_order())}
        for identifier in dict.fromkeys(ids):
            if identifier not in known:
                raise LowerfixError(
                    f"{identifier!r} is not an opt-in pass; those that can be allowed are {', '.join(known) or 'none'}"
                )
            if identifier not in (p.id for p in passes):
                later = (n for n, p in enumerate(passes) if rank.get(p.id, len(rank)) > rank[identifier])
                passes.insert(next(later, len(passes)), known[identifier]())
        return self._of(passes, (p for p in self._offered if p.id not in ids))

    def with_callback(self, callback: Callback | None) -> "Pipeline":
        """The same pipeline with another callback."""
        return Pipeline(self._passes, callback, self._offered)

    def _of(self, passes: Iterable[Pass], offered: Iterable[Pass]) -> "Pipeline":
        return Pipeline(passes, self._callback, offered)

    def _check_order(self) -> None:
        position = {identifier: index for index, identifier in enumerate(self.ids)}
        if len(position) != len(self._passes):
            repeated = sorted({identifier for identifier in self.ids if self.ids.count(identifier) > 1})
            raise LowerfixError(f"a pipeline takes a pass once; repeated: {', '.join(repeated)}")
        broken = [
            f"{p.id!r} has to run after {earlier!r}"
            for p in self._passes
            for earlier in p.after
            if earlier in position and position[earlier] > position[p.id]
        ]
        if broken:
            raise LowerfixError("the order of the pipeline is wrong: " + "; ".join(broken))

    def run(
        self, program: ExportedProgram | GraphModule, target: str | Target, report: Report
    ) -> tuple[ExportedProgram | GraphModule, bool]:
        """Run the passes over a clone of ``program`` until nothing changes.

        Returns:
            the rewritten program, and whether anything changed.

        Raises:
            LowerfixError: where a pass fails or leaves something invalid; ``program`` is as it was.
        """
        with _ONE_AT_A_TIME:
            return self._run(program, targets.get(target), report)

    def _run(
        self, program: ExportedProgram | GraphModule, target: Target, report: Report
    ) -> tuple[ExportedProgram | GraphModule, bool]:
        target.check_installed()
        stage = stage_of((program.graph_module if isinstance(program, ExportedProgram) else program).graph)
        if stage is Stage.EDGE:
            for p in self._passes:
                if stage not in p.stages:
                    report.add(Finding(p.id, "", "", Outcome.DORMANT, _TOO_LATE))
            if not any(stage in p.stages for p in self._passes):
                return program, False
        result, modified, declines = self._settled(program, target, report)
        if isinstance(result, ExportedProgram):
            needed = self._need_functional_form(list(result.graph.nodes), target)
            # It makes the in-place ops functional and decomposes nothing; done only where it is needed.
            functional = _functional(result, needed, declines) if needed else None
            if functional is not None:
                result, _, declines = self._settled(functional, target, report)
                modified = True
        report.extend(declines)
        return result, modified

    def _need_functional_form(self, nodes: list[Node], target: Target) -> list[Node]:
        """The nodes that work in place, through a view or on what one of the passes serves in functional form."""
        in_place = [node for node in nodes if mutated_arguments(node)]
        wanted = {node for node in in_place if any(map(is_view, mutated_arguments(node)))}
        wanted.update(filter(trains_statistics, nodes))
        if in_place:
            wanted.update(node for p in self._passes for node in p.wants_functional(in_place, target))
        return [node for node in nodes if node in wanted]

    def _settled(
        self, program: ExportedProgram | GraphModule, target: Target, report: Report
    ) -> tuple[ExportedProgram | GraphModule, bool, list[Finding]]:
        """The program once nothing changes any more, whether anything did, and the declines that stand."""
        working = Program(program)
        rewrites = tuple(p for p in self._passes if isinstance(p, RewritePass))
        context = Context(target, oracle_for(target, working.stage), report, rewrites=rewrites)
        changed: list[str] = []
        for round_ in range(ROUNDS):
            context.declines.clear()  # the last round's are those that stand
            changed = self._round(working, context)
            if not changed:
                self._tell(working, context)
                return working.build(), round_ > 0, context.declines
        raise LowerfixError(f"after {ROUNDS} rounds the program still changes, by {', '.join(changed)}")

    def _round(self, program: Program, context: Context) -> list[str]:
        """Run each pass once; returns the ids of those that changed something."""
        changed = []
        asked = False
        before: Pass | None = None
        for p in (p for p in self._passes if program.stage in p.stages):
            if not p.cleans_up and not asked:
                asked = True
                self._ask_at_once(program, context)
            if self._callback is not None:
                self._callback(before, program, p)
            with _named(p):
                if p.run(program, context):
                    program.check()
                    changed.append(p.id)
                    if not p.cleans_up:
                        self._clean_up(program, context)
                        asked = False
            before = p
        if self._callback is not None:
            self._callback(before, program, None)
        return changed

    def _clean_up(self, program: Program, context: Context) -> None:
        """Fold what a pass has made of weights: as long as it is computed, a backend does not take it for a weight."""
        for p in self._passes:
            if p.cleans_up and program.stage in p.stages:
                with _named(p):
                    if p.run(program, context):
                        program.check()

    def _ask_at_once(self, program: Program, context: Context) -> None:
        """Ask what all passes will want to know, in few probes; each finds its answers in the oracle's memory then."""

        def questions() -> list[Question]:
            found = []
            for p in (p for p in self._passes if program.stage in p.stages):
                with _named(p):
                    found += p.questions(program, context)
            return found

        context.oracle.ask_all(questions)

    def _tell(self, program: Program, context: Context) -> None:
        """Let the passes that are not allowed say what they would do."""
        for p in (p for p in self._offered if program.stage in p.stages):
            with _named(p):
                p.tell(program, context)


def _made(p: Pass | str) -> Pass:
    """A pass object, also by its id."""
    if isinstance(p, Pass):
        return p
    if isinstance(p, str):
        return registry.get(p)()
    raise LowerfixError(f"a pipeline is made of pass objects and ids, got {p!r}")


@contextmanager
def _named(p: Pass) -> Iterator[None]:
    """Let every error that comes out of a pass say which one it was."""
    try:
        yield
    except LowerfixError as error:
        raise LowerfixError(f"pass {p.id!r}: {error}") from error
    except Exception as error:
        raise LowerfixError(f"pass {p.id!r} failed: {type(error).__name__}: {error}") from error


_TOO_LATE = (
    "the program is in Edge dialect, where ops are already decomposed: "
    "apply lowerfix to the exported program, before to_edge or to_edge_transform_and_lower"
)


@lru_cache(maxsize=1)
def _default_order() -> tuple[str, ...]:
    passes = registry.all_passes()

    def key(identifier: str) -> tuple[bool, float, str]:
        """What cleans up comes first; of passes that serve one op the cheaper, as of several functions in one file."""
        rewrites = getattr(passes[identifier], "rewrites", ())
        cost = min((rewrite.cost for rewrite in rewrites), default=0.0)
        return not passes[identifier].cleans_up, cost, identifier

    order: nx.DiGraph[str] = nx.DiGraph()
    order.add_nodes_from(passes)
    last = [identifier for identifier, cls in passes.items() if "*" in cls.after]
    order.add_edges_from((earlier, later) for later in last for earlier in passes if earlier not in last)
    order.add_edges_from(
        (earlier, later) for later, cls in passes.items() for earlier in cls.after if earlier in passes
    )
    try:
        return tuple(nx.lexicographical_topological_sort(order, key=key))
    except nx.NetworkXUnfeasible:
        cycle = " -> ".join(edge[0] for edge in nx.find_cycle(order))
        raise LowerfixError(f"the passes' order constraints form a cycle: {cycle}") from None


@lru_cache(maxsize=64)
def oracle_for(target: Target, stage: Stage) -> Oracle:
    """The oracle for programs at one stage; kept, so that what is known once is known for the whole process."""
    passes = [cls() for cls in map(registry.get, _default_order()) if cls.cleans_up and not cls.opt_in]

    def clean_up(program: ExportedProgram) -> ExportedProgram:
        """Run the passes that ask the oracle nothing, as the probe has to look like what will be lowered."""
        working = Program(program)
        for p in passes:
            if working.stage in p.stages:
                p.run(working, Context(target, oracle, Report()))
        result = working.build()
        assert isinstance(result, ExportedProgram)
        return result

    oracle = Oracle(target, target.quantized and stage is Stage.FLOAT, clean_up, _fingerprint(passes))
    return oracle


def _functional(program: ExportedProgram, in_place: list[Node], declines: list[Finding]) -> ExportedProgram | None:
    """The program with its in-place ops in functional form; None, and a finding, where PyTorch cannot give it one."""
    try:
        functional: ExportedProgram = program.run_decompositions({})
    except Exception as error:
        reason = f"PyTorch fails to make its functional form: {type(error).__name__}: {error}".splitlines()[0]
        for node in in_place:
            declines.append(Finding("", node.name, op_name(node.target), Outcome.DECLINED, reason, source_line(node)))
        return None
    return functional


def _fingerprint(passes: Iterable[Pass]) -> str:
    """A digest of the source files that decide what a probe looks like."""
    modules = ["lowerfix.oracle", "lowerfix.program", "lowerfix.rewritepass", *(type(p).__module__ for p in passes)]
    content = hashlib.sha256()
    for name in dict.fromkeys(modules):
        file = sys.modules[name].__file__
        if file is not None:
            content.update(Path(file).read_bytes())
    return content.hexdigest()
