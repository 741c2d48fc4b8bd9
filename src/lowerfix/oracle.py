"""The oracle: what the installed backend takes, asked of the backend itself.

No table of supported ops is kept. A question is a small graph: an op as it stands in the program, or what a rewrite
would put in its place. All questions of a program go into one probe program, the backend's own partitioner runs over it
once, and the nodes it tagged give the answers. What it tagged must also survive the backend's preprocess (to TOSA for
Arm), since a partitioner can accept what the lowering then dies on. For int8 targets the probe is quantized first.

Answers are kept in memory and on disk, keyed by the installed versions.
"""

import contextlib
import copy
import gc
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_flatten, tree_leaves

from lowerfix.cache import DiskCache
from lowerfix.composites import listed_once
from lowerfix.errors import first_line
from lowerfix.program import dynamic_shape, example, user_inputs
from lowerfix.rewriting import describe_value
from lowerfix.source import op_name
from lowerfix.targets import Target

HEAVY = 8 << 20
"""Bytes from which on a constant is heavy."""

DIES = "the lowering dies on it"
"""How a reason begins where the partitioner takes what the preprocess then dies on."""

_MACHINE = (OSError, ImportError, MemoryError)
"""Failures of this machine, not of the backend: they end the call, and are no answers to keep."""

_IGNORED = ("getitem", "sym_size", "_assert", "quantize_per", "quantize_affine", "choose_qparams")
_CASTS = ("_to_dim_order_copy", "_to_copy")


@dataclass(frozen=True)
class Refusal:
    """An Edge op that the backend leaves on the CPU.

    Attributes:
        op: the op's name in Edge dialect.
        reason: the backend's own reason.
        boundary_cast: it only casts an input or an output of the question.
        kernel: the kernel for it that ExecuTorch's runtime lacks; empty where it has one.
    """

    op: str
    reason: str
    boundary_cast: bool = False
    kernel: str = ""


@dataclass(frozen=True)
class Answer:
    """What the backend does with a question.

    Attributes:
        refusals: the ops it leaves on the CPU; empty where it takes the whole.
        error: the error it died with while lowering, empty where it did not.
    """

    refusals: tuple[Refusal, ...] = ()
    error: str = ""

    @property
    def taken(self) -> bool:
        return not self.refusals and not self.error

    @property
    def serves(self) -> bool:
        """Whether the ops are taken and at most casts of inputs and outputs are not, which no rewrite changes."""
        return not self.error and all(refusal.boundary_cast for refusal in self.refusals)

    @property
    def reason(self) -> str:
        """Why it is not taken whole, in the backend's words."""
        if self.error:
            return f"{DIES}: {self.error}"
        return "; ".join(dict.fromkeys(f"{refusal.op}: {refusal.reason}" for refusal in self.refusals))

    @property
    def dead(self) -> str:
        """Why nothing computes what stays on the CPU; empty where ExecuTorch's runtime has kernels for all of it."""
        missing = dict.fromkeys(refusal.kernel for refusal in self.refusals if refusal.kernel)
        return f"ExecuTorch's runtime has no kernel for {', '.join(missing)}" if missing else ""

    def accepts_in_place_of(self, other: "Answer") -> bool:
        """Whether this is no worse than ``other``: whole, or whole but for casts where it meets the CPU.

        Such casts (an int64 index that comes from the user, say) may be no more than the ops that stay today.
        """
        return self.serves and (self.taken or bool(other.error) or len(self.refusals) <= len(other.refusals))


