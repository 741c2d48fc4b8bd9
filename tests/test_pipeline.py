"""Pipelines: immutable, checked, run to a fixpoint, and observable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lowerfix
from lowerfix.base import Pass
from lowerfix.errors import LowerfixError
from lowerfix.pipeline import ROUNDS, Pipeline
from lowerfix.program import Program, Stage
from lowerfix.report import Outcome

aten = torch.ops.aten
X = torch.linspace(-3, 3, 8)


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(F.mish(x))


class Swap(Pass):
    """Replaces each use of one op by another; no test needs it to be right."""

    id: ClassVar[str] = "swap"
    old: ClassVar[Any] = aten.relu.default
    new: ClassVar[Any] = aten.tanh.default

    def run(self, program: Program, context: Any) -> bool:
        nodes = program.graph.find_nodes(op="call_function", target=self.old)
        for node in nodes:
            node.target = self.new
        return bool(nodes)


def swap(id: str, old: Any = aten.relu.default, new: Any = aten.tanh.default, **attributes: Any) -> Pass:
    return type("Named", (Swap,), {"id": id, "old": old, "new": new, **attributes})()


def program() -> torch.export.ExportedProgram:
    return torch.export.export(Model(), (X,))


def test_a_pipeline_is_a_sequence_of_passes() -> None:
    first, second = swap("first"), swap("second")
    pipeline = Pipeline([first, second])
    assert list(pipeline) == [first, second]
    assert pipeline.ids == ("first", "second")
    assert len(pipeline) == 2
    assert repr(pipeline) == "Pipeline(['first', 'second'])"


def test_ids_stand_for_passes() -> None:
    assert Pipeline(["strip-guards", "fold-constants"]).ids == ("strip-guards", "fold-constants")


def test_the_default_has_every_pass_each_after_those_it_needs() -> None:
    from lowerfix import registry

    pipeline = Pipeline.default()
    assert set(pipeline.ids) == {identifier for identifier, cls in registry.all_passes().items() if not cls.opt_in}
    others = [p.id for p in pipeline if "*" not in p.after]
    for p in pipeline:
        for earlier in [*(others if "*" in p.after else []), *(name for name in p.after if name != "*")]:
            assert earlier == p.id or pipeline.ids.index(earlier) < pipeline.ids.index(p.id)


def test_every_id_in_after_exists() -> None:
    """A misspelt constraint constrains nothing."""
    from lowerfix import registry

    passes = registry.all_passes()
    assert {earlier for cls in passes.values() for earlier in cls.after} <= {"*", *passes}


def test_changes_make_new_pipelines() -> None:
    pipeline = Pipeline(["strip-guards", "fold-constants"])
    assert pipeline.without("strip-guards").ids == ("fold-constants",)
    assert pipeline.only("fold-constants").ids == ("fold-constants",)
    assert pipeline.with_(swap("swap")).ids == ("strip-guards", "fold-constants", "swap")
    assert pipeline.with_("mish").ids == ("strip-guards", "fold-constants", "mish")
    assert pipeline.without().ids == pipeline.ids
    assert pipeline.ids == ("strip-guards", "fold-constants")


def test_a_pass_of_the_same_id_takes_the_place_of_the_old() -> None:
    old, new = swap("second"), swap("second")
    pipeline = Pipeline([swap("first"), old, swap("third")])
    replaced = pipeline.with_(new)
    assert replaced.ids == ("first", "second", "third")
    assert list(replaced)[1] is new
    assert list(pipeline)[1] is old


@pytest.mark.parametrize(
    "change",
    [lambda p: p.without("foldconstants"), lambda p: p.only("FoldConstants2"), lambda p: p.with_("fold-const")],
)
def test_unknown_ids_get_the_nearest(change: Callable[[Pipeline], Any]) -> None:
    with pytest.raises(LowerfixError, match=r"unknown pass .*did you mean 'fold-constants'"):
        change(Pipeline.default())


def test_a_known_pass_that_is_not_in_the_pipeline_cannot_be_singled_out() -> None:
    with pytest.raises(LowerfixError, match="not in this pipeline: mish; it has strip-guards"):
        Pipeline(["strip-guards"]).only("mish")


def test_a_repeated_pass_is_named() -> None:
    with pytest.raises(LowerfixError, match="repeated: twice"):
        Pipeline([swap("twice"), swap("once"), swap("twice")])


def test_each_broken_pair_is_named() -> None:
    late = swap("late", after=("early", "middle", "absent"))
    with pytest.raises(LowerfixError) as error:
        Pipeline([late, swap("early"), swap("middle", after=("early",))])
    assert "'late' has to run after 'early'" in str(error.value)
    assert "'late' has to run after 'middle'" in str(error.value)
    assert "absent" not in str(error.value)


def test_the_callback_sees_each_pass_between_its_neighbours(refusing: Any) -> None:
    seen = []

    def callback(before: Pass | None, working: Program, after: Pass | None) -> None:
        targets = [node.target for node in working.graph.nodes]
        seen.append((before and before.id, after and after.id, aten.tanh.default in targets))

    pipeline = Pipeline([swap("one"), swap("two", aten.sin.default)]).with_callback(callback)
    lowerfix.apply(program(), target=refusing(), pipeline=pipeline)
    rounds = [(None, "one", False), ("one", "two", True), ("two", None, True)]
    assert seen == [*rounds, *((before, after, True) for before, after, _ in rounds)]


def test_changes_keep_the_callback(refusing: Any) -> None:
    seen = []
    pipeline = Pipeline([swap("one"), swap("two")], lambda *args: seen.append(args))
    lowerfix.apply(program(), target=refusing(), pipeline=pipeline.without("one").with_(swap("three")), skip="three")
    assert {p.id for before, _, after in seen for p in (before, after) if p} == {"two"}


def test_passes_that_undo_each_other_are_named(refusing: Any) -> None:
    there, back = swap("there"), swap("back", aten.tanh.default, aten.relu.default)
    given = program()
    before = str(given.graph)
    with pytest.raises(LowerfixError) as error:
        lowerfix.apply(given, target=refusing(), pipeline=Pipeline([there, swap("idle", aten.sin.default), back]))
    assert f"after {ROUNDS} rounds" in str(error.value)
    assert "there" in str(error.value)
    assert "back" in str(error.value)
    assert "idle" not in str(error.value)
    assert str(given.graph) == before


def test_a_pass_that_raises_is_named(refusing: Any) -> None:
    class Broken(Pass):
        id = "broken"

        def run(self, program: Program, context: Any) -> bool:
            raise KeyError("oh")

    given = program()
    before = str(given.graph)
    with pytest.raises(LowerfixError, match="pass 'broken' failed: KeyError: 'oh'") as error:
        lowerfix.apply(given, target=refusing(), pipeline=Pipeline([swap("swap"), Broken()]))
    assert isinstance(error.value.__cause__, KeyError)
    assert str(given.graph) == before


class Breaks(Pass):
    """Makes the program return something else."""

    id = "breaks"

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def run(self, program: Program, context: Any) -> bool:
        output = program.graph.output_node()
        relu = output.args[0][0]
        mish = relu.args[0]
        if self.what == "shape":
            relu.meta["val"] = relu.meta["val"][:2]
        elif self.what == "dtype":
            relu.meta["val"] = relu.meta["val"].double()
        elif self.what == "count":
            output.args = ((relu, mish),)
        elif self.what == "order":
            relu.append(mish)
        elif self.what == "no value":
            del mish.meta["val"]
        elif self.what == "input":
            with program.graph.inserting_before(next(iter(program.graph.nodes))):
                program.graph.placeholder("extra").meta["val"] = relu.meta["val"]
        return True


@pytest.mark.parametrize("what", ["shape", "dtype", "count", "order", "no value", "input"])
def test_a_pass_that_breaks_the_program_is_caught_and_named(what: str, refusing: Any) -> None:
    given = program()
    before = str(given.graph)
    with pytest.raises(LowerfixError, match="pass 'breaks'"):
        lowerfix.apply(given, target=refusing(), pipeline=Pipeline([Breaks(what)]))
    assert str(given.graph) == before


def test_passes_run_only_at_their_stage(refusing: Any) -> None:
    ran = []

    class Noting(Pass):
        id = "noting"
        stages = frozenset({Stage.QUANTIZED})

        def run(self, program: Program, context: Any) -> bool:
            ran.append(program.stage)
            return False

    lowerfix.apply(program(), target=refusing(), pipeline=Pipeline([Noting()]))
    assert not ran


def test_findings_of_graph_passes_reach_the_report_once(refusing: Any) -> None:
    class Finds(Swap):
        id = "finds"

        def run(self, program: Program, context: Any) -> bool:
            for node in program.graph.find_nodes(op="call_function", target=aten.mish.default):
                context.find(self.id, node, Outcome.LEFT, "as an example")
            return super().run(program, context)

    report = lowerfix.Report()
    lowerfix.apply(program(), target=refusing(), pipeline=Pipeline([Finds()]), report=report)
    [finding] = report
    assert (finding.pass_id, finding.node, finding.op) == ("finds", "mish", "aten.mish.default")
    assert finding.source.startswith(f"{__file__}:")


def test_a_pass_alone_is_a_pass_of_torch_fx(refusing: Any) -> None:
    from torch.fx.passes.infra.pass_manager import PassManager

    given = program()
    p = swap("alone")
    result = p(given, target=refusing())
    assert result.modified
    assert result.exported_program is not None
    assert result.graph_module is result.exported_program.graph_module
    assert p.__name__ == "alone"
    again = p(result.exported_program, target=refusing())
    assert not again.modified
    p.target = refusing()
    managed = PassManager([p])(given.module(check_guards=False))
    assert managed.modified
    assert any(node.target is aten.tanh.default for node in managed.graph_module.graph.nodes)


def test_a_pass_alone_needs_a_target() -> None:
    with pytest.raises(LowerfixError, match=r"needs a target: lowerfix\.passes\.get\('alone', target="):
        swap("alone")(program())
