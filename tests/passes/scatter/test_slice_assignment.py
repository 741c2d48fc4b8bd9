import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import passes
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite, export


def rotated_pairs(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    y[..., ::2] = -x[..., 1::2]
    y[..., 1::2] = x[..., ::2]
    return y


def rotated_halves(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    half = x.shape[-1] // 2
    y[..., :half] = -x[..., half:]
    y[..., half:] = x[..., :half]
    return y


def one_column(x: Tensor) -> Tensor:
    y = x * 2
    y[:, 0] = x[:, 1]
    y[..., -1] = y[..., 0] + 1
    return y


def block(x: Tensor) -> Tensor:
    y = torch.zeros(3, 8)
    y[:2, 2:6] = x[:2, :4]
    y[2] += 1
    return y + x


def every_third(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, ::3] = x[:, :3] + 1
    return y


def assigned(x: Tensor) -> tuple[Tensor, ...]:
    return rotated_pairs(x), rotated_halves(x), one_column(x), block(x), every_third(x)


SCATTERS = ("slice_scatter", "select_scatter", "copy", "empty", "fill")


@pytest.mark.slow
def test_all_of_it_goes_whole() -> None:
    inputs = (torch.randn(3, 8),)
    checked = check_rewrite(
        assigned,
        inputs,
        target="tosa-fp",
        expect={"slice-assignment", "overwrite"},
        lowered_inputs=list(adversarial_inputs(inputs)),
    )
    names = [node.name for node in checked.after.graph.nodes]
    assert not any(name.startswith(SCATTERS) for name in names)


@pytest.mark.slow
def test_and_in_int8() -> None:
    checked = check_rewrite(assigned, (torch.randn(3, 8),), target="ethos-u85", expect={"slice-assignment"})
    assert checked.lowered.inner_quantize == 0


def _rewritten(function, *inputs: Tensor):  # type: ignore[no-untyped-def]
    program = export(function, inputs)
    result = lowerfix.Pipeline(["overwrite", "slice-assignment"]).run(program, "vgf", lowerfix.Report())[0]
    with torch.no_grad():
        assert_same(function(*(i.clone() for i in inputs)), result.module()(*(i.clone() for i in inputs)))
    return result


bounds = st.one_of(st.none(), st.integers(-7, 7))
parts = st.one_of(st.integers(-6, 5), st.builds(slice, bounds, bounds, st.one_of(st.none(), st.integers(1, 4))))


steps = st.lists(st.tuples(st.integers(0, 1), parts, st.booleans()), min_size=1, max_size=5)


@settings(max_examples=2, deadline=None)
@given(st.lists(steps, min_size=12, max_size=12))
def test_any_chain_of_assignments(chains: list[list[tuple[int, slice | int, bool]]]) -> None:
    def function(x: Tensor) -> list[Tensor]:
        results = []
        for chain in chains:  # many in one program: what takes time is the export
            y = x + 1
            for number, (dim, part, reads) in enumerate(chain):
                key = (slice(None), part) if dim else part
                y[key] = y[key] * 2 if reads else float(number)
            results.append(y * 1)
        return results

    _rewritten(function, torch.arange(36.0).reshape(6, 6))


def test_interleaved_sources_are_stacked_and_a_rest_is_concatenated() -> None:
    def function(x: Tensor, z: Tensor) -> Tensor:
        y = torch.empty(2, 33)
        y[:, ::2] = x
        y[:, 1::2] = z
        return y * 1

    program = _rewritten(function, torch.randn(2, 17), torch.randn(2, 16))
    names = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert names.count(torch.ops.aten.stack.default) == 1
    assert torch.ops.aten.empty.memory_format not in names


def test_a_buffer_that_is_updated_keeps_its_other_positions() -> None:
    class Cache(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.arange(8.0).reshape(4, 2))

        def forward(self, x: Tensor) -> Tensor:
            self.cache[1:3] = x
            return self.cache.sum(0)

    x = torch.randn(2, 2)
    program = export(Cache(), (x,))
    result = lowerfix.Pipeline(["overwrite", "slice-assignment"]).run(program, "vgf", lowerfix.Report())[0]
    assert isinstance(result, torch.export.ExportedProgram)
    ours, eager = result.module(), Cache()
    for scale in (1, 2):
        assert_same(eager(x * scale), ours(x * scale))
    assert_same(eager.cache, ours.cache)
    assert not any("scatter" in node.name for node in result.graph.nodes)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.slice_scatter(torch.empty(4, 8), x[:2], 0, 1, 3)[1:] * 1,  # a part of it is undefined
        lambda x: x.index_fill(0, torch.tensor([1]), 0.0),
    ],
)
def test_what_it_leaves_alone(function) -> None:  # type: ignore[no-untyped-def]
    program = export(function, (torch.randn(4, 8),))
    assert not passes.get("slice-assignment", target="vgf")(program).modified


def test_too_many_pieces_stay() -> None:
    def function(x: Tensor, z: Tensor) -> Tensor:
        for number in (0, 3, 4, 7, 12, 13, 19, 21, 26, 30):
            x = torch.select_scatter(x, z, 0, number)
        return x

    program = export(function, (torch.randn(33), torch.randn(())))
    assert not passes.get("slice-assignment", target="vgf")(program).modified


def test_symbolic_bounds_stay() -> None:
    rows = torch.export.Dim("rows", min=3, max=16)
    program = export(
        lambda x: torch.slice_scatter(x, x[1:] * 2, 0, 1), (torch.randn(4, 8),), dynamic_shapes=(({0: rows},),)
    )
    assert not passes.get("slice-assignment", target="vgf")(program).modified


def test_a_view_is_not_copied_while_something_writes_through_it() -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        y.diagonal().fill_(0)
        return y

    module = export(function, (torch.randn(4, 4),)).module(check_guards=False)
    report = lowerfix.Report()
    result = lowerfix.apply(module, target="vgf", report=report)
    x = torch.randn(4, 4)
    assert_same(function(x), result(x))
