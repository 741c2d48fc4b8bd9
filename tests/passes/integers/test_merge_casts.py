import torch

import lowerfix
from lowerfix.testing import assert_same, export


def _casts(function, *inputs):  # type: ignore[no-untyped-def]
    program = export(function, inputs)
    result = lowerfix.apply(program, target="vgf", only=["strip-guards", "merge-casts"])
    assert_same(program.module()(*inputs), result.module()(*inputs))
    return [node.meta["val"].dtype for node in result.graph.nodes if "to.dtype" in str(node.target)]


def test_a_detour_through_a_wider_integer_is_void() -> None:
    x = torch.tensor([-(2**31), 2**31 - 1, 0], dtype=torch.int32)
    assert _casts(lambda x: x.to(torch.int64).to(torch.int32) + 1, x) == []
    assert _casts(lambda x: x.to(torch.int64).to(torch.float32), x) == [torch.float32]
    assert _casts(lambda x: x.to(torch.int16).to(torch.int64).to(torch.int32), x) == [torch.int16, torch.int32]
    assert _casts(lambda x: x.to(torch.int64).to(torch.int32), torch.tensor([True, False])) == [torch.int32]
    assert _casts(lambda x: x.to(torch.int64).to(torch.int32), torch.tensor([200], dtype=torch.uint8)) == [torch.int32]


def test_casts_that_change_values_stay() -> None:
    whole = torch.tensor([3, 300, -1, 2**31 - 1])
    assert _casts(lambda x: x.to(torch.int32).to(torch.int64), whole) == [torch.int32, torch.int64]
    assert _casts(lambda x: x.to(torch.int8).to(torch.int32), whole) == [torch.int8, torch.int32]
    assert _casts(lambda x: x.to(torch.float32).to(torch.int64), whole) == [torch.float32, torch.int64]
    assert _casts(lambda x: x.to(torch.bool).to(torch.int64), whole) == [torch.bool, torch.int64]
    halves = torch.tensor([0.1, 3.9])
    assert _casts(lambda x: x.to(torch.int64).to(torch.float32), halves) == [torch.int64, torch.float32]
    assert _casts(lambda x: x.to(torch.float64).to(torch.int32), halves) == [torch.float64, torch.int32]
    negative = torch.tensor([-1, 5], dtype=torch.int8)
    assert _casts(lambda x: x.to(torch.uint8).to(torch.int32), negative) == [torch.uint8, torch.int32]


def test_one_cast_serves_several_embeddings() -> None:
    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.kinds = torch.nn.Embedding(16, 8), torch.nn.Embedding(16, 8)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.words(ids) + self.kinds(ids)

    program = export(Tokens(), (torch.tensor([[3, 1, 15]]),))
    result = lowerfix.apply(program, target="vgf")
    assert sum("to.dtype" in str(node.target) for node in result.graph.nodes) == 1


def test_other_readers_of_the_wide_integer_keep_it() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = x.to(torch.int64)
        return wide.to(torch.int32) + 1, wide * 2**40

    assert _casts(model, torch.tensor([7], dtype=torch.int32)) == [torch.int64]


def test_an_output_that_is_cast_keeps_its_dtype() -> None:
    assert _casts(lambda x: x.to(torch.int64), torch.tensor([7], dtype=torch.int32)) == [torch.int64]
