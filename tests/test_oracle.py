"""The oracle asks the installed backends: in few probes, and never the same twice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph

import lowerfix
from lowerfix import pipeline, targets
from lowerfix.oracle import HEAVY, Answer, Oracle, Question, Refusal
from lowerfix.program import Program, Stage
from lowerfix.rewritepass import _make_question
from lowerfix.rewriting import Match
from lowerfix.targets import Target

aten = torch.ops.aten
X = torch.linspace(-3, 3, 8).reshape(2, 4)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that nobody has written to."""
    monkeypatch.setenv("LOWERFIX_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def oracle() -> Iterator[Callable[..., Oracle]]:
    """The oracle that ``apply`` would use, made anew: it has nothing in memory."""

    def make(name: str | Target, stage: Stage = Stage.FLOAT) -> Oracle:
        pipeline.oracle_for.cache_clear()
        return pipeline.oracle_for(targets.get(name), stage)

    yield make
    pipeline.oracle_for.cache_clear()


def questions(function: Callable[..., Any], *inputs: Tensor) -> list[Question]:
    """A question for each op of a function but the casts, which belong to what they cast, as the engine asks them."""

    class Model(torch.nn.Module):
        def forward(self, *args: Tensor) -> Any:
            return function(*args)

    exported = torch.export.export(Model(), inputs)
    program = Program(lowerfix.apply(exported, target="tosa-fp", only="strip-guards"))
    nodes = [
        node for node in program.graph.nodes if isinstance(node.target, OpOverload) and node.target is not aten.to.dtype
    ]
    return [_make_question(Match.of(node, program), None, program) for node in nodes]


def question(function: Callable[..., Any], *inputs: Tensor) -> Question:
    return questions(function, *inputs)[0]


def plain(target: Any) -> Oracle:
    return Oracle(target, False, lambda program: program)


def several(x: Tensor) -> Any:
    return torch.atan2(x, x), x.argmax(), x + x, torch.sin(x), torch.relu(x)


def test_many_questions_are_one_probe(own_cache: Path, oracle: Any) -> None:
    asked = oracle("tosa-fp")
    answers = asked.ask(questions(several, X))
    assert asked.probes == 1
    assert [answer.taken for answer in answers] == [False, False, True, True, True]
    assert answers[0].refusals[0].op == "aten.atan2.default"
    assert "Not included" in answers[0].reason

    assert asked.ask([question(torch.sin, X), question(torch.relu, X)]) == [answers[3], answers[4]]
    assert asked.probes == 1, "what is known is not asked again"

    again = oracle("tosa-fp")
    assert again is not asked
    assert again.ask(questions(several, X)) == answers
    assert again.probes == 0, "another process reads the answers from the disk"

    for file in own_cache.rglob("*.json"):
        file.write_text('{"key": 1', encoding="utf-8")
    damaged = oracle("tosa-fp")
    assert damaged.ask([question(torch.sin, X)]) == [answers[3]]
    assert damaged.probes == 1, "a damaged entry is asked again"
    repaired = oracle("tosa-fp")
    repaired.ask([question(torch.sin, X)])
    assert repaired.probes == 0


def test_refusals_without_a_reason_cost_no_more_probes(own_cache: Path, oracle: Any) -> None:
    """XNNPACK seldom says why."""
    asked = oracle("xnnpack")
    answers = asked.ask(questions(lambda x: (torch.atan2(x, x), torch.erf(x), torch.asin(x), torch.relu(x)), X))
    assert [answer.taken for answer in answers] == [False, False, False, True]
    assert asked.probes == 1


def test_equal_questions_are_one() -> None:
    one, two = question(torch.sin, X), question(torch.sin, X.clone())
    assert one.key == two.key
    others = [
        question(torch.cos, X),
        question(torch.sin, X.double()),
        question(torch.sin, X[:1]),
        question(torch.sin, X.t()),
        question(lambda x: torch.sum(x, 0), X),
        question(lambda x: torch.sum(x, 1), X),
    ]
    assert len({one.key, *(other.key for other in others)}) == 7


def test_of_several_outputs_only_those_that_are_read_count(oracle: Any) -> None:
    """Arm takes max along a dimension where its indices are not read."""
    values, both, indices = questions(lambda x: (x.max(1).values, x.max(1), x.max(1).indices.to(torch.int32)), X)
    outputs = [q.graph.output_node().all_input_nodes for q in (values, both, indices)]
    assert [len(nodes) for nodes in outputs] == [1, 2, 1]
    assert outputs[2][0].meta["val"].dtype == torch.int32
    assert [answer.taken for answer in oracle("tosa-fp").ask([values, both, indices])] == [True, False, False]


def test_an_int32_index_is_asked_about_with_its_cast(oracle: Any) -> None:
    """Arm takes argmax where its result is read as int32, and not where it is read as int64."""
    asked = oracle("vgf")
    cast, plain = asked.ask(questions(lambda x: (x.argmax(-1).to(torch.int32), x.argmax(0)), X))
    assert cast.taken, cast.reason
    assert not plain.taken


def test_the_probe_of_an_int8_target_is_quantized(oracle: Any) -> None:
    asked = oracle("ethos-u85")
    assert asked.quantize
    silu, mish = asked.ask(questions(lambda x: (torch.nn.functional.silu(x), torch.nn.functional.mish(x)), X))
    assert silu.taken, silu.reason
    assert not mish.taken
    assert not oracle("ethos-u85", Stage.QUANTIZED).quantize
    assert not oracle("vgf").quantize


def test_no_question_is_no_probe(oracle: Any) -> None:
    asked = oracle("tosa-fp")
    assert asked.ask([]) == []
    assert asked.probes == 0


# With a target whose partitioner dies: the engine's own logic ---------------------------------------------------------


class Dying(targets.Target):
    """TOSA-FP, except that its partitioner dies on sin."""

    requirements = targets.get("tosa-fp").requirements

    def partitioner(self) -> Any:
        real = targets.get("tosa-fp").partitioner()
        partition = real.partition

        def dying(edge: Any) -> Any:
            if any("aten.sin" in str(node.target) for node in edge.graph.nodes):
                raise ValueError("sin is deadly\nand so on")
            return partition(edge)

        real.partition = dying
        return real

    def executable_partitioner(self) -> Any:
        return targets.get("tosa-fp").executable_partitioner()

    def quantizer(self) -> Any:
        raise NotImplementedError


def test_what_the_backend_dies_on_spoils_no_other_answer(own_cache: Path) -> None:
    asked = plain(Dying("dying"))
    answers = asked.ask(questions(lambda x: (torch.relu(x), torch.sin(x), torch.atan2(x, x)), X))
    assert [answer.taken for answer in answers] == [True, False, False]
    assert answers[1].error == "ValueError: sin is deadly"
    assert answers[1].reason == "the lowering dies on it: ValueError: sin is deadly"
    assert not answers[2].error


class Broken(Dying):
    """A backend that cannot even be set up, for now."""

    def partitioner(self) -> Any:
        raise OSError("disk full")


def test_a_failure_of_the_machine_is_not_remembered_on_disk(own_cache: Path) -> None:
    """Otherwise one bad moment would disable a rewrite for good."""
    with contextlib.suppress(OSError):
        plain(Broken("broken")).ask([question(torch.relu, X)])
    assert not list(own_cache.rglob("*.json"))


@pytest.mark.parametrize("how", ["off", "unwritable"])
def test_without_a_cache_the_answers_are_the_same(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "off":
        monkeypatch.setenv("LOWERFIX_CACHE", "0")
    else:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("LOWERFIX_CACHE_DIR", str(tmp_path / "file"))
    asked = plain(targets.get("tosa-fp"))
    for _ in range(2):
        assert asked.ask([question(torch.relu, X)])[0].taken
    assert asked.probes == 1
    assert plain(targets.get("tosa-fp"))._disk.get(question(torch.relu, X).key) is None


# Answers --------------------------------------------------------------------------------------------------------------


CAST, ATAN = Refusal("cast", "int64", boundary_cast=True), Refusal("atan2", "unknown")


@pytest.mark.parametrize(
    ("now", "then", "accepted"),
    [
        (Answer((ATAN,)), Answer(), True),
        (Answer((ATAN,)), Answer((CAST,)), True),
        (Answer((ATAN,)), Answer((CAST, CAST)), False),
        (Answer((ATAN,)), Answer((ATAN,)), False),
        (Answer((ATAN, ATAN)), Answer((CAST, ATAN)), False),
        (Answer((ATAN,)), Answer(error="dies"), False),
        (Answer(error="dies"), Answer((CAST, CAST)), True),
        (Answer(error="dies"), Answer(error="dies"), False),
    ],
)
def test_a_replacement_may_leave_no_more_than_casts(now: Answer, then: Answer, accepted: bool) -> None:
    assert then.accepts_in_place_of(now) is accepted


def test_a_question_tells_whether_it_is_symbolic() -> None:
    assert not question(torch.sin, X).symbolic
    graph = Graph()
    graph.output((graph.placeholder("x"),))
    assert not Question(graph).symbolic


def test_a_heavy_weight_is_answered_for_without_being_read(
    own_cache: Path, oracle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe holds weights of the program's sizes; what nobody touches takes no memory."""

    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(1 << 14, 1 << 10)

        def forward(self, ids: Tensor) -> Any:
            return self.table(ids)

    program = torch.export.export(Tokens(), (torch.tensor([[1, 2]]),))
    working = Program(program)
    match = Match.of(next(node for node in working.graph.nodes if node.op == "call_function"), working)
    about = _make_question(match, None, working)
    assert about.heavy
    assert [n.meta["kind"] for n in about.lightened().graph.nodes if n.op == "placeholder"] == ["input", "input"]
    assert "parameter" in about.key, "the question itself is about a parameter"
    oracle("vgf")  # anew: nothing is known yet
    lowered: list[bool] = []
    lower = Oracle._lower

    def watched(probe: torch.export.ExportedProgram, partitioner: Any) -> None:
        lowered.append("TOSA" in type(partitioner).__name__ and bool(probe.state_dict))
        lower(probe, partitioner)

    monkeypatch.setattr(Oracle, "_lower", staticmethod(watched))
    result = lowerfix.apply(program, target="vgf")
    assert "aten.to.dtype" in str(result.graph)
    assert lowered
    assert not any(lowered), "the preprocess got a weight"


def test_what_dies_only_of_its_light_form_is_taken(own_cache: Path, oracle: Any) -> None:
    """A transposed convolution cannot have its weight as an input; the answer is that of the real weight."""
    oracle("vgf")
    model = torch.nn.ConvTranspose1d(1024, 1024, 3).eval()
    assert model.weight.nbytes > HEAVY
    report = lowerfix.Report()
    lowerfix.apply(torch.export.export(model, (torch.randn(1, 1024, 4),)), target="vgf", report=report)
    assert {finding.pass_id for finding in report.of("rewritten")} == {"conv-transpose1d", "fold-constants"}
