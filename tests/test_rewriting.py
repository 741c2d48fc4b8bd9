"""Rewrites as plain functions: matching, tracing, choosing among alternatives, splicing."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import lowerfix
from lowerfix import lowering, registry, targets
from lowerfix.base import Context
from lowerfix.errors import Decline, LowerfixError
from lowerfix.pipeline import Pipeline
from lowerfix.program import Program
from lowerfix.report import Report
from lowerfix.rewritepass import RewritePass
from lowerfix.rewriting import Match, Rewrite, constant, in_int8, rewrite

aten = torch.ops.aten
X = torch.linspace(-3, 3, 24).reshape(4, 6)
OUTSIDE = torch.ones(6)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def export(function: Callable[..., Any], x: Tensor = X, **options: Any) -> ExportedProgram:
    return torch.export.export(Function(function), (x,), **options)


def pass_of(*rewrites: tuple[Callable[..., Any], Any, float], id: str = "test-rewrite") -> RewritePass:
    declared = tuple(Rewrite(function, (op,), cost) for function, op, cost in sorted(rewrites, key=lambda r: r[2]))
    return type("TestRewrite", (RewritePass,), {"id": id, "rewrites": declared, "__module__": __name__})()


def run(program: Any, target: Any, *passes: Any) -> tuple[Any, Report]:
    report = Report()
    result = lowerfix.apply(program, target=target, pipeline=Pipeline(passes), report=report)
    return result, report


def ops(program: ExportedProgram) -> list[Any]:
    return [node.target for node in program.graph.nodes if node.op == "call_function"]


def by_tanh(x: Tensor) -> Tensor:
    return x * torch.tanh(F.softplus(x))


def mish_only(*functions: Callable[..., Any]) -> RewritePass:
    return pass_of(*((function, aten.mish.default, float(cost)) for cost, function in enumerate(functions)))


def dynamic(function: Callable[..., Any]) -> ExportedProgram:
    return export(function, dynamic_shapes=({0: Dim("batch", min=1, max=100)},))


# Declaring ------------------------------------------------------------------------------------------------------------


def test_only_op_overloads_can_be_rewritten() -> None:
    with pytest.raises(LowerfixError, match="op overloads"):
        rewrite(torch.argmin)
    with pytest.raises(LowerfixError, match="op overloads"):
        rewrite(aten.mish)


def test_a_rewrite_knows_whether_the_op_is_computed_in_int8() -> None:
    def floor(x: Tensor) -> Tensor:
        return torch.ceil(x) if in_int8() else torch.trunc(x)

    def traced(program: ExportedProgram, target: str) -> list[Any]:
        context = Context(targets.get(target), None, Report())  # type: ignore[arg-type]
        [node] = program.graph.find_nodes(op="call_function", target=aten.floor.default)
        chosen = context.traced("floor", Rewrite(floor, (aten.floor.default,)), Match.of(node, Program(program)))
        return [node.target for node in chosen.graph.nodes if node.op == "call_function"]

    program = export(torch.floor)
    assert traced(program, "vgf") == [aten.trunc.default]
    assert traced(program, "ethos-u85") == [aten.ceil.default]
    assert traced(lowering.quantize(program, "tosa-int", [(X,)]), "vgf") == [aten.ceil.default]
    assert not in_int8()


# Choosing -------------------------------------------------------------------------------------------------------------


def test_the_cheapest_alternative_that_is_taken_whole_is_used(refusing: Any) -> None:
    def by_exp(x: Tensor) -> Tensor:
        return x * torch.tanh(torch.log1p(torch.exp(x)))

    def dear(x: Tensor) -> Tensor:
        return x * torch.tanh(torch.sin(x))

    chosen = mish_only(by_exp, by_tanh, dear)
    result, report = run(export(F.mish), refusing("aten.mish.default", "aten.log1p.default"), chosen)
    assert ops(result) == [aten.softplus.default, aten.tanh.default, aten.mul.Tensor]
    assert "it takes aten.softplus.default, aten.tanh.default, aten.mul.Tensor" in report.findings[0].reason


def test_what_the_backend_takes_is_left_alone(refusing: Any) -> None:
    program = export(F.mish)
    result, report = run(program, refusing(), mish_only(by_tanh))
    assert str(result.graph) == str(program.graph)
    assert not report.findings


def test_where_no_alternative_serves_each_reason_is_reported(refusing: Any) -> None:
    def picky(x: Tensor) -> Tensor:
        raise Decline("x is too blue; paint it red")

    program = export(F.mish)
    result, report = run(program, refusing("aten.mish.default", "aten.tanh.default"), mish_only(picky, by_tanh))
    assert str(result.graph) == str(program.graph)
    [finding] = report.of("declined")
    assert "picky: x is too blue; paint it red" in finding.reason
    assert "by_tanh: refusing does not take the replacement whole either (aten.tanh.default: no)" in finding.reason
    assert finding.pass_id == "test-rewrite"


def test_a_decline_about_a_symbolic_argument_has_the_users_line(refusing: Any) -> None:
    def topk(x: Tensor, k: int, *rest: Any) -> Any:
        if not isinstance(k, int):
            raise Decline("k is symbolic; only a constant k unrolls")
        return torch.topk(x, k, *rest)

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.topk(x, x.shape[0] // 2, -1)[0]

    program = torch.export.export(Model(), (X,), dynamic_shapes=({0: Dim("n", min=4, max=8)},))
    _, report = run(program, refusing("aten.topk.default"), pass_of((topk, aten.topk.default, 1)))
    [finding] = report.of("declined")
    assert "k is symbolic; only a constant k unrolls" in finding.reason
    file, _, line = finding.source.rpartition(":")
    assert file == __file__
    with open(__file__, encoding="utf-8") as lines:
        assert "torch.topk(x, x.shape[0] // 2, -1)" in list(lines)[int(line) - 1]


def test_a_replacement_that_needs_a_rewrite_itself_is_expanded(refusing: Any) -> None:
    """softplus is refused too, and the pipeline has a rewrite for it."""
    program = export(F.mish)
    result, report = run(
        program, refusing("aten.mish.default", "aten.softplus.default"), mish_only(by_tanh), "softplus"
    )
    assert len(report.of("rewritten")) == 1  # both at one go
    assert aten.softplus.default not in ops(result)
    assert aten.log1p.default in ops(result)
    torch.testing.assert_close(result.module()(X), F.mish(X))


def test_a_pass_that_was_left_out_serves_no_replacement_either(refusing: Any) -> None:
    report = Report()
    pipeline = Pipeline([mish_only(by_tanh), "softplus"])
    target = refusing("aten.mish.default", "aten.softplus.default")
    result = lowerfix.apply(export(F.mish), target=target, pipeline=pipeline, skip="softplus", report=report)
    assert ops(result) == [aten.mish.default]
    assert report.of("declined")


def test_a_rewrite_that_needs_itself_for_ever_is_declined(refusing: Any) -> None:
    class Registered(RewritePass):
        id = "test-endless"
        rewrites = (Rewrite(lambda x: F.hardswish(x) + 0, (aten.hardswish.default,)),)

    registry.register(Registered)
    registry._by_target.cache_clear()
    try:
        result, report = run(export(F.hardswish), refusing("aten.hardswish.default"), Registered())
    finally:
        del registry._registered["test-endless"]
        registry._by_target.cache_clear()
    assert ops(result) == [aten.hardswish.default]
    assert report.of("declined")


# Tracing --------------------------------------------------------------------------------------------------------------


def test_equal_layers_are_traced_once(refusing: Any) -> None:
    calls = []

    def counted(x: Tensor) -> Tensor:
        calls.append(x.shape)
        return by_tanh(x)

    def deep(x: Tensor) -> Tensor:
        for _ in range(50):
            x = F.mish(x)
        return F.mish(x.reshape(-1))

    result, report = run(export(deep), refusing("aten.mish.default"), mish_only(counted))
    assert calls == [(4, 6), (24,)]
    assert len(report.of("rewritten")) == 51
    torch.testing.assert_close(result.module()(X), deep(X))


def test_composite_ops_stay_whole(refusing: Any) -> None:
    result, _ = run(export(F.mish), refusing("aten.mish.default"), mish_only(lambda x: F.gelu(x) + F.hardswish(x)))
    assert ops(result) == [aten.gelu.default, aten.hardswish.default, aten.add.Tensor]


def test_tables_made_by_a_rewrite_are_stored(refusing: Any) -> None:
    def indexed(x: Tensor) -> Tensor:
        return by_tanh(x) + torch.arange(6) * 0

    result, _ = run(export(F.mish), refusing("aten.mish.default"), mish_only(indexed), "fold-constants")
    assert aten.arange.default not in ops(result)
    assert len(result.graph_signature.buffers) == 1
    torch.testing.assert_close(result.module()(X), F.mish(X))


def test_small_integer_constants_are_shown_and_others_are_not(refusing: Any) -> None:
    seen = []

    def select(x: Tensor, dim: int, index: Tensor) -> Tensor:
        seen.append((constant(x), constant(index)))
        return torch.index_select(x, dim, index.to(torch.int32))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("at", torch.tensor([2, 0]))

        def forward(self, x: Tensor) -> Tensor:
            return torch.index_select(x, 0, self.at)

    program = torch.export.export(Model(), (X,))
    run(program, refusing("aten.index_select.default"), pass_of((select, aten.index_select.default, 1)))
    x, index = seen[0]  # in the second round it is asked about its own result
    assert x is None
    assert index.tolist() == [2, 0]


def test_equal_ops_on_other_constants_are_not_the_same_match(refusing: Any) -> None:
    def select(x: Tensor, dim: int, index: Tensor) -> Tensor:
        first = int(constant(index)[0])
        return x.narrow(dim, first, 1).clone()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("one", torch.tensor([1]))
            self.register_buffer("two", torch.tensor([2]))

        def forward(self, x: Tensor) -> Any:
            return torch.index_select(x, 0, self.one), torch.index_select(x, 0, self.two)

    program = torch.export.export(Model(), (X,))
    result, _ = run(program, refusing("aten.index_select.default"), pass_of((select, aten.index_select.default, 1)))
    torch.testing.assert_close(result.module()(X), (X[1:2], X[2:3]))


# Symbolic sizes -------------------------------------------------------------------------------------------------------


def assumptions(program: ExportedProgram) -> Any:
    sizes = Program(program).fake_mode.shape_env
    return str(sizes.guards), str(sizes.replacements), str(sizes.var_to_range)


def test_a_rewrite_that_asks_for_a_symbolic_size_is_declined_and_pins_nothing(refusing: Any) -> None:
    def pinning(x: Tensor) -> Tensor:
        return by_tanh(x) if x.shape[0] == 4 else x

    program = dynamic(lambda x: (F.mish(x), F.mish(x * 2)))
    before = assumptions(program), str(program.graph_module.print_readable(print_output=False))
    result, report = run(program, refusing("aten.mish.default"), mish_only(pinning))
    assert (assumptions(program), str(program.graph_module.print_readable(print_output=False))) == before
    assert ops(result) == ops(program)
    assert all("symbolic size" in finding.reason for finding in report.of("declined"))
    assert len(report.of("declined")) == 2


def test_what_a_declined_rewrite_asked_for_is_not_taken_as_known_later(refusing: Any) -> None:
    """The first decline must not leave ``batch <= 50`` behind: the second match would silently rely on it."""

    def small_only(x: Tensor) -> Tensor:
        return by_tanh(x) if x.shape[0] <= 50 else x

    program = dynamic(lambda x: (F.mish(x), F.mish(torch.cat([x, x], 1))))
    before = assumptions(program)
    result, report = run(program, refusing("aten.mish.default"), mish_only(small_only))
    assert assumptions(program) == before
    assert len(report.of("declined")) == 2
    x = torch.randn(80, 6)
    torch.testing.assert_close(result.module()(x), (F.mish(x), F.mish(torch.cat([x, x], 1))))


def test_a_rewrite_may_compute_with_symbolic_sizes(refusing: Any) -> None:
    def reshaping(x: Tensor) -> Tensor:
        return by_tanh(x.reshape(x.shape[0] * 6)).reshape(x.shape[0], 6)

    program = dynamic(F.mish)
    before = assumptions(program)
    result, report = run(program, refusing("aten.mish.default"), mish_only(reshaping))
    assert report.of("rewritten")
    assert assumptions(program) == before
    x = torch.randn(70, 6)
    torch.testing.assert_close(result.module()(x), F.mish(x))


def test_derived_sizes_are_no_obstacle(refusing: Any) -> None:
    """The strides of this Mish are no symbols but expressions of them."""
    program = export(lambda x: F.mish(torch.cat([x, x], 1)), dynamic_shapes=({1: Dim("n", min=2, max=90)},))
    result, _ = run(program, refusing("aten.mish.default"), mish_only(by_tanh))
    x = torch.randn(4, 77)
    torch.testing.assert_close(result.module()(x), F.mish(torch.cat([x, x], 1)))


# Errors ---------------------------------------------------------------------------------------------------------------


def boom(x: Tensor) -> Tensor:
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (boom, "ValueError: boom"),
        (lambda x: x.double(), "float64"),
        (lambda x: x[None], "returned"),
        (lambda x: (x, x), "returned"),
        (lambda x: None, "returned"),
    ],
    ids=["raises", "dtype", "shape", "two for one", "nothing"],
)
def test_a_broken_rewrite_names_pass_node_and_line(function: Any, what: str, refusing: Any) -> None:
    program = export(lambda x: F.mish(x) + 1)
    before = str(program.graph)
    with pytest.raises(LowerfixError) as error:
        run(program, refusing("aten.mish.default"), mish_only(function))
    message = str(error.value)
    assert what in message
    assert "'test-rewrite'" in message
    assert "node 'mish' (aten.mish.default)" in message
    assert f"from {__file__}:" in message
    assert str(program.graph) == before


@pytest.mark.parametrize("table", [lambda: torch.tensor([1.0]), lambda: OUTSIDE], ids=["inside", "outside"])
def test_a_tensor_that_a_rewrite_brings_along_becomes_a_buffer(table: Any, refusing: Any) -> None:
    """``torch.tensor`` in a rewrite, or a table of its module."""
    program = export(lambda x: F.mish(x) + F.mish(x + 1))
    result, _ = run(program, refusing("aten.mish.default"), mish_only(lambda x: by_tanh(x) * table()), "fold-constants")
    assert aten.mish.default not in ops(result)
    scale = table()
    torch.testing.assert_close(result.module()(X), F.mish(X) * scale + F.mish(X + 1) * scale)
    assert len(result.state_dict) == 2
    assert not program.state_dict


# Splicing -------------------------------------------------------------------------------------------------------------


def test_new_ops_carry_the_origin_of_the_old(refusing: Any) -> None:
    class Block(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.mish(x)

    program = torch.export.export(nn.Sequential(Block()), (X,))
    [old] = program.graph.find_nodes(op="call_function", target=aten.mish.default)
    old.meta["custom"] = {"mine": 1}
    result, _ = run(program, refusing("aten.mish.default"), mish_only(by_tanh))
    new = [node for node in result.graph.nodes if node.op == "call_function"]
    assert len(new) == 3
    for node in new:
        assert node.meta["stack_trace"] == old.meta["stack_trace"]
        assert node.meta["nn_module_stack"] == old.meta["nn_module_stack"]
        assert node.meta["custom"] == {"mine": 1, "lowerfix": "test-rewrite"}
        assert node.meta["from_node"][0].name == old.name
        assert "test-rewrite" in node.meta["from_node"][0].pass_name
        assert node.meta["val"].shape == (4, 6)
    assert old.meta["custom"] == {"mine": 1}


def sorted_topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, indices = torch.sort(x, dim, largest)
    return values[..., :k].clone(), indices[..., :k].clone()


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.topk(x, 2),
        lambda x: torch.topk(x, 2)[0],
        lambda x: torch.topk(x, 2)[1],
        lambda x: (lambda y: (y[1], y[0] + 1, y[0]))(torch.topk(x, 2)),
    ],
    ids=["both", "first", "second", "swapped and repeated"],
)
def test_an_op_with_several_results(model: Any, refusing: Any) -> None:
    result, _ = run(export(model), refusing("aten.topk.default"), pass_of((sorted_topk, aten.topk.default, 1)))
    assert aten.topk.default not in ops(result)
    assert aten.sort.default in ops(result)
    result.validate()
    torch.testing.assert_close(list(result.module()(X)), list(model(X)))


@pytest.mark.parametrize("kind", [tuple, list, torch.return_types.sort])
def test_several_results_may_come_in_any_sequence(kind: Any, refusing: Any) -> None:
    def topk(x: Tensor, k: int, dim: int = -1) -> Any:
        return kind(torch.sort(x, dim, True))

    program = export(lambda x: torch.topk(x, 6))
    result, _ = run(program, refusing("aten.topk.default"), pass_of((topk, aten.topk.default, 1)))
    torch.testing.assert_close(list(result.module()(X)), list(torch.topk(X, 6)))


def test_an_op_that_returns_a_list_may_be_replaced_by_a_tuple(refusing: Any) -> None:
    def unbind(x: Tensor, dim: int = 0) -> Any:
        return tuple(x.select(dim, index) for index in range(x.shape[dim]))

    program = export(lambda x: torch.unbind(x)[1] + 1)
    result, _ = run(program, refusing("aten.unbind.int"), pass_of((unbind, aten.unbind.int, 1)))
    torch.testing.assert_close(result.module()(X), X[1] + 1)


def test_a_replacement_may_be_the_argument_itself(refusing: Any) -> None:
    program = export(lambda x: (F.dropout(x, 0.5, training=False), aten.alias.default(x) * 2))
    target = refusing("aten.dropout.default", "aten.alias.default")
    rewrites = pass_of((lambda x, p, train: x, aten.dropout.default, 1), (lambda x: x, aten.alias.default, 1))
    result, _ = run(program, target, rewrites)
    assert ops(result) == [aten.mul.Tensor]
    result.validate()
    torch.testing.assert_close(result.module()(X), (X, X * 2))


def test_a_replacement_that_shares_memory_is_declined_where_ops_write_in_place(refusing: Any) -> None:
    def model(x: Tensor) -> Tensor:
        y = x * 1
        z = F.mish(y)
        z.add_(1)
        return y + z

    program = export(model)
    result, report = run(program, refusing("aten.mish.default"), mish_only(lambda x: x))
    assert "share memory" in report.of("declined")[0].reason
    torch.testing.assert_close(result.module()(X), model(X))


def diagonal_of(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return torch.stack([x[i, i] for i in range(min(x.shape))])


def test_a_view_may_be_replaced_by_a_copy_with_other_strides(refusing: Any) -> None:
    copied = pass_of((diagonal_of, aten.diagonal.default, 1))
    result, report = run(export(lambda x: x.diagonal() * 2), refusing("aten.diagonal.default"), copied)
    assert not report.of("declined")
    assert aten.stack.default in ops(result)
    torch.testing.assert_close(result.module()(X), X.diagonal() * 2)


def test_a_view_is_not_copied_where_ops_write_through_it(refusing: Any) -> None:
    def model(x: Tensor) -> Tensor:
        y = x * 1
        y.diagonal().add_(1)
        return y

    copied = pass_of((diagonal_of, aten.diagonal.default, 1))
    program = export(model)
    module, report = run(program.module(check_guards=False), refusing("aten.diagonal.default"), copied)
    assert "may write" in report.of("declined")[0].reason
    torch.testing.assert_close(module(X), model(X))
    result, _ = run(program, refusing("aten.diagonal.default"), copied)  # the program gets its functional form first
    assert aten.stack.default in ops(result)
    torch.testing.assert_close(result.module()(X), model(X))


@pytest.mark.parametrize(
    "x",
    [X.t(), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), X.as_strided((3, 2), (1, 9)), X[:, :1]],
    ids=["transposed", "channels last", "with gaps", "one wide"],
)
def test_strides_are_kept(x: Tensor, refusing: Any) -> None:
    """A later ``view`` was traced with the old strides."""
    program = export(F.mish, x)
    result, _ = run(program, refusing("aten.mish.default"), mish_only(by_tanh))
    assert result.module()(x).stride() == F.mish(x).stride()


def test_a_replacement_with_other_strides_is_laid_out_anew(refusing: Any) -> None:
    def model(x: Tensor) -> Tensor:
        return F.mish(x).view(-1)

    result, _ = run(export(model), refusing("aten.mish.default"), mish_only(lambda x: by_tanh(x.t().contiguous()).t()))
    torch.testing.assert_close(result.module()(X), model(X))


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1), (1, 2, 0)])
def test_a_result_laid_out_in_another_order_of_dimensions_gets_that_order(order: Any, refusing: Any) -> None:
    x = torch.randn(2, 3, 4).permute(order)
    model = mish_only(lambda y: by_tanh(y.contiguous()))
    result, _ = run(export(F.mish, x), refusing("aten.mish.default"), model)
    assert "aten.mish.default" not in str(result.graph)
    assert result.module()(x).stride() == F.mish(x).stride()
    torch.testing.assert_close(result.module()(x), F.mish(x))


class Visible(nn.Module):
    """What Mish changes in place is read again, through a view."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        z = F.mish(y[1:], inplace=True)
        return y.sum(0) + z.sum(0)


