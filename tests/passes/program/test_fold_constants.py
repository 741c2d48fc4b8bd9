import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import lowerfix
from lowerfix import lowering
from lowerfix.errors import LowerfixError
from lowerfix.passes.program.fold_constants import FoldConstants
from lowerfix.testing import assert_same, check_rewrite, export


class Lora(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.base = torch.nn.Linear(8, 8)
        self.up, self.down = torch.nn.Parameter(torch.randn(8, 2)), torch.nn.Parameter(torch.randn(2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.base.weight + self.up @ self.down * 0.5, self.base.bias)


class Positions(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time = torch.arange(x.shape[1], dtype=torch.float64)[:, None]
        rate = torch.exp(torch.arange(0, 4) * (-math.log(1e4) / 4))
        return x + torch.cat([(time * rate).sin(), (time * rate).cos()], -1).to(x.dtype)


class WeightNorm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(8, 8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class CausalMask(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.shape[-1], x.shape[-1], dtype=torch.bool).tril()
        return x + torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, -1e9)


CASES = {
    "lora": (Lora(), (torch.randn(3, 8),), "xnnpack"),
    "positions in float64": (Positions(), (torch.randn(1, 6, 8),), "xnnpack"),
    "weight norm": (WeightNorm(), (torch.randn(1, 8, 16),), "xnnpack"),
    "causal mask": (CausalMask(), (torch.randn(2, 5, 5),), "vgf"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_depends_on_no_input_is_computed_once_and_exactly(name: str) -> None:
    model, inputs, target = CASES[name]
    check_rewrite(model, inputs, target=target, expect="fold-constants")


def _ops(program: torch.export.ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def _fold(function: Callable[..., object] | torch.nn.Module, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    program = export(function, inputs)
    result = lowerfix.apply(program, target="vgf", only="fold-constants")
    assert_same(program.module()(*inputs), result.module()(*inputs))
    return result


def test_weights_that_nothing_reads_any_more_are_dropped() -> None:
    result = _fold(Lora(), torch.randn(3, 8))
    assert sorted(result.state_dict) == ["base.bias", "mul_folded"] or len(result.state_dict) == 2
    assert _ops(result) == ["aten.linear.default"]


def test_random_and_uninitialised_tensors_are_not_folded() -> None:
    program = export(lambda x: x + torch.rand(4) + torch.zeros(4).normal_() + torch.dropout(torch.ones(4), 0.5, True),
                     (torch.randn(4),))  # fmt: skip
    result = lowerfix.apply(program, target="vgf", only="fold-constants")
    assert "aten.rand.default" in _ops(result)
    assert "aten.dropout.default" in _ops(result)


def test_a_buffer_that_the_program_changes_is_not_a_constant() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            before = self.count * 2
            self.count.add_(1)
            return x + self.count + before

    for functional in (False, True):
        program = export(Counter(), (torch.ones(1),))
        program = program.run_decompositions({}) if functional else program
        module = lowerfix.apply(program, target="vgf").module()
        assert [module(torch.ones(1)).item() for _ in range(3)] == [2.0, 5.0, 8.0]


def test_a_buffer_changed_through_a_view_is_not_a_constant() -> None:
    class Cache(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(2, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.cache[0].add_(x)
            return self.cache.sum(0)

    module = lowerfix.apply(export(Cache(), (torch.ones(3),)), target="vgf").module()
    assert [module(torch.ones(3))[0].item() for _ in range(2)] == [1.0, 2.0]


def test_a_small_tensor_is_not_blown_up() -> None:
    result = _fold(lambda x: x + torch.full((1, 1), 2.0).expand(4096, 4096)[:2, :4096], torch.randn(2, 4096))
    assert sum(t.numel() * t.element_size() for t in result.state_dict.values()) < 1 << 20
    large = _fold(lambda x: x.sum() + torch.full((8, 1024, 1024), 2.0), torch.randn(2))
    assert "aten.full.default" in _ops(large)


def test_a_strided_view_of_a_large_weight_is_not_copied() -> None:
    class Transposed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(1024, 1024))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight.t()

    assert "aten.t.default" in _ops(_fold(Transposed(), torch.randn(2, 1024)))


@pytest.mark.slow
def test_quantized_weights_keep_their_dequantize() -> None:
    inputs = (torch.randn(2, 8),)
    program = lowering.quantize(export(torch.nn.Linear(8, 8), inputs), "ethos-u85", [inputs])
    assert _ops(lowerfix.apply(program, target="ethos-u85")) == _ops(program)


def test_an_output_that_is_constant_stays_in_the_graph() -> None:
    result = _fold(lambda x: (x * 2, torch.arange(4) + 1), torch.randn(2))
    assert "aten.add.Tensor" in _ops(result)


def test_constants_that_cannot_be_computed_are_an_error_with_the_users_line() -> None:
    class OutOfRange(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(4, 2)
            self.register_buffer("rows", torch.tensor([1, 4]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.table(self.rows)

    program = export(OutOfRange(), (torch.randn(2, 2),))
    with pytest.raises(LowerfixError, match=r"fold-constants.*test_fold_constants.py:\d+.*out of range"):
        lowerfix.apply(program, target="vgf")


def test_several_results_of_one_op_are_folded() -> None:
    result = _fold(lambda x: x + torch.arange(6.0).reshape(2, 3).max(1).values.sum(), torch.randn(2))
    assert _ops(result) == ["aten.add.Tensor"]


def test_shared_constants_stay_shared() -> None:
    class Shared(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scaled = self.weight * 2
            return (x @ scaled) @ scaled + self.weight.sum(0) * x

    result = _fold(Shared(), torch.randn(2, 3))
    assert len(result.state_dict) == 2  # scaled, and the sum


def test_a_symbolic_batch_is_not_touched() -> None:
    class Batched(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(x.shape[0], 1) * torch.arange(3)

    program = torch.export.export(Batched(), (torch.randn(2, 3),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    result = lowerfix.apply(program, target="vgf", only="fold-constants")
    for batch in (2, 5):
        x = torch.randn(batch, 3)
        assert_same(program.module()(x), result.module()(x))


def test_a_number_as_a_tensor_stays_for_quantizers_which_know_it_so() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.maximum(x, torch.full([1], 0.25)) + torch.full([1], 2.0) * 3.0

    program = export(model, (torch.randn(4),))
    for target, kept in (("ethos-u85", 1), ("vgf", 0)):
        graph = FoldConstants()(program, target).graph_module.graph
        assert len(graph.find_nodes(op="call_function", target=torch.ops.aten.full.default)) == kept


def test_equal_numbers_are_stored_once() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * torch.full([1], 0.5) + torch.full([1], 0.5) + torch.full([1, 1], 0.5) + torch.full([1], -0.0)
        return y * torch.full([1], 0.0)

    rewritten = lowerfix.apply(export(model, (torch.randn(2, 3),)), target="xnnpack")
    stored = {name: value for name, value in rewritten.state_dict.items() if value.numel() == 1}
    assert len(stored) == 4, stored  # by shape, and by the sign of a zero
    reads = [node for node in rewritten.graph.nodes if node.op == "placeholder" and len(node.users) == 2]
    assert len(reads) == 1


def test_a_number_without_dimensions_is_stored_for_xnnpack_which_takes_no_full() -> None:
    for target, kept in (("xnnpack", 0), ("vgf", 1)):
        program = export(lambda x: torch.full((), 2.0) / x, (torch.rand(()) + 1.0,))
        graph = lowerfix.apply(program, target=target).graph
        assert len(graph.find_nodes(op="call_function", target=torch.ops.aten.full.default)) == kept


def test_what_is_filled_in_the_shape_of_an_input_is_stored_for_xnnpack() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2.0
        some = torch.cat([y, torch.zeros_like(y)]), torch.cat([y, torch.ones_like(x)]), y + torch.full_like(y, 3.0)
        return *some, torch.cat([x, x.new_zeros(1, 3)]), torch.cat([x, y.new_ones(2, 3)]), y * x.new_full((3,), 2)

    x = torch.randn(2, 3)
    program = export(model, (x,))
    result = FoldConstants()(program, "xnnpack")
    assert not any("full" in op or "ones" in op or "zeros" in op for op in _ops(result.exported_program))
    assert_same(program.module()(x), result.exported_program.module()(x))
    dynamic = torch.export.export(
        torch.nn.Sequential(torch.nn.ReLU(), Doubled()), (x,), dynamic_shapes=[{0: torch.export.Dim.DYNAMIC}]
    )
    assert any("zeros_like" in op for op in _ops(FoldConstants()(dynamic, "xnnpack").exported_program))
    assert any("zeros_like" in op for op in _ops(FoldConstants()(program, "vgf").exported_program))


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, torch.zeros_like(x)])