@dataclass
class Question:
    """A small graph to ask about: placeholders with fake values, ATen ops, one output node.

    Attributes:
        graph: the ops. A placeholder's ``meta["kind"]`` says how it reaches the program, as ``Program.kind`` does.
        range_constraints: of the program that symbolic sizes come from.
    """

    graph: Graph
    range_constraints: dict[Any, Any] = field(default_factory=dict)

    @property
    def symbolic(self) -> bool:
        return any(
            not isinstance(size, int)
            for node in self.graph.nodes
            for value in tree_leaves(node.meta.get("val"))
            if isinstance(value, torch.Tensor)
            for size in value.shape
        )

    @property
    def heavy(self) -> bool:
        """Whether it has a constant that should not be read, let alone copied, to answer it."""
        return any(map(_is_heavy, self.graph.nodes))

    def lightened(self) -> "Question":
        """The same question with heavy constants as inputs, which cost no memory; itself where there are none."""
        if not self.heavy:
            return self
        graph = Graph()
        graph.output(graph.graph_copy(self.graph, {}))
        for new, old in zip(graph.nodes, self.graph.nodes, strict=True):
            new.meta = {**old.meta, "kind": "input"} if _is_heavy(old) else dict(old.meta)
        return Question(graph, self.range_constraints)

    @cached_property
    def key(self) -> str:
        """The question as text, equal for questions that must get equal answers."""
        numbers: dict[Node, str] = {}
        lines = []
        for node in self.graph.nodes:
            numbers[node] = f"%{len(numbers)}"
            if node.op == "placeholder":
                lines.append(f"{node.meta['kind']} {describe_value(node.meta['val'])}")
            else:
                leaves, spec = tree_flatten((node.args, node.kwargs), is_leaf=lambda leaf: isinstance(leaf, Node))
                text = ",".join(numbers[leaf] if isinstance(leaf, Node) else repr(leaf) for leaf in leaves)
                custom = {str(k): str(v) for k, v in node.meta.get("custom", {}).items()}
                lines.append(f"{node.target} {spec} {text} {sorted(custom.items()) or ''}")
        if self.symbolic:
            lines.append(str(sorted((str(symbol), str(bounds)) for symbol, bounds in self.range_constraints.items())))
        return "\n".join(lines)