def test_an_in_place_op_is_rewritten_where_nothing_sees_the_difference(refusing: Any) -> None:
    program = export(lambda x: F.mish(x * 1, inplace=True))
    assert aten.mish_.default in ops(program)
    for form in (program, program.module(check_guards=False)):
        result, report = run(form, refusing("aten.mish.default"), "out-of-place", mish_only(by_tanh))
        assert not {aten.mish_.default, aten.mish.default} & {node.target for node in result.graph.nodes}
        assert report.of("rewritten")


def test_an_in_place_op_that_others_see_is_rewritten_in_a_program_only(refusing: Any) -> None:
    program = torch.export.export(Visible(), (X,))
    passes = ("out-of-place", mish_only(by_tanh))
    result, _ = run(program, refusing("aten.mish.default"), *passes)
    assert aten.tanh.default in ops(result)
    torch.testing.assert_close(result.module()(X), Visible()(X))
    module, report = run(program.module(check_guards=False), refusing("aten.mish.default"), *passes)
    assert "ExportedProgram" in report.of("declined")[0].reason
    torch.testing.assert_close(module(X), Visible()(X))


def test_a_rewrite_of_an_in_place_op_cannot_lose_what_it_changes(refusing: Any) -> None:
    program = torch.export.export(Visible(), (X,))
    try:
        result, _ = run(program, refusing("aten.mish_.default"), pass_of((by_tanh, aten.mish_.default, 1)))
    except LowerfixError as error:
        assert "in place" in str(error)  # noqa: PT017
    else:
        torch.testing.assert_close(result.module()(X), Visible()(X))


