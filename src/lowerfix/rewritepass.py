"""The pass that one file of rewrites makes: match, ask the oracle, splice."""

from collections.abc import Iterator
from typing import ClassVar

from torch.fx import Graph, Node

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline, LowerfixError
from lowerfix.oracle import Answer, Question
from lowerfix.program import Program, Stage, mutated_arguments
from lowerfix.report import Outcome
from lowerfix.rewriting import Match, Rewrite, Trace, aliases_input, splice, trace
from lowerfix.source import describe, op_name

_DEEPEST = 4
"""How many rewrites may serve what another rewrite made, one within the other."""

_CASTS = ("aten.to.dtype", "aten._to_copy.default", "dim_order_ops._to_dim_order_copy.default")


class RewritePass(Pass):
    """All the rewrites of one file, as alternatives for the ops they serve.

    A rewrite fires only where the installed backend refuses the op and takes the replacement whole.
    """

    rewrites: ClassVar[tuple[Rewrite, ...]] = ()

    def __init__(self, target: str | None = None) -> None:
        self.target = target

    def matches(self, program: Program) -> Iterator[Node]:
        """The nodes of the program whose op one of the rewrites serves, in the order of the graph."""
        targets = dict.fromkeys(target for rewrite in self.rewrites for target in rewrite.targets)
        for target in targets:
            yield from program.graph.find_nodes(op="call_function", target=target)

    def questions(self, program: Program, context: Context) -> list[Question]:
        """Everything that deciding about this program needs to know of the backend, to be asked at one go."""
        questions = []
        for node in self.matches(program):
            try:
                match = Match.of(node, program)
            except Decline:
                continue
            questions.append(_question(match, None, program))
            for rewrite in self._serving(node):
                try:
                    questions.append(_question(match, self._trace(rewrite, match, context), program))
                except Decline:
                    continue
        return questions

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for node in list(self.matches(program)):
            try:
                match = Match.of(node, program)
                replacement, reason = self._choose(match, program, context)
            except Decline as decline:
                context.find(self.id, node, Outcome.DECLINED, decline.reason)
                continue
            if replacement is None:
                continue
            context.find(self.id, node, Outcome.REWRITTEN, reason)
            splice(program, match, replacement, self.id)
            changed = True
        if changed:
            program.remove_dead()
        return changed

    def _serving(self, node: Node) -> list[Rewrite]:
        return [rewrite for rewrite in self.rewrites if node.target in rewrite.targets]

    def _trace(self, rewrite: Rewrite, match: Match, context: Context) -> Trace:
        key = (f"{rewrite.module}.{rewrite.name}", match.key)
        if key not in context.traces:
            try:
                context.traces[key] = trace(rewrite, match)
            except Decline as decline:
                context.traces[key] = decline
        known = context.traces[key]
        if isinstance(known, Exception):
            raise known
        return known

    def _choose(self, match: Match, program: Program, context: Context) -> tuple[Trace | None, str]:
        """The replacement to use and why; None where the op is fine as it is.

        Raises:
            Decline: with the reason, where the backend refuses the op and no alternative serves.
        """
        node = match.node
        if mutated_arguments(node):
            raise Decline("it changes its argument in place; apply lowerfix to the ExportedProgram, where it is undone")
        question = _question(match, None, program)
        [now] = context.oracle.ask([question])
        if now.taken:
            return None, ""
        refused = f"{context.target.name} does not take it whole ({now.reason})"
        if context.target.quantized and program.stage is Stage.QUANTIZED and _is_float(match):
            context.find(
                self.id,
                node,
                Outcome.DORMANT,
                f"{refused}, and the program is quantized already: apply lowerfix before prepare_pt2e, "
                "or wrap the quantizer with lowerfix.wrap_quantizer",
            )
            return None, ""
        reasons = []
        for rewrite in self._serving(node):
            try:
                replacement = self._trace(rewrite, match, context)
                replacement, answer = self._accepted(match, replacement, now, program, context)
            except Decline as decline:
                reasons.append(f"{rewrite.name}: {decline.reason}")
                continue
            left = f", all but {answer.reason}" if answer.refusals else ""
            return replacement, f"{refused}; it takes {_ops(replacement)}{left}"
        raise Decline(f"{refused}; {'; '.join(reasons)}")

    def _accepted(
        self, match: Match, replacement: Trace, now: Answer, program: Program, context: Context, depth: int = 0
    ) -> tuple[Trace, Answer]:
        """The replacement in a form that the backend accepts, its own ops rewritten where that is needed."""
        if program.has_in_place_ops and aliases_input(replacement):
            raise Decline("its replacement would share memory with an argument, and the program has in-place ops")
        [answer] = context.oracle.ask([_question(match, replacement, program)])
        if answer.accepts_in_place_of(now):
            return replacement, answer
        deeper = _expand(replacement, context, program, depth) if depth < _DEEPEST else None
        if deeper is not None:
            return self._accepted(match, deeper, now, program, context, depth + 1)
        raise Decline(f"{context.target.name} does not take the replacement whole either ({answer.reason})")


