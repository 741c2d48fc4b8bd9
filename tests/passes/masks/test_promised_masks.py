import io

import pytest
import torch

import lowerfix
from lowerfix import lowering
from lowerfix.testing import assert_same, export


class KeepsRows(torch.nn.Module):
    """Drops rows that are all zero, as vision encoders drop padding images."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x[(x == 0).sum(-1) != x.shape[-1]]
        return self.project(rows).reshape(rows.shape[0] * 2, 2)


def promised(model, inputs, promises, **options):  # type: ignore[no-untyped-def]
    report = lowerfix.Report()
    program = export(model, inputs, **options)
    text = str(program.graph)
    result = lowerfix.apply(program, target="vgf", promises=promises, report=report)
    assert str(program.graph) == text
    return result, report


@pytest.mark.slow
@pytest.mark.parametrize("site", ["x[(x == 0)", "index", "test_promised_masks.py:20"])
def test_a_promised_mask_is_gone_and_all_behind_it_is_static_and_whole(site: str) -> None:
    x = torch.randn(6, 8)
    model = KeepsRows()
    result, report = promised(model, (x,), {site: "all-true"})
    assert "index" not in str(result.graph)
    assert "assert" not in str(result.graph)
    assert result.graph.output_node().args[0][0].meta["val"].shape == (12, 2)
    [finding] = [f for f in report.of("rewritten") if f.pass_id == "promised-masks"]
    assert "promised by the user" in finding.reason
    file = io.BytesIO()
    torch.export.save(result, file)
    file.seek(0)
    assert_same(model(x), torch.export.load(file).module()(x), 1e-6)
    again = lowerfix.apply(result, target="vgf", promises={site: "all-true"})
    assert str(again.graph) == str(result.graph)
    if site == "index":
        lowered = lowering.lower(result, "tosa-fp", compile=False)
        assert (lowered.delegates, lowered.cpu_ops) == (1, {})
        assert_same(model(x), lowering.execute(lowered, (x,))[0], 1e-5)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x, m: x[m], (12, 5)),
        (lambda x, m: x.permute(2, 0, 1)[:, m] * 2, (5, 12)),
        (lambda x, m: x[:, m[0]].sum(1), (3, 5)),
        (lambda x, m: torch.cat([x[m], x[m] + 1]), (24, 5)),
    ],
)
def test_masks_of_any_rank_and_place(function, shape: tuple[int, ...]) -> None:  # type: ignore[no-untyped-def]
    x, mask = torch.randn(3, 4, 5), torch.ones(3, 4, dtype=torch.bool)
    sites = ("index", "index_1") if len(shape) == 2 and shape[0] == 24 else ("index",)
    result, _ = promised(function, (x, mask), dict.fromkeys(sites, "all-true"))
    assert result.graph.output_node().args[0][0].meta["val"].shape == shape
    assert_same(function(x, mask), result.module()(x, mask))


def test_a_dynamic_batch_stays_dynamic() -> None:
    batch = torch.export.Dim("batch", min=2, max=50)
    result, _ = promised(KeepsRows(), (torch.randn(6, 8),), {"index": "all-true"}, dynamic_shapes={"x": {0: batch}})
    for rows in (2, 7):
        x = torch.randn(rows, 8)
        assert_same(KeepsRows()(x), result.module()(x), 1e-6)


def test_without_a_promise_the_finding_says_what_it_costs_and_how_to_promise() -> None:
    result, report = promised(KeepsRows(), (torch.randn(6, 8),), None)
    assert "index" in str(result.graph)
    [finding] = [f for f in report.of("declined") if f.pass_id == "promised-masks"]
    assert 'promises={"index": "all-true"}' in finding.reason
    assert "ops behind it" in finding.reason
    assert finding.source.endswith("test_promised_masks.py:20")


@pytest.mark.parametrize(
    ("promises", "message"),
    [
        ({"no such line": "all-true"}, "fits no mask. Name one of these: index at"),
        ({"x[keep], ": "all-true"}, "fits 2 masks"),
        ({"index": "some"}, "has to be 'all-true'"),
        ({"index": 3}, "has to be 'all-true'"),
        (["index"], "promises takes a dict"),
    ],
)
def test_a_promise_that_names_no_one_mask_is_an_error(promises: object, message: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x[keep], (x * 2)[keep]

    with pytest.raises(lowerfix.LowerfixError, match="promise") as error:
        promised(Model(), (torch.randn(3, 2), torch.tensor([True, False, True])), promises)
    assert message in str(error.value)


def test_a_promise_against_an_assertion_of_the_program_is_an_error() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            rows = x[keep]
            torch._check(rows.shape[0] <= 2)
            return rows * 2

    with pytest.raises(lowerfix.LowerfixError, match="contradicts an assertion"):
        promised(Model(), (torch.randn(3, 2), torch.tensor([True, False, True])), {"index": "all-true"})


def test_an_index_of_numbers_is_no_mask() -> None:
    _, report = promised(lambda x: x[torch.tensor([0, 2])], (torch.randn(3, 2),), None)
    assert not [f for f in report.findings if f.pass_id == "promised-masks"]