class Oracle:
    """Asks one target's installed backend, and remembers the answers.

    Args:
        target: the target to ask.
        quantize: quantize the probe with the target's quantizer first.
        cleanup: run over the probe, and again over the quantized probe, as ``apply`` runs it over the real program.
        maker: stands for the code that makes the probe; answers on disk hold for the same code only.
    """

    def __init__(
        self, target: Target, quantize: bool, cleanup: Callable[[ExportedProgram], ExportedProgram], maker: str = ""
    ) -> None:
        self.target = target
        self.quantize = quantize
        self.cleanup = cleanup
        self.probes = 0
        self._answers: dict[str, Answer] = {}
        self._disk = DiskCache({**target.versions(), "target": target.name, "quantize": str(quantize), "by": maker})

    def known(self, question: Question) -> Answer | None:
        """The answer, where it need not be asked for."""
        key = question.key
        if key not in self._answers:
            stored = self._disk.get(key)
            answer = _decode(stored) if stored is not None else None
            if answer is not None:
                self._answers[key] = answer
        return self._answers.get(key)

    def ask(self, questions: Iterable[Question]) -> list[Answer]:
        """The answers to ``questions``, in order; what is not known yet is asked in one probe."""
        questions = list(questions)
        unknown = {question.key: question for question in questions if self.known(question) is None}
        if unknown:
            with listed_once():
                answers = self._probe(list(unknown.values()))
            gc.collect()  # a probe's graphs refer to each other in circles, and hold its tensors
            for key, answer in zip(unknown, answers, strict=True):
                self._answers[key] = answer
                self._disk.put(key, asdict(answer))
        return [self._answers[question.key] for question in questions]

    def ask_all(self, questions: Callable[[], list[Question]]) -> None:
        """Ask until ``questions`` has none left that is not known; what it asks may depend on what is known by then."""
        while unknown := [question for question in questions() if self.known(question) is None]:
            self.ask(unknown)

    @cached_property
    def kept(self) -> frozenset[str]:
        """The ops that the partitioner keeps from being decomposed and ExecuTorch's runtime has no kernel for.

        Such as ``aten.pad.default``: where it is refused then, nothing computes it.
        """
        stored = self._disk.get("kept")
        if stored is None:
            kept, _ = self.target.partitioner().ops_to_not_decompose(_assemble([]))
            kernels = _kernels()
            names = sorted(op_name(op) for op in kept)
            stored = {"ops": [name for name in names if name.rpartition(".")[0].replace(".", "::") not in kernels]}
            self._disk.put("kept", stored)
        return frozenset(map(str, stored["ops"]))

    def deaths(self, questions: Sequence[Question]) -> list[str]:
        """Why nothing on the device would compute the ops of each question; empty where all of them are computed.

        What the backend does not take has to have kernels in ExecuTorch's runtime. Where delegates can be executed
        here, the program is: a kernel may refuse a dtype or a rank, and some end the process.
        """
        answers = self.ask(questions)
        found: dict[str, str] = {}
        open_: dict[str, Question] = {}
        for question, answer in zip(questions, answers, strict=True):
            found[question.key] = answer.dead or (answer.error and f"{DIES}: {answer.error}")
            if answer.refusals and not found[question.key] and self.target.runs_here and not question.symbolic:
                stored = self._disk.get(f"runs {question.key}")
                if stored is None:
                    open_[question.key] = question
                else:
                    found[question.key] = str(stored["death"])
        for key, death in zip(open_, self._executed(list(open_.values())), strict=True):
            found[key] = death
            self._disk.put(f"runs {key}", {"death": death})
        return [found[question.key] for question in questions]

    def _executed(self, questions: list[Question]) -> list[str]:
        """Why ExecuTorch does not execute each question on zeros; asked of all in one program, as long as it does."""
        if not questions:
            return []
        light = [question.lightened() for question in questions]
        death = self._death(self._prepare(_assemble(light)))
        if not death or len(questions) == 1:
            return [death] * len(questions)
        middle = len(questions) // 2
        return self._executed(questions[:middle]) + self._executed(questions[middle:])

    def _death(self, program: ExportedProgram) -> str:
        from executorch.exir import to_edge_transform_and_lower

        from lowerfix.runner import failure

        inputs = [example(node.meta["val"]) for node in user_inputs(program)]
        try:
            with _quiet(), torch.no_grad(), listed_once():
                edge = to_edge_transform_and_lower(program, partitioner=[self.target.executable_partitioner()])
                pte = bytes(edge.to_executorch().buffer)
        except _MACHINE:
            raise
        except Exception as error:
            return first_line(error)
        finally:
            _forget_probe()
        return failure(pte, inputs)

    # Probing --------------------------------------------------------------------------------------------------------

    def _probe(self, questions: list[Question]) -> list[Answer]:
        """Ask about several questions at once; where the backend dies on the batch, halve it to find out on which."""
        if self.quantize:  # which reads every weight
            questions = [question.lightened() for question in questions]
        assembled = _assemble(questions)
        try:
            answers = self._partition(self._prepare(assembled), questions)
        except _MACHINE:
            raise
        except Exception as error:
            if len(questions) == 1:
                return [Answer(error=first_line(error))]
            middle = len(questions) // 2
            return self._probe(questions[:middle]) + self._probe(questions[middle:])
        lowerable = []
        for index, answer in enumerate(answers):
            reasons = [r.reason for r in answer.refusals if r.reason != self.target.unexplained]
            if len(questions) > 1 and any("artition" in reason for reason in reasons):
                # A partition is refused as a whole for what one of its ops does: ask about this one alone.
                [answers[index]] = self._probe([questions[index]])
            elif answer.serves:
                lowerable.append(index)
        lowered = self._with_light_constants(questions, answers, lowerable)
        for index, death in self._preprocess(lowered, sorted(lowered)):
            if lowered[index] is questions[index]:  # a light form may die only of its weight being an input
                answers[index] = Answer(error=death)
        return answers

    def _partition(self, program: ExportedProgram, questions: list[Question]) -> list[Answer]:
        """What the backend's partitioner takes of the probe program."""
        self.probes += 1
        partitioner = copy.copy(self.target.partitioner())
        original = partitioner.partition

        def partition(edge: ExportedProgram) -> Any:
            with self.target.rejections() as reasons:
                original(edge)
            raise _Partitioned(self._read(edge, reasons, questions))

        partitioner.partition = partition
        try:
            self._lower(program, partitioner)
        except _Partitioned as stopped:
            return stopped.answers
        raise AssertionError("the lowering never called the partitioner")

    def _with_light_constants(
        self, questions: list[Question], answers: list[Answer], chosen: list[int]
    ) -> dict[int, Question]:
        """The questions to lower, by their number. The preprocess copies constants several times, so a heavy one is an
        input there; where the backend does not take it as such, the partitioner's answer has to do."""
        lowered = {index: questions[index] for index in chosen if not questions[index].heavy}
        light = {index: questions[index].lightened() for index in chosen if questions[index].heavy}
        if light:
            asked = list(light.values())
            for index, answer in zip(light, self._partition(self._prepare(_assemble(asked)), asked), strict=True):
                if len(answer.refusals) <= len(answers[index].refusals):
                    lowered[index] = light[index]
        return lowered

    def _preprocess(self, questions: dict[int, Question], chosen: list[int]) -> Iterator[tuple[int, str]]:
        """The questions among ``chosen`` that the backend dies on, short of the device's compiler, with the errors."""
        if not chosen:
            return
        assembled = _assemble([questions[index] for index in chosen])
        try:
            self._lower(self._prepare(assembled), self.target.executable_partitioner())
        except _MACHINE:
            raise
        except Exception as error:
            if len(chosen) == 1:
                yield chosen[0], first_line(error)
                return
            middle = len(chosen) // 2
            yield from self._preprocess(questions, chosen[:middle])
            yield from self._preprocess(questions, chosen[middle:])

    @staticmethod
    def _lower(program: ExportedProgram, partitioner: Any) -> None:
        from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

        config = EdgeCompileConfig(_check_ir_validity=False)
        try:
            with _quiet():
                to_edge_transform_and_lower(program, partitioner=[partitioner], compile_config=config)
        finally:
            _forget_probe()

    def _prepare(self, assembled: ExportedProgram) -> ExportedProgram:
        """The probe program, as the target's flow would hand it to the lowering."""
        program = self.cleanup(assembled)
        if not self.quantize:
            return program
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        with _quiet():
            values = [node.meta["val"] for node in user_inputs(program)]
            inputs, shapes = tuple(map(example, values)), tuple(map(dynamic_shape, values))
            module = prepare_pt2e(program.module(check_guards=False), self.target.quantizer())
            return self.cleanup(torch.export.export(convert_pt2e(module), inputs, dynamic_shapes=shapes))

    def _read(self, edge: ExportedProgram, reasons: dict[str, str], questions: list[Question]) -> list[Answer]:
        answers = []
        for nodes, outputs in _split(edge, questions):
            refusals = []
            for node in (node for node in edge.graph.nodes if node in nodes):
                if "delegation_tag" in node.meta or not computes(node):
                    continue
                reason = reasons.get(node.name, self.target.unexplained)
                if self.target.artefact and self.target.artefact in reason:
                    continue
                refusals.append(
                    Refusal(
                        op_name(node.target),
                        readable(reason),
                        _is_boundary_cast(node, nodes, outputs),
                        missing_kernel(node.target),
                    )
                )
            answers.append(Answer(tuple(refusals)))
        return answers