def test_keyword_arguments_reach_the_rewrite(refusing: Any) -> None:
    seen = []

    def add(x: Tensor, y: Tensor, *, alpha: float = 1) -> Tensor:
        seen.append(alpha)
        return x + y * alpha

    program = export(lambda x: torch.add(x, x * 2, alpha=3))
    result, _ = run(program, refusing("aten.add.Tensor"), pass_of((add, aten.add.Tensor, 1)))
    assert 3 in seen
    torch.testing.assert_close(result.module()(X), X * 7)


def test_a_tensor_made_in_a_rewrite_is_neither_copied_nor_detached(refusing: Any) -> None:
    """An op that works in place would make the program invalid."""
    rewrites = mish_only(lambda x: by_tanh(x) * torch.tensor([2.0]))
    result, _ = run(export(F.mish), refusing("aten.mish.default"), rewrites)
    assert not {aten.lift_fresh_copy.default, aten.detach_.default} & set(ops(result))
    torch.testing.assert_close(result.module()(X), F.mish(X) * 2)


def test_mish_of_integers_is_declined(refusing: Any) -> None:
    """torch refuses to export it, so the program is made by hand."""
    program = export(lambda x: F.relu(x), torch.arange(6))
    [node] = program.graph.find_nodes(op="call_function", target=aten.relu.default)
    node.target = aten.mish.default
    report = Report()
    result = lowerfix.apply(program, target=refusing("aten.mish.default"), report=report, only="mish")
    assert ops(result) == [aten.mish.default]
    assert "Mish of torch.int64 is not defined" in report.of("declined")[0].reason