def _is_float(match: Match) -> bool:
    return any(getattr(a.value, "dtype", None) is not None and a.value.is_floating_point() for a in match.arguments)


def _ops(replacement: Trace) -> str:
    names = dict.fromkeys(op_name(node.target) for node in replacement.graph.nodes if node.op == "call_function")
    return ", ".join(names) or "an argument as it is"


def _expand(replacement: Trace, context: Context, program: Program, depth: int) -> Trace | None:
    """The same replacement with those of its ops rewritten that another rewrite serves; None where none is."""
    from lowerfix import registry

    graph = Graph()
    mapping: dict[Node, Node] = {}
    changed = False
    for node in replacement.graph.nodes:
        inner = registry.serving(node.target) if node.op == "call_function" else []
        chosen: Trace | None = None
        if inner:
            match = Match.of(node, _Inner(program))  # type: ignore[arg-type]
            for other in inner:
                try:
                    chosen, _ = other._choose(match, program, context)
                    break
                except Decline:
                    continue
        if chosen is None:
            mapping[node] = graph.node_copy(node, lambda old: mapping[old])
            continue
        changed = True
        for placeholder, argument in zip(chosen.placeholders, match.arguments, strict=True):
            mapping[placeholder] = mapping[argument.node]
        for traced in chosen.graph.nodes:
            if traced.op == "call_function":
                mapping[traced] = graph.node_copy(traced, lambda old: mapping[old])
        output = chosen.graph.output_node().args[0]
        if not isinstance(output, Node):
            raise LowerfixError(f"{describe(node)}: a rewrite within a rewrite has to return one tensor")
        mapping[node] = mapping[output]
    if not changed:
        return None
    graph.eliminate_dead_code()
    return Trace(graph, replacement.rewrite, [node for node in graph.nodes if node.op == "placeholder"])


class _Inner:
    """Stands for the program when an op inside a replacement is matched: its arguments are all computed."""

    def __init__(self, program: Program) -> None:
        self.source = program.source

    def tensor(self, node: Node) -> None:
        return None


def _question(match: Match, replacement: Trace | None, program: Program) -> Question:
    """Ask about the matched op, or about its replacement, together with the casts that are all that reads it."""
    graph = Graph()
    mapping: dict[Node, Node] = {}
    for index, argument in enumerate(match.arguments):
        new = graph.placeholder(f"argument_{index}")
        new.meta = {"val": argument.value, "constant": argument.constant is not None}
        mapping[argument.node] = new
    if replacement is None:
        result = graph.node_copy(match.node, lambda old: mapping[old])
        result.meta = {"val": match.node.meta["val"]}
        outputs = _outputs(graph, result)
    else:
        for placeholder, argument in zip(replacement.placeholders, match.arguments, strict=True):
            mapping[placeholder] = mapping[argument.node]
        for node in replacement.graph.nodes:
            if node.op == "call_function":
                mapping[node] = graph.node_copy(node, lambda old: mapping[old])
                mapping[node].meta = {"val": node.meta["val"]}
        output = replacement.graph.output_node().args[0]
        outputs = [mapping[leaf] for leaf in (output if isinstance(output, (tuple, list)) else [output])]
    users = list(match.node.users)
    if len(outputs) == 1 and users and all(op_name(user.target) in _CASTS for user in users):
        casts = []
        for user in users:
            cast = graph.node_copy(user, lambda old: outputs[0])
            cast.meta = {"val": user.meta["val"]}
            casts.append(cast)
        outputs = casts
    graph.output(tuple(outputs))
    constraints = getattr(program.source, "range_constraints", {})
    return Question(graph, dict(constraints))


def _outputs(graph: Graph, result: Node) -> list[Node]:
    """The tensors of a node, taken apart where it returns several."""
    import operator

    value = result.meta["val"]
    if not isinstance(value, (tuple, list)):
        return [result]
    items = []
    for index, item in enumerate(value):
        node = graph.call_function(operator.getitem, (result, index))
        node.meta = {"val": item}
        items.append(node)
    return items
