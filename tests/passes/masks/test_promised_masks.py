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
    result, _ = promised(function, (x, mask), {"index": "all-true"})
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
        ({"no such line": "all-true"}, "fits no size that depends on data. Name one of these: index at"),
        ({"x[keep], ": "all-true"}, "fits 2 sizes"),
        ({"index": "some"}, "has to be 'all-true'"),
        ({"index": -1}, "has to be 'all-true'"),
        ({"index": True}, "has to be 'all-true'"),
        ({"index": 4}, "there cannot be 4 rows"),
        (["index"], "promises takes a dict"),
    ],
)
def test_a_promise_that_names_no_one_mask_is_an_error(promises: object, message: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x[keep], (x * 2)[~keep]

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


MASK = torch.tensor([True, False, True, True])
X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


def kept(function, inputs, promises, **options):  # type: ignore[no-untyped-def]
    """Rewritten by this pass and what folds constants, saved and loaded."""
    program = export(function, inputs, **options)
    only = ["strip-guards", "out-of-place", "promised-masks", "fold-constants"]
    result = lowerfix.apply(program, target="vgf", promises=promises, only=only)
    file = io.BytesIO()
    torch.export.save(result, file)
    file.seek(0)
    loaded = torch.export.load(file)
    loaded.validate()
    assert loaded.graph_module.meta["custom"]["lowerfix_promises"] == dict(promises)
    result.run_decompositions({})
    return loaded


class DropsEmptyImages(torch.nn.Module):
    """What SmolVLM and Idefics3 do: at least one image is kept, and the counts of each sample split the result."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        batch, images = x.shape[:2]
        x = x.view(batch * images, *x.shape[2:])
        real = (x == 0.0).sum(dim=(-1, -2)) != x.shape[1:].numel()
        real[0] |= ~torch.any(real)
        counts = real.view(batch, images).sum(dim=1)
        x = x[real].contiguous()
        ones = torch.ones(x.shape[0], x.shape[1], dtype=torch.bool)
        x = torch.where(ones[:, :, None], x * 2, x)
        return [part.reshape(-1, part.shape[-1]) for part in x.split(counts.tolist())]


def test_counts_of_a_promised_mask_become_numbers_through_what_changes_it_in_place() -> None:
    x = torch.randn(2, 3, 4, 5)
    result = kept(DropsEmptyImages(), (x,), {"x = x[real]": "all-true"})
    text = str(result.graph)
    assert "aten.item" not in text
    assert "assert" not in text
    assert [node.meta["val"].shape for node in result.graph.output_node().args[0]] == [(12, 5), (12, 5)]
    assert_same(DropsEmptyImages()(x), result.module()(x))


def test_a_mask_that_is_an_output_stays_one_that_is_computed() -> None:
    result = kept(lambda x, m: (x[m] * 2, m & (x[:, 0] == 0), m.sum()), (X, MASK), {"index": "all-true"})
    rows, other, count = result.module()(X, torch.ones(4, dtype=torch.bool))
    assert_same((X * 2, X[:, 0] == 0, torch.tensor(4)), (rows, other, count))


def test_an_assertion_of_the_user_about_something_else_stays() -> None:
    def checked(x: torch.Tensor, m: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        number = n.item()
        torch._check(number <= 7)
        return x[m] * number

    result = kept(checked, (X, MASK, torch.tensor(3)), {"index": "all-true"})
    assert "<= 7" in str([node.args for node in result.graph.nodes if "assert" in node.name])


@pytest.mark.parametrize("count", [1, 3])
def test_a_promised_count_selects_so_many_rows(count: int) -> None:
    function = lambda x, m: (x[m], x[:, :2][m].sum(0), x.T[:, torch.where(m)[0]], m.nonzero() + 1)  # noqa: E731
    mask = MASK if count == 3 else torch.tensor([False, False, True, False])
    result = kept(function, (X, MASK), {"index": count})
    assert result.graph.output_node().args[0][0].meta["val"].shape == (count, 3)
    assert_same(function(X, mask), result.module()(X, mask))


def test_a_promised_number_ends_a_slice() -> None:
    def start(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        number = n.item()
        torch._check(number >= 0)
        torch._check(number <= x.shape[0])
        return x[:number] * 2

    result = kept(start, (X, torch.tensor(3)), {"item": 3})
    assert "assert" not in str(result.graph)
    assert_same(X[:3] * 2, result.module()(X, torch.tensor(3)))
    with pytest.raises(lowerfix.LowerfixError, match="contradicts an assertion"):
        kept(start, (X, torch.tensor(3)), {"item": 5})
    with pytest.raises(lowerfix.LowerfixError, match="is no mask"):
        kept(start, (X, torch.tensor(3)), {"item": "all-true"})


@pytest.mark.parametrize(("promise", "broken"), [("all-true", [True, False, True, True]), (3, [True] * 4)])
def test_guards_show_that_a_promise_is_broken(promise: object, broken: list[bool]) -> None:
    good, bad = torch.ones(4, dtype=torch.bool), torch.tensor(broken)
    if promise == 3:
        good = MASK
    for guard in ("output", "poison"):
        program = export(lambda x, m: x[m] * 2, (X, MASK))
        result = lowerfix.apply(program, target="vgf", promises={"index": promise}, guard=guard, only="promised-masks")
        again = lowerfix.apply(result, target="vgf", promises={"index": promise}, guard=guard, only="promised-masks")
        assert str(again.graph) == str(result.graph)
        file = io.BytesIO()
        torch.export.save(result, file)
        file.seek(0)
        module = torch.export.load(file).module()
        if guard == "output":
            rows, flag = module(X, good)
            assert bool(flag.all())
            assert not bool(module(X, bad)[1].all())
        else:
            rows = module(X, good)
            assert bool(module(X, bad).isnan().any())
        assert_same(X[good] * 2, rows)


def test_padded_rows_come_with_the_mask() -> None:
    model = KeepsRows()
    x = torch.randn(6, 8)
    x[2] = 0
    program = export(lambda x: torch.relu(model.project(x[(x == 0).sum(-1) != 8])), (x,))
    result = lowerfix.apply(program, target="vgf", promises={"index": "padded"}, only="promised-masks")
    rows, mask = result.module()(x)
    assert rows.shape == (6, 4)
    assert_same(torch.relu(model.project(x[mask])), rows[mask], 1e-6)
    assert mask.tolist() == [True, True, False, True, True, True]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x, m: x[m].softmax(0), "mixes rows"),
        (lambda x, m: torch.cat([x[m], x[m]]), "mixes rows"),
        (lambda x, m: x[m].flip(0), "not known to treat each row by itself"),
        (lambda x, m: x[m].reshape(-1), "mixes rows"),
        (lambda x, m: x[m] * x[m].shape[0], "computes with the number of rows"),
        (lambda x, m: x[m].T @ x[m], "mixes rows"),
    ],
)
def test_rows_that_are_mixed_cannot_be_padded(function, reason: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(lowerfix.LowerfixError, match="cannot be kept") as error:
        lowerfix.apply(export(function, (X, MASK)), target="vgf", promises={"index": "padded"})
    assert reason in str(error.value)


def test_different_values_have_no_constant_form() -> None:
    program = export(lambda x: x.unique() * 2, (torch.tensor([1, 2, 2]),))
    report = lowerfix.Report()
    lowerfix.apply(program, target="vgf", report=report, only="promised-masks")
    [finding] = report.of("declined")
    assert "no constant form" in finding.reason
    with pytest.raises(lowerfix.LowerfixError, match="no constant form"):
        lowerfix.apply(program, target="vgf", promises={"_unique2": 2}, only="promised-masks")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guard": "output"}, "there are none"),
        ({"guard": "loud", "promises": {"index": "all-true"}}, "has to be one of"),
    ],
)
def test_a_guard_needs_a_promise_and_a_known_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(lowerfix.LowerfixError, match=message):
        lowerfix.apply(export(lambda x, m: x[m], (X, MASK)), target="vgf", **options)