def test_an_argument_without_a_value_is_declined(refusing: Any) -> None:
    program = export(lambda x: F.mish(x * 2))
    [node] = program.graph.find_nodes(op="call_function", target=aten.mul.Tensor)
    del node.meta["val"]
    _, report = run(program.graph_module, refusing("aten.mish.default"), mish_only(by_tanh))
    assert "carries no fake value; re-export the program" in report.of("declined")[0].reason


def test_a_rewrite_that_holds_an_index_in_float_is_not_for_targets_that_quantize() -> None:
    class Two(RewritePass):
        rewrites = (Rewrite(torch.sin, (aten.mish.default,)), Rewrite(torch.cos, (aten.mish.default,), float_only=True))

    node = torch.fx.Graph().call_function(aten.mish.default)
    for name, functions in (("ethos-u85", [torch.sin]), ("vgf", [torch.sin, torch.cos])):
        context = SimpleNamespace(target=targets.get(name))
        assert [r.function for r in Two()._serving(node, context)] == functions  # type: ignore[arg-type]


def test_a_module_may_be_for_one_target() -> None:
    from lowerfix.passes.elementwise.whole_powers import ON

    class Reciprocal(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reciprocal()

    program = torch.export.export(Reciprocal(), (torch.ones(2),))
    [cls] = registry.serving(aten.reciprocal.default)
    for name, count in (("xnnpack", 1), ("vgf", 0)):
        context = SimpleNamespace(target=targets.get(name))
        assert len(list(cls.matches(Program(program), context))) == count  # type: ignore[arg-type]
    assert ON == "xnnpack"


def test_a_rewrite_for_one_target_is_for_that_alone() -> None:
    class Two(RewritePass):
        rewrites = (Rewrite(torch.sin, (aten.mish.default,)), Rewrite(torch.cos, (aten.mish.default,), on="vgf"))

    node = torch.fx.Graph().call_function(aten.mish.default)
    for name, functions in (("xnnpack", [torch.sin]), ("vgf+bf16", [torch.sin, torch.cos])):
        context = SimpleNamespace(target=targets.get(name))
        assert [r.function for r in Two()._serving(node, context)] == functions  # type: ignore[arg-type]