class _Partitioned(Exception):
    """Stops the lowering once the partitioner has answered: the probe's delegates are not made."""

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__("partitioned")
        self.answers = answers


def _assemble(questions: list[Question]) -> ExportedProgram:
    """One program out of all questions: their inputs side by side, their outputs in order."""
    graph = Graph()
    specs: list[InputSpec] = []
    state: dict[str, torch.Tensor] = {}
    lifted: dict[str, Any] = {}
    mapping: dict[Node, Node] = {}
    constraints: dict[Any, Any] = {}
    inputs = [(index, node) for index, q in enumerate(questions) for node in q.graph.nodes if node.op == "placeholder"]
    inputs.sort(key=lambda item: list(_KINDS).index(item[1].meta["kind"]))  # an exported program has this order too
    for number, (index, node) in enumerate(inputs):
        value, kind = node.meta["val"], node.meta["kind"]
        new = graph.placeholder(f"{kind}_{number}_of_question_{index}")
        new.target = new.name
        new.meta["val"] = value
        mapping[node] = new
        stored = None if kind == "input" else new.name
        specs.append(InputSpec(_KINDS[kind], TensorArgument(name=new.name), stored, True if kind == "buffer" else None))
        if stored is not None:
            (lifted if kind == "constant" else state)[stored] = _stored(value, kind == "parameter")
    outputs: list[Node] = []
    for question in questions:
        constraints.update(question.range_constraints)
        for node in question.graph.nodes:
            if node.op == "call_function":
                new = graph.node_copy(node, lambda old: mapping[old])
                new.meta = {"val": node.meta["val"], "custom": dict(node.meta.get("custom", {}))}
                mapping[node] = new
        outputs.extend(mapping[leaf] for leaf in _question_outputs(question))
    graph.output(tuple(outputs))
    module = GraphModule({}, graph)
    users = tuple(node for node, spec in zip(graph.nodes, specs, strict=False) if spec.kind is InputKind.USER_INPUT)
    in_spec = tree_flatten((tuple(0 for _ in users), {}))[1]
    out_spec = tree_flatten(tuple(0 for _ in outputs))[1]
    signature = ExportGraphSignature(
        input_specs=specs,
        output_specs=[OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=node.name), None) for node in outputs],
    )
    return ExportedProgram(
        root=module,
        graph=graph,
        graph_signature=signature,
        state_dict=state,
        range_constraints=constraints,
        module_call_graph=[ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec))],
        constants=lifted,
    )


def _forget_probe() -> None:
    """Empty a cache of executorch's that would keep the probe, weights and all, for as long as the process lives."""
    cached = getattr(sys.modules.get("executorch.exir.backend.utils"), "is_same_node", None)
    getattr(cached, "cache_clear", lambda: None)()


