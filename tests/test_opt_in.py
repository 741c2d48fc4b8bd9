"""Opt-in passes: they run only where they are allowed, and tell what they would do where they are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import lowerfix
from lowerfix import pipeline, registry
from lowerfix.base import Context, Pass
from lowerfix.errors import LowerfixError
from lowerfix.program import Program
from lowerfix.report import Outcome, Report
from lowerfix.rewritepass import RewritePass
from lowerfix.rewriting import Rewrite
from lowerfix.targets import Target

aten = torch.ops.aten
X = torch.linspace(-3, 3, 8)
COST = "the numbers differ by up to 1"


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(torch.erf(x))


def hard_tanh(x: Tensor) -> Tensor:
    return torch.clamp(x, -1, 1)


class HardTanh(RewritePass):
    """Made of rewrites, as a module with OPT_IN gives it."""

    id: ClassVar[str] = "hard-tanh"
    opt_in: ClassVar[str] = COST
    rewrites: ClassVar[tuple[Rewrite, ...]] = (Rewrite(hard_tanh, (aten.tanh.default,)),)


class NoErf(Pass):
    """A graph pass that says itself what it would do."""

    id: ClassVar[str] = "no-erf"
    after: ClassVar[tuple[str, ...]] = ("fold-constants",)
    opt_in: ClassVar[str] = COST

    def run(self, program: Program, context: Context) -> bool:
        nodes = list(program.graph.find_nodes(op="call_function", target=aten.erf.default))
        for node in nodes:
            program.replace(node, node.args[0])
        return bool(nodes)

    def tell(self, program: Program, context: Context) -> None:
        for node in program.graph.find_nodes(op="call_function", target=aten.erf.default):
            self.offer(node, "erf is slow", context)


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registry.all_passes()
    monkeypatch.setattr(registry, "_registered", {**registry._registered, "hard-tanh": HardTanh, "no-erf": NoErf})
    caches = (registry._by_target, pipeline._default_order)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def target(refusing: Callable[..., Target]) -> Target:
    return refusing("aten.tanh.default")


def ops(program: torch.export.ExportedProgram) -> list[Any]:
    return [node.target for node in program.graph.nodes if node.op == "call_function"]


def test_by_default_it_changes_nothing_and_tells_how_to_allow_it_and_what_it_costs(target: Target) -> None:
    report = Report()
    program = lowerfix.apply(torch.export.export(Model(), (X,)), target=target, report=report)
    assert ops(program) == [aten.erf.default, aten.tanh.default]
    assert not report.of(Outcome.REWRITTEN)
    told = {finding.pass_id: finding for finding in report.of(Outcome.DECLINED)}
    assert {"hard-tanh", "no-erf"} <= set(told)
    assert told["hard-tanh"].reason == (
        f'refusing does not take it whole (aten.tanh.default: no); allow="hard-tanh" would help: {COST}'
    )
    assert told["no-erf"].reason == f'erf is slow; allow="no-erf" would help: {COST}'
    assert "test_opt_in.py" in told["no-erf"].source


@pytest.mark.parametrize("allow", ["hard-tanh", ("hard-tanh",), ["hard-tanh", "no-erf"]])
def test_where_it_is_allowed_it_runs(target: Target, allow: Any) -> None:
    report = Report()
    program = lowerfix.apply(torch.export.export(Model(), (X,)), target=target, report=report, allow=allow)
    assert aten.tanh.default not in ops(program)
    assert "hard-tanh" in {finding.pass_id for finding in report.of(Outcome.REWRITTEN)}
    assert "hard-tanh" not in {finding.pass_id for finding in report.of(Outcome.DECLINED)}


def test_nothing_is_told_where_there_is_nothing_to_do_or_where_it_is_skipped(refusing: Callable[..., Target]) -> None:
    report = Report()
    program = torch.export.export(Model(), (X,))
    lowerfix.apply(program, target=refusing(), report=report, skip="no-erf")
    lowerfix.apply(program, target=refusing("aten.tanh.default"), report=report, only="mish")
    lowerfix.apply(program, target=refusing("aten.tanh.default"), report=report, pipeline=pipeline.Pipeline(["mish"]))
    assert not report.of(Outcome.DECLINED)


def test_naming_it_as_a_pass_allows_it(target: Target) -> None:
    program = torch.export.export(Model(), (X,))
    assert registry.get("no-erf")()(program, target).modified
    assert "no-erf" in pipeline.Pipeline.default().with_("no-erf").ids


def test_it_runs_where_the_default_order_has_it() -> None:
    default = pipeline.Pipeline.default()
    allowed = default.allow("no-erf")
    assert "no-erf" not in default.ids
    assert allowed.ids.index("no-erf") > allowed.ids.index("fold-constants")
    assert allowed.without("no-erf").ids == default.ids
    assert allowed.allow("no-erf").ids == allowed.ids
    assert allowed.only("no-erf").ids == ("no-erf",)


@pytest.mark.parametrize("wrong", ["mish", "no-such-pass"])
def test_what_cannot_be_allowed_is_refused_with_those_that_can(wrong: str, target: Target) -> None:
    with pytest.raises(LowerfixError, match=rf"'{wrong}' is not an opt-in pass; .* hard-tanh, .*no-erf"):
        lowerfix.apply(torch.export.export(Model(), (X,)), target=target, allow=wrong)


def test_only_says_that_it_has_to_be_allowed(target: Target) -> None:
    with pytest.raises(LowerfixError, match="no-erf has to be allowed, by allow="):
        lowerfix.apply(torch.export.export(Model(), (X,)), target=target, only="no-erf")


def test_the_wrappers_take_it_too(target: Target) -> None:
    class Hook:
        def transform_for_annotation(self, model: Any) -> Any:
            return model

        transform_for_pre_decomposition = transform_for_annotation

    program = torch.export.export(Model(), (X,))
    partitioner = lowerfix.wrap_partitioner(Hook(), target=target, allow="no-erf")
    assert aten.erf.default not in ops(partitioner.transform_for_pre_decomposition(program))
    quantizer = lowerfix.wrap_quantizer(Hook(), target=target, allow="no-erf")
    model = quantizer.transform_for_annotation(program.module(check_guards=False))
    assert aten.erf.default not in [node.target for node in model.graph.nodes]


def test_a_module_says_it_by_a_constant() -> None:
    from types import ModuleType

    module = ModuleType("softer")
    module.OPT_IN = COST  # type: ignore[attr-defined]

    def softer(x: Tensor) -> Tensor:
        return x

    softer.__module__ = "softer"
    from lowerfix.rewriting import rewrite

    rewrite(aten.tanh.default)(softer)
    registry.register_module(module)
    assert registry.get("softer").opt_in == COST
