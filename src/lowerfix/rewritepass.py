"""The pass that one file of rewrites makes: match, ask the oracle, splice."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline
from lowerfix.oracle import Answer, Question
from lowerfix.program import CASTS, Program, Stage, depends_on_data, is_quantization_op, is_view, mutated_arguments
from lowerfix.ranges import Ranges
from lowerfix.report import Outcome
from lowerfix.rewriting import Match, Rewrite, Trace, aliases_input, describe_value, functional_form, in_int8, splice
from lowerfix.source import op_name
from lowerfix.targets import Target

_DEEPEST = 4
"""How many rewrites may serve what another rewrite made, one within the other."""


class RewritePass(Pass):
    """All the rewrites of one file, as alternatives for the ops they serve.

    A rewrite fires only where the installed backend refuses the op and takes the replacement whole.
    """

    rewrites: ClassVar[tuple[Rewrite, ...]] = ()

    def matches(self, program: Program, context: Context) -> Iterator[Node]:
        """The nodes of the program whose op one of the rewrites serves, but for those that this pass has made.

        Nor those of a size that depends on data: no backend takes them, and the passes of ``masks`` report them all.
        """
        mine = [rewrite for rewrite in self.rewrites if rewrite.is_for(context.target.name)]
        for target in dict.fromkeys(target for rewrite in mine for target in rewrite.targets):
            for node in program.graph.find_nodes(op="call_function", target=target):
                if node.meta.get("custom", {}).get("lowerfix") != self.id and not depends_on_data(node):
                    yield node

    def questions(self, program: Program, context: Context) -> list[Question]:
        questions = []
        for node in self.matches(program, context):
            try:
                questions += self.next_questions(Match.of(node, program), program, context)
            except Decline:
                continue
        return questions

    def next_questions(self, match: Match, program: Program, context: Context) -> list[Question]:
        """What has to be asked next to decide about a match; nothing where all is known.

        About the op as it is first. Most are taken, and no replacement is traced; else one alternative after the other.
        """
        if _is_quantized(match.node, program, context):
            return []
        now = question(match, None, program, context)
        answer = context.oracle.known(now)
        if answer is None:
            return [now]
        for rewrite in self._serving(match.node, context):
            if bool(rewrite.wrong) != answer.taken:
                continue
            try:
                follow = question(match, self._trace(rewrite, match, context), program, context)
            except Decline:
                continue
            then = context.oracle.known(follow)
            if then is None:
                return [follow]
            if then.accepts_in_place_of(answer):
                break
        return []

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for node in list(self.matches(program, context)):
            if _is_quantized(node, program, context):
                continue
            try:
                match = Match.of(node, program)
                replacement, reason = self._choose(match, program, context)
            except Decline as decline:
                self.declined(node, decline.reason, context)
                continue
            if replacement is None:
                continue
            context.find(self.id, node, Outcome.REWRITTEN, reason)
            splice(program, match, replacement, self.id)
            changed = True
        if changed:
            program.remove_dead()
        return changed

    def declined(self, node: Node, reason: str, context: Context) -> None:
        """Report why a node that the backend refuses stays as it is."""
        context.find(self.id, node, Outcome.DECLINED, reason)

    def wants_functional(self, in_place: Sequence[Node], target: Target) -> Sequence[Node]:
        served = {op for rewrite in self.rewrites if rewrite.is_for(target.name) for op in rewrite.targets}
        return [node for node in in_place if functional_form(node) in served]

    def tell(self, program: Program, context: Context) -> None:
        for node in self.matches(program, context):
            try:
                replacement, reason = self._choose(Match.of(node, program), program, context)
            except Decline:
                continue
            if replacement is not None:
                self.offer(node, reason.partition("; it takes ")[0], context)

    def _serving(self, node: Node, context: Context) -> list[Rewrite]:
        target = context.target
        rewrites = [r for r in self.rewrites if r.is_for(target.name)]
        int8 = target.quantized or in_int8()
        return [r for r in rewrites if node.target in r.targets and not (int8 and r.float_only)]

    def _trace(self, rewrite: Rewrite, match: Match, context: Context) -> Trace:
        return context.traced(f"{rewrite.module}.{rewrite.name}", rewrite, match)

    def _choose(self, match: Match, program: Program, context: Context, depth: int = 0) -> tuple[Trace | None, str]:
        """The replacement to use and why; None where the op is fine as it is.

        Raises:
            Decline: with the reason, where the backend refuses the op and no alternative serves.
        """
        node = match.node
        if mutated_arguments(node):
            raise Decline("it works in place, and a replacement would lose what it changes")
        if is_view(node) and program.has_in_place_ops:
            raise Decline("it is a view, through which an in-place op of the program may write")
        [now] = context.oracle.ask([question(match, None, program, context)])
        if now.taken:
            return self._corrected(match, now, program, context, depth)
        refused = f"{context.target.name} does not take it whole ({now.reason})"
        reasons = []
        for rewrite in self._serving(node, context):
            if rewrite.wrong:
                continue
            try:
                replacement = self._trace(rewrite, match, context)
                replacement, answer = self._accepted(match, replacement, now, program, context, depth)
            except Decline as decline:
                reasons.append(f"{rewrite.name}: {decline.reason}")
                continue
            left = f"; of these only a cast stays on the CPU ({answer.reason})" if answer.refusals else ""
            return replacement, f"{refused}; it takes {_ops(replacement)}{left}"
        if context.target.quantized and program.stage is Stage.QUANTIZED and _is_float(match):
            advice = "apply lowerfix before prepare_pt2e, or wrap the quantizer with lowerfix.wrap_quantizer"
            context.find(self.id, node, Outcome.DORMANT, f"{refused}, and the program is quantized already: {advice}")
            return None, ""
        raise Decline(f"{refused}; {'; '.join(reasons)}")

    def _corrected(
        self, match: Match, now: Answer, program: Program, context: Context, depth: int
    ) -> tuple[Trace | None, str]:
        """The replacement of an op that the backend takes but computes wrongly; None where it is right."""
        refused: Decline | None = None
        for rewrite in self._serving(match.node, context):
            if not rewrite.wrong:
                continue
            try:
                replacement = self._trace(rewrite, match, context)
            except Decline:
                continue  # the backend is right about these arguments
            problem = f"{context.target.name} takes it, but {rewrite.wrong}"
            try:
                replacement, _ = self._accepted(match, replacement, now, program, context, depth)
            except Decline as decline:
                refused = refused or Decline(f"{problem}; {decline.reason}")
                continue
            return replacement, f"{problem}; it is right about {_ops(replacement)}"
        if refused is not None:
            raise refused
        return None, ""

    def _accepted(
        self, match: Match, replacement: Trace, now: Answer, program: Program, context: Context, depth: int = 0
    ) -> tuple[Trace, Answer]:
        """The replacement in a form that the backend accepts, its own ops rewritten where that is needed."""
        if aliases_input(replacement) and program.has_in_place_ops:
            raise Decline("its replacement would share memory with an argument, and the program has in-place ops")
        [answer] = context.oracle.ask([question(match, replacement, program, context)])
        if answer.accepts_in_place_of(now):
            return replacement, answer
        deeper = _expand(replacement, context, program, depth) if depth < _DEEPEST else None
        if deeper is not None:
            return self._accepted(match, deeper, now, program, context, depth + 1)
        raise Decline(f"{context.target.name} does not take the replacement whole either ({answer.reason})")


def _is_quantized(node: Node, program: Program, context: Context) -> bool:
    """Whether an op is computed in integers: it lies between dequantize and quantize ops.

    What would replace it has none of these inside, so it stays. Where the target takes floats too, the quantizer notes
    nothing; then an op whose weight is a quantized one is meant too, whether its result is quantized or not, and one
    whose activation is quantized with it.
    """
    if program.stage is not Stage.QUANTIZED or not node.users:
        return False
    floats = [n for n in node.all_input_nodes if getattr(n.meta.get("val"), "dtype", torch.int8).is_floating_point]
    if not context.target.quantized:
        read = [source for source in floats if is_quantization_op(source.target)]
        if any(program.tensor(source.all_input_nodes[0]) is not None for source in read):
            return True
        users = [
            user for other in node.users for user in (other.users if op_name(other.target) in _ACTIVATIONS else [other])
        ]
        return len(read) == len(floats) > 0 and all(is_quantization_op(user.target) for user in users)
    notes = [note for note in node.meta.get("custom", {}).values() if isinstance(note, Mapping)]
    if not any(note.get("quantized") for note in notes):
        return False
    return bool(floats) and all(is_quantization_op(other.target) for other in (*floats, *node.users))


_ACTIVATIONS = ("aten.relu.default", "aten.relu_.default", "aten.hardtanh.default", "aten.relu6.default",
                "aten.clamp.default")  # fmt: skip


def _is_float(match: Match) -> bool:
    return any(getattr(a.value, "dtype", None) is not None and a.value.is_floating_point() for a in match.arguments)


def _ops(replacement: Trace) -> str:
    names = dict.fromkeys(op_name(node.target) for node in replacement.graph.nodes if node.op == "call_function")
    return ", ".join(names) or "an argument as it is"


def _expand(replacement: Trace, context: Context, program: Program, depth: int) -> Trace | None:
    """The same replacement with those of its ops rewritten that another rewrite serves; None where none is."""
    served = {
        node: (inner_match(node), inner)
        for node in replacement.graph.nodes
        if node.op == "call_function" and (inner := [p for p in context.rewrites if p._serving(node, context)])
    }
    context.oracle.ask_all(
        lambda: [
            q for match, inner in served.values() for p in inner for q in p.next_questions(match, program, context)
        ]
    )
    chosen: dict[Node, tuple[Match, Trace]] = {}
    for node, (match, inner) in served.items():
        for other in inner:
            try:
                trace, _ = other._choose(match, program, context, depth + 1)
            except Decline:
                continue
            if trace is not None:
                chosen[node] = match, trace
            break
    return substituted(replacement, chosen) if chosen else None


def inner_match(node: Node) -> Match:
    """The match of an op inside a replacement."""
    return Match.of(node, _Inner())  # type: ignore[arg-type]


def substituted(replacement: Trace, chosen: Mapping[Node, tuple[Match, Trace]]) -> Trace:
    """A replacement with some of its ops replaced in their turn."""
    graph = Graph()
    mapping: dict[Node, Node] = {}
    several: dict[Any, Any] = {}
    inner_constants: dict[Node, Any] = {}
    for node in replacement.graph.nodes:
        if node.target is operator.getitem and node.args[0] in several:
            mapping[node] = several[node.args[0]][node.args[1]]
            continue
        if node not in chosen:
            mapping[node] = graph.node_copy(node, lambda old: mapping[old])
            continue
        match, trace = chosen[node]
        for placeholder, argument in zip(trace.placeholders, match.arguments, strict=True):
            mapping[placeholder] = mapping[argument.node]
        inner_constants.update(trace.constants)
        for traced in trace.graph.nodes:
            if traced.op in ("call_function", "get_attr"):
                mapping[traced] = graph.node_copy(traced, lambda old: mapping[old])
        output: Any = trace.graph.output_node().args[0]
        if isinstance(output, Node):
            mapping[node] = mapping[output]
        else:
            # Read through getitem nodes only.
            several[node] = [mapping[leaf] if isinstance(leaf, Node) else leaf for leaf in output]
    graph.eliminate_dead_code()
    constants = {**replacement.constants, **inner_constants}
    return Trace(
        graph,
        [node for node in graph.nodes if node.op == "placeholder"],
        {mapping[node]: tensor for node, tensor in constants.items() if mapping[node] in graph.nodes},
    )


class _Inner:
    """Stands for the program when an op inside a replacement is matched: its arguments are all computed."""

    def __init__(self) -> None:
        self.ranges = Ranges()

    def tensor(self, node: Node) -> None:
        return None

    def kind(self, node: Node) -> str:
        return "input"


def question(match: Match, replacement: Trace | None, program: Program, context: Context) -> Question:
    """Ask about the matched op, or about its replacement, in its surroundings; equal questions are made once.

    The surroundings are what support can hang on: the dequantize ops before it and the quantize ops after it in a
    quantized program, and the casts that are all that reads it (Arm takes argmax only where it is read as int32).
    """
    around = [(n, a.node) for n, a in enumerate(match.arguments) if is_quantization_op(a.node.target)]
    results = _results(match.node)
    around.extend((-1 - position, user) for position, result in results for user in _casts(result))
    read = tuple(position for position, _ in results)
    # Scales and zero points are a part of this key, and not of the question: many keys share one.
    key = (match.key, read, _noted(match.node), replacement, *((n, _described(node, program)) for n, node in around))
    if key not in context.questions:
        context.questions[key] = _make_question(match, replacement, program)
    return context.questions[key]


def _noted(node: Node) -> str:
    """What a quantizer noted about a node."""
    return str({key: value for key, value in node.meta.get("custom", {}).items() if key != "lowerfix"})


def _described(node: Node, program: Program) -> str:
    """A neighbour of the match as text, whatever the names of the nodes it reads."""
    reads = [f"{program.kind(source)}{describe_value(source.meta.get('val'))}" for source in node.all_input_nodes]
    args, kwargs = map_arg((node.args, node.kwargs), lambda _: None)
    return f"{node.target}{args}{kwargs}{reads}{_noted(node)}"


def _make_question(match: Match, replacement: Trace | None, program: Program) -> Question:
    graph = Graph()
    mapping: dict[Node, Node] = {}
    scales: dict[Any, float] = {}

    def placeholder(node: Node, kind: str) -> Node:
        if node not in mapping:
            given = mapping[node] = graph.placeholder(f"argument_{len(mapping)}")
            given.meta = {"val": node.meta["val"], "kind": kind}
            order = _permuted(node) if kind == "input" else None
            if order is not None:
                given.meta["val"] = node.meta["val"].permute(order)
                back = [order.index(dim) for dim in range(len(order))]
                mapping[node] = graph.call_function(torch.ops.aten.permute.default, (given, back))
                mapping[node].meta = {"val": node.meta["val"]}
        return mapping[node]

    def copied(node: Node, origin: Node | None = None) -> Node:
        new = graph.node_copy(node, lambda old: mapping[old])
        if is_quantization_op(node.target):
            new.args = _representative(new.args, scales)
        # "custom" holds what a quantizer noted about the node; splicing hands it on, so it is a part of the question.
        custom = {key: value for key, value in (origin or node).meta.get("custom", {}).items() if key != "lowerfix"}
        new.meta = {"val": node.meta["val"], "custom": custom}
        mapping[node] = new
        return new

    dequantized = [a.node for a in match.arguments if is_quantization_op(a.node.target) and "val" in a.node.meta]
    for argument in match.arguments:
        if argument.node not in dequantized:
            placeholder(argument.node, argument.kind)
    for node in dequantized:
        for source in node.all_input_nodes:
            placeholder(source, program.kind(source))
    for node in dequantized:
        copied(node)
    results = _results(match.node)
    if replacement is None:
        outputs = _outputs(graph, copied(match.node), [position for position, _ in results])
    else:
        for stand_in, argument in zip(replacement.placeholders, match.arguments, strict=True):
            mapping[stand_in] = mapping[argument.node]
        for node in replacement.constants:
            placeholder(node, "buffer")
        for node in replacement.graph.nodes:
            if node.op == "call_function":
                copied(node, match.node)
        output: Any = replacement.graph.output_node().args[0]
        leaves = output if isinstance(output, (tuple, list)) else [output]
        outputs = [mapping[leaves[position]] for position, _ in results]
    mapping.update((result, made) for (_, result), made in zip(results, outputs, strict=True))
    ends = [[copied(user) for user in _casts(result)] or [mapping[result]] for _, result in results]
    graph.output(tuple(node for group in ends for node in group))
    graph.eliminate_dead_code()
    constraints = getattr(program.source, "range_constraints", {})
    return Question(graph, dict(constraints))


def _permuted(node: Node) -> list[int] | None:
    """The order of the dimensions in memory, where a computed tensor has another than its own; else None.

    Edge ops copy what they permute, so that such a tensor is contiguous once it is lowered; a placeholder would not be.
    """
    value = node.meta["val"]
    if node.op != "call_function" or not isinstance(value, torch.Tensor) or is_quantization_op(node.target):
        return None
    if value.dim() != 3 or any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride())):
        return None  # four dimensions may be of images with their channels last, which stay so
    order = sorted(range(value.dim()), key=value.stride().__getitem__, reverse=True)
    moved = order != list(range(value.dim())) and not value.is_contiguous()
    return order if moved and value.permute(order).is_contiguous() else None


def _representative(args: tuple[Any, ...], scales: dict[Any, float]) -> tuple[Any, ...]:
    """Arguments of a quantize or dequantize op with a scale and a zero point that stand for others.

    Support does not hang on what they are, only on which are equal, and on whether a zero point is zero. Each
    calibration finds others, and each layer has its own; every one would be a question of its own.
    """
    if len(args) < 3 or not (isinstance(args[1], float) and isinstance(args[2], int)):
        return args  # per channel: they are tensors
    scale = scales.setdefault(args[1:3], (1 + len(scales)) / 64)
    return (args[0], scale, 1 if args[2] else 0, *args[3:])


def _results(node: Node) -> list[tuple[int, Node]]:
    """The tensors of a node that are read, with their positions: its getitem nodes where it returns several."""
    if not isinstance(node.meta["val"], (tuple, list)):
        return [(0, node)]
    return [(user.args[1], user) for user in node.users if user.users]  # type: ignore[misc]


def _casts(result: Node) -> list[Node]:
    """The readers of a tensor, where all they do is to cast or quantize it; else none."""
    users = list(result.users)
    belongs = (
        user.all_input_nodes == [result] and (op_name(user.target) in CASTS or is_quantization_op(user.target))
        for user in users
    )
    return users if all(belongs) else []


def _outputs(graph: Graph, node: Node, positions: list[int]) -> list[Node]:
    """The tensors of a node at some positions, taken apart where it returns several."""
    value = node.meta["val"]
    if not isinstance(value, (tuple, list)):
        return [node]
    items = []
    for position in positions:
        item = graph.call_function(operator.getitem, (node, position))
        item.meta = {"val": value[position]}
        items.append(item)
    return items
