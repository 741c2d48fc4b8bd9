import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.testing import assert_same, check_rewrite, export

ONLY = ["strip-guards", "out-of-place", "masked-rows", "fold-constants"]
WEIGHT = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
X = torch.randn(6, 3, generator=torch.Generator().manual_seed(2))
MASK = torch.tensor([True, False, True, True, False, False])


def assigned(x: torch.Tensor, y: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[m] = torch.relu(y[m] @ WEIGHT).softmax(-1) + y[m].sum(-1, keepdim=True)
    return x


def accumulated(x: torch.Tensor, y: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return x.index_put((m,), torch.cat([y[m], -y[m]], 1)[:, 1:4], accumulate=True)


def reduced(x: torch.Tensor, y: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = x[m] * y[m]
    return (
        rows.sum(),
        rows.mean(0),
        rows.mean(),
        rows.sum(0, keepdim=True),
        (rows > 0).any(0),
        (rows > 0).all(),
        rows.prod(0),
    )


def by_places(x: torch.Tensor, y: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
    one, two = torch.where(m)[0], m.nonzero().squeeze(1)
    z = x.clone()
    z[one] = y[one].tanh()
    return z, x[two].sum(0), x.index_add(0, one, y.index_select(0, one)), torch.masked_select(x, m[:, None]).sum()


def over_two_dims(x: torch.Tensor, y: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
    m, z, y = m.view(2, 3), x.view(2, 3, 3).clone(), y.view(2, 3, 3)
    z[m] = y[m] * 2
    i, j = torch.where(m)
    return z, y[m].sum(0), y[i, j].mean(0), y[i].sum((0, 1)), torch.zeros(3, 3).index_add(0, j, y[i, j])


def experts(x: torch.Tensor, y: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """A mixture of experts: each token goes to two of three."""
    share, chosen = y.softmax(-1).topk(2, -1)
    picked = torch.nn.functional.one_hot(chosen, 3).permute(2, 1, 0)
    result = torch.zeros_like(x)
    for expert in range(3):
        rank, token = torch.where(picked[expert] > 0)
        rows = x[None, token].reshape(-1, 3)
        result.index_add_(0, token, torch.relu(rows @ WEIGHT * (expert + 1)) * share[token, rank, None])
    return result


SPECIAL = [0.0, -0.0, 1.0, -2.5, 1e30, float("inf"), float("nan")]
FUNCTIONS = (assigned, accumulated, reduced, by_places, over_two_dims, experts)
REWRITTEN = {}


def rewritten(function):  # type: ignore[no-untyped-def]
    if function not in REWRITTEN:
        program = export(function, (X, X + 1, MASK))
        result = lowerfix.apply(program, target="vgf", only=ONLY)
        result.validate()
        text = str(result.graph)
        assert "u0" not in text
        assert not any(op in text for op in ("nonzero", "aten.index.", "sym_size", "assert"))
        REWRITTEN[function] = result.module(check_guards=False)
    return REWRITTEN[function]


@given(
    function=st.sampled_from(FUNCTIONS),
    mask=st.lists(st.booleans(), min_size=6, max_size=6),
    values=st.lists(
        st.sampled_from([0.0, -0.0, 1.0, -2.5, 1e30, float("inf"), float("nan")]), min_size=36, max_size=36
    ),
    keeps=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_same_numbers_whatever_the_mask_and_the_rows_it_drops(function, mask, values, keeps) -> None:  # type: ignore[no-untyped-def]
    m = torch.tensor(mask)
    x, y = torch.tensor(values).view(2, 6, 3)
    if keeps:  # the special numbers are in the dropped rows only
        x, y = torch.where(m[:, None], X, x), torch.where(m[:, None], X + 1, y)
    if function is experts:
        y = X + 1
    assert_same(function(x, y, m), rewritten(function)(x, y, m), 1e-5)


def test_extrema_and_integers() -> None:
    def function(x: torch.Tensor, i: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
        table = torch.arange(12.0).view(4, 3)
        return x[m].amax(0), i[m].amin(), x[m].max(), i[m].sum(), table[i[m]].sum(0), x[m].logsumexp(0), x[m].norm()

    numbers = torch.tensor([3, -100, 1, 2, 100, 7])
    result = lowerfix.apply(export(function, (X, numbers, MASK)), target="vgf", only=ONLY)
    assert "index_put" not in str(result.graph)
    assert_same(function(X, numbers, MASK), result.module()(X, numbers, MASK), 1e-6)


def test_half_precision_means_and_a_dynamic_number_of_rows() -> None:
    half = X.half() * 20000
    function = lambda x, m: x[m].mean(0)  # noqa: E731
    result = lowerfix.apply(export(function, (half, MASK)), target="vgf", only=ONLY)
    assert_same(function(half, MASK), result.module()(half, MASK), 1e-3)
    rows = torch.export.Dim("rows", min=2, max=20)
    program = export(assigned, (X, X + 1, MASK), dynamic_shapes={"inputs": ({0: rows}, {0: rows}, {0: rows})})
    module = lowerfix.apply(program, target="vgf", only=ONLY).module()
    for count in (2, 9):
        x, m = torch.randn(count, 3), torch.arange(count) % 2 == 0
        assert_same(assigned(x, x + 1, m), module(x, x + 1, m), 1e-6)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x, m: x[m], "an output of the program"),
        (lambda x, m: x[m].softmax(0).sum(), "aten.softmax.int mixes rows"),
        (lambda x, m: x[m].sum() / x[m].shape[0], "computes with the number of rows"),
        (lambda x, m: x[m].flip(0).sum(), "not known to treat each row by itself"),
        (lambda x, m: (x[m].int() // 2).sum(), "on integers fails"),
        (lambda x, m: x[m].argmax(0), "mixes rows"),
        (lambda x, m: (x[m] + torch.arange(x[m].shape[0])[:, None]).sum(), "computes with the number of rows"),
        (lambda x, m: torch.zeros(7, 3).masked_scatter(torch.ones(7, 3, dtype=torch.bool), x[m]), "not known"),
        (lambda x, m: x[m][:2].sum(), "mixes rows"),
    ],
)
def test_what_mixes_rows_stays_and_says_why(function, reason: str) -> None:  # type: ignore[no-untyped-def]
    report = lowerfix.Report()
    program = export(function, (X, MASK))
    result = lowerfix.apply(program, target="vgf", only=ONLY, report=report)
    assert "index" in str(result.graph)
    assert reason in "; ".join(f.reason for f in report.of("declined") if f.pass_id == "masked-rows")


def test_a_check_that_limits_the_number_of_rows_is_kept() -> None:
    def function(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        rows = x[m]
        torch._check(rows.shape[0] <= 4)
        return rows.sum(0)

    report = lowerfix.Report()
    lowerfix.apply(export(function, (X, MASK)), target="vgf", only=ONLY, report=report)
    assert "limits the number of rows" in report.of("declined")[0].reason


@pytest.mark.slow
@pytest.mark.parametrize(("target", "left"), [("vgf", []), ("xnnpack", ["where.self", "view_copy"])])
def test_lowered_and_executed(target: str, left: list[str]) -> None:
    """XNNPACK has no Booleans; there a kernel of the runtime selects, of values that were computed for all rows."""

    def function(x: torch.Tensor, y: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = x.clone()
        z[m] = torch.relu(y[m] @ WEIGHT)
        return z, x[m].amax(0)

    check_rewrite(function, (X, X + 1, MASK), target=target, expect="masked-rows", tolerance=1e-5, allowed_left=left)
