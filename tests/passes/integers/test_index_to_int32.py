import pytest
import torch

import lowerfix
from lowerfix import lowering
from lowerfix.errors import LowerfixError
from lowerfix.testing import assert_same, check_rewrite, export


class Rows(torch.nn.Module):
    """Reads a tensor at constant places, as the seed does: a plain attribute, which export lifts as a constant."""

    def __init__(self, *indices: object) -> None:
        super().__init__()
        self.indices = [torch.tensor(i) if isinstance(i, list) else i for i in indices]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[tuple(self.indices)] * 2


class Buffer(torch.nn.Module):
    """The same with a buffer, which Arm casts to int32 by itself."""

    def __init__(self, index: list[int]) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor(index))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[self.index] * 2


EVERY = slice(None)
CONSTANT = {
    "first": ([2, 0],),
    "behind None": (EVERY, [0, 2]),
    "last": (Ellipsis, [1, 0]),
    "negative": (EVERY, [-1, 0, -3]),
    "repeated": (EVERY, [1, 1, 1]),
    "a run": (EVERY, [1, 2]),
    "a run that wraps": (EVERY, [-2, -1]),
    "one element": (EVERY, [2]),
    "rank 2": (EVERY, [[0, 2], [1, -1]]),
    "rank 3": ([[[0, 1]]],),
    "adjacent": (EVERY, [0, 2], [3, -1]),
    "adjacent, first": ([1, 0], [2, 1]),
    "broadcast": (EVERY, [[0], [2]], [1, 3]),
    "not adjacent": ([1, 0], EVERY, [2, -1]),
    "all": ([0, 1], [1, 2], [3, 0], [0, 1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", CONSTANT)
def test_a_constant_index_is_whole_and_exact(form: str) -> None:
    check_rewrite(Rows(*CONSTANT[form]), (torch.randn(3, 4, 5, 2),), target="tosa-fp", expect="index-to-int32")


def test_the_seeds_constant_index_lowers_on_vgf() -> None:
    check_rewrite(Rows(EVERY, [0, 2]), (torch.randn(1, 4, 8),), target="vgf", expect="index-to-int32")


def test_a_negative_buffer_that_the_backend_takes_and_gets_wrong_is_rewritten() -> None:
    """Once the first half fails, GATHER counts from the end and the rewrite can be retired."""
    x = torch.randn(3, 4)
    stock = lowering.lower(export(Buffer([-1, 0]), (x,)), "tosa-fp", compile=False)
    assert (stock.delegates, stock.cpu_ops) == (1, {})
    with pytest.raises(AssertionError, match="Non-valid TOSA"):
        lowering.execute(stock, (x,))
    check_rewrite(Buffer([-1, 0]), (x,), target="tosa-fp", expect="index-to-int32")


def test_a_buffer_that_the_backend_gets_right_is_untouched() -> None:
    program = export(Buffer([2, 0]), (torch.randn(3, 4),))
    assert str(lowerfix.apply(program, target="vgf").graph) == str(program.graph)


def test_an_index_from_argmax_is_not_wrapped() -> None:
    class Best(torch.nn.Module):
        def forward(self, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
            return table[:, x.argmax(-1)]

    checked = check_rewrite(Best(), (torch.randn(6, 4), torch.randn(3, 4)), target="vgf", expect="index-to-int32")
    assert "where" not in str(checked.after.graph)


def test_a_run_becomes_a_slice() -> None:
    result = lowerfix.apply(export(Rows(EVERY, [1, 2]), (torch.randn(3, 4, 5),)), target="vgf")
    assert "slice" in str(result.graph)
    assert "index" not in str(result.graph)


DYNAMIC = {
    "one": lambda x, i: x[:, i],
    "two": lambda x, i: x[:, i, i],
    "index_select": lambda x, i: x.index_select(1, i),
}


@pytest.mark.parametrize("form", DYNAMIC)
def test_of_an_index_input_only_the_cast_stays_outside(form: str) -> None:
    x = torch.randn(3, 4, 5)
    others = [(x, torch.tensor(i)) for i in ([0, 0, 0], [3, -4, -1], [-2, 2, 1])]
    check_rewrite(
        DYNAMIC[form],
        (x, torch.tensor([0, 3, 1])),
        target="vgf",
        expect="index-to-int32",
        more_inputs=others[: 1 if form == "index_select" else 3],  # index_select takes no negative ones
        allowed_left=["_to_dim_order_copy"],
    )


@pytest.mark.parametrize("target", ["vgf", "ethos-u85"])
def test_an_embedding_of_token_ids(target: str) -> None:
    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.table, self.head = torch.nn.Embedding(16, 8, padding_idx=0), torch.nn.Linear(8, 4)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.table(ids))

    checked = check_rewrite(Tokens(), (torch.tensor([[3, 0, 15]]),), target=target, expect="index-to-int32",
                            allowed_left=["_to_dim_order_copy"])  # fmt: skip
    assert checked.lowered.cpu_ops == {"_to_dim_order_copy": 1}


def test_an_int32_index_needs_no_cast() -> None:
    result = lowerfix.apply(
        export(lambda x, i: x[:, i], (torch.randn(3, 4), torch.tensor([0, -1], dtype=torch.int32))), target="vgf"
    )
    assert "to.dtype" not in str(result.graph)
    assert "index_select" in str(result.graph)


@pytest.mark.parametrize("index", [[0, 4], [-5, 0]])
def test_a_constant_out_of_range_is_an_error_with_the_users_line(index: list[int]) -> None:
    program = export(Rows(EVERY, index), (torch.randn(3, 4),))
    worst = max(index, key=abs)
    with pytest.raises(LowerfixError, match=rf"index {worst} is out of range.*size 4"):
        lowerfix.apply(program, target="vgf")


def test_a_boolean_mask_is_declined_with_its_reason() -> None:
    class Masked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x.sum(-1) > 0]

    report = lowerfix.Report()
    program = export(Masked(), (torch.randn(4, 8),))
    result = lowerfix.apply(program, target="xnnpack", report=report)
    assert torch.ops.aten.index.Tensor in [node.target for node in result.graph.nodes]
    [finding] = [finding for finding in report.of("declined") if finding.pass_id == "promised-masks"]
    assert "depends on data" in finding.reason
    assert "test_index_to_int32.py" in finding.source


def test_a_symbolic_size_is_declined_with_its_reason() -> None:
    class Last(torch.nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return x[i]

    shapes = ({0: torch.export.Dim.DYNAMIC}, None)
    program = torch.export.export(Last(), (torch.randn(4, 8), torch.tensor([0, -1])), dynamic_shapes=shapes)
    report = lowerfix.Report()
    result = lowerfix.apply(program, target="vgf", report=report)
    assert "symbolic size" in report.of("declined")[0].reason
    x = torch.randn(6, 8)
    assert_same(x[torch.tensor([0, -1])], result.module()(x, torch.tensor([0, -1])))


def test_an_empty_index_keeps_its_shape() -> None:
    program = export(lambda x, i: x[:, i], (torch.randn(3, 4), torch.zeros(0, dtype=torch.int64)))
    inputs = (torch.randn(3, 4), torch.zeros(0, dtype=torch.int64))
    assert_same(program.module()(*inputs), lowerfix.apply(program, target="vgf").module()(*inputs))


def test_xnnpack_keeps_its_graph() -> None:
    program = export(Rows(EVERY, [0, 2]), (torch.randn(1, 4, 8),))
    assert str(lowerfix.apply(program, target="xnnpack", skip="float-numbers").graph) == str(program.graph)