@cache
def missing_kernel(op: Any) -> str:
    """The kernel that ExecuTorch's runtime would run an op with, ``aten::fmax.out``, where it lacks it; else empty."""
    from executorch.exir.operator.convert import to_out_variant

    try:
        from executorch.extension.pybindings.portable_lib import _get_operator_names
    except ImportError:  # a build without the runtime: nothing is known to have a kernel
        return ""
    plain = op if isinstance(op, torch._ops.OpOverload) else getattr(op, "_op", None)
    if not isinstance(plain, torch._ops.OpOverload) or "sym" in plain._opname:
        return ""
    try:
        schema = (op.to_out_variant() if hasattr(op, "to_out_variant") else to_out_variant(op)[0])._schema
    except (RuntimeError, AttributeError):  # the latter for conv2d.padding, whose arguments it cannot read
        return f"{plain.name()}, which has no out variant"
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)
    return "" if name in set(_get_operator_names()) else name


def _kernels() -> set[str]:
    """The ops that the runtime of the installed ExecuTorch computes, without their overloads: ``aten::linear``."""
    try:
        from executorch.extension.pybindings.portable_lib import _get_operator_names
    except ImportError:  # a build without the runtime: nothing is known to have one
        return set()
    return {name.partition(".")[0] for name in _get_operator_names()}


def _is_heavy(node: Node) -> bool:
    value = node.meta.get("val")
    if node.op != "placeholder" or node.meta["kind"] == "input" or not isinstance(value, torch.Tensor):
        return False
    return bool(value.numel() * value.element_size() > HEAVY)


_KINDS = {
    "parameter": InputKind.PARAMETER,
    "buffer": InputKind.BUFFER,
    "constant": InputKind.CONSTANT_TENSOR,
    "input": InputKind.USER_INPUT,
}


def _stored(value: torch.Tensor, parameter: bool) -> torch.Tensor:
    """A tensor of the metadata of ``value``. Memory that nobody touches costs nothing, so weights are not filled."""
    tensor = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    if not value.is_floating_point():
        tensor.zero_()  # indices are read when the probe is cleaned up
    return torch.nn.Parameter(tensor, requires_grad=False) if parameter else tensor


def _question_outputs(question: Question) -> list[Node]:
    return [leaf for leaf in tree_leaves(question.graph.output_node().args[0]) if isinstance(leaf, Node)]


def _split(program: ExportedProgram, questions: list[Question]) -> list[tuple[set[Node], list[Node]]]:
    """For each question, its nodes in the Edge program (ancestors of its outputs) and the output nodes."""
    values = list(program.graph.output_node().args[0])
    values = values[len(values) - sum(len(_question_outputs(question)) for question in questions) :]
    parts = []
    for question in questions:
        count = len(_question_outputs(question))
        outputs, values = [v for v in values[:count] if isinstance(v, Node)], values[count:]
        nodes: set[Node] = set()
        pending = list(outputs)
        while pending:
            node = pending.pop()
            if node.op == "call_function" and node not in nodes:
                nodes.add(node)
                pending.extend(node.all_input_nodes)
        parts.append((nodes, outputs))
    return parts


def _is_boundary_cast(node: Node, nodes: set[Node], outputs: list[Node]) -> bool:
    """Whether a node changes only the dtype, of what comes from outside or of what leaves."""
    if not any(part in str(node.target) for part in _CASTS):
        return False
    source, result = node.all_input_nodes[0], node.meta.get("val")
    value = source.meta.get("val")
    if not (isinstance(result, torch.Tensor) and isinstance(value, torch.Tensor)) or value.dtype == result.dtype:
        return False
    enters = source.op == "placeholder"
    leaves = all(user not in nodes for user in node.users)
    return enters or leaves


def computes(node: Node) -> bool:
    """Whether a node of an Edge program is an op: not a getitem, a size, an assertion, a quantize or a dequantize."""
    return not any(part in op_name(node.target) for part in _IGNORED)


def readable(reason: str) -> str:
    """A backend's reason on one line, without the schemas that Edge ops print."""
    return re.sub(
        r"<EdgeOpOverload: ([\w.]+)>: schema = .*?\) -> (?:\([^)]*\)|[\w\[\]]+)", r"\1", " ".join(reason.split())
    )


def _decode(stored: dict[str, Any]) -> Answer | None:
    try:
        return Answer(tuple(Refusal(**refusal) for refusal in stored["refusals"]), str(stored["error"]))
    except (KeyError, TypeError):
        return None  # written by another version, or damaged: ask again


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the warnings and log records of a probe off the user's screen; they are about the probe, not the model."""
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)
