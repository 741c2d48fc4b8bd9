import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerfix
from lowerfix.passes.linear_algebra import matrix_products as products
from lowerfix.testing import assert_same, check_rewrite, export

A, B, V = torch.randn(4, 5), torch.randn(5, 6), torch.randn(5)
INPUTS = (A, B, V, torch.randn(2, 4, 5), torch.randn(2, 5, 6), torch.randn(3, 5, 5))


def every_form(
    a: torch.Tensor, b: torch.Tensor, v: torch.Tensor, c: torch.Tensor, d: torch.Tensor, w: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    a, b, v, c, d, w = (x.clamp(-8, 8) for x in (a, b, v, c, d, w))
    return (
        torch.addmv(a[:, 0], a, v, beta=2, alpha=0.5),
        torch.addbmm(c[0, :, :1], c, d, beta=0.5),
        torch.baddbmm(c[:, :, :1], c, d, alpha=2),
        torch.addr(a, a[:, 0], v),
        torch.mv(a, v),
        torch.dot(v, v),
        F.bilinear(a, a, w),
    )


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    check_rewrite(every_form, INPUTS, target="tosa-fp", expect="matrix-products", tolerance=1e-3)


@pytest.mark.slow
def test_in_int8_they_are_annotated() -> None:
    check_rewrite(every_form, INPUTS, target="tosa-int", expect="matrix-products", tolerance=1e-3)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.sampled_from([0, 1, 0.5]), st.sampled_from([1, -2.0])
)
def test_the_forms_agree_with_eager(rows: int, inner: int, columns: int, beta: float, alpha: float) -> None:
    a, b, v, w = torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(inner), torch.randn(rows)
    c, d, many = torch.randn(2, rows, inner), torch.randn(2, inner, columns), torch.randn(2, rows, columns)
    scale = {"beta": beta, "alpha": alpha}
    assert_same(torch.dot(v, v), products.dot(v, v), 1e-5)
    assert_same(torch.mv(a, v), products.mv(a, v), 1e-5)
    assert_same(torch.outer(w, v), products.outer(w, v))
    assert_same(torch.addmv(w, a, v, **scale), products.addmv(w, a, v, **scale), 1e-5)
    assert_same(torch.addr(a, w, v, **scale), products.addr(a, w, v, **scale), 1e-5)
    assert_same(torch.addmm(many[0], a, b, **scale), products.addmm(many[0], a, b, **scale), 1e-5)
    assert_same(torch.addbmm(many[0], c, d, **scale), products.addbmm(many[0], c, d, **scale), 1e-5)
    assert_same(torch.baddbmm(many, c, d, **scale), products.baddbmm(many, c, d, **scale), 1e-5)
    weight, bias = torch.randn(4, inner, inner), torch.randn(4)
    assert_same(F.bilinear(c, c, weight, bias), products.bilinear(c, c, weight, bias), 1e-4)
    assert_same(F.bilinear(v, v, weight), products.bilinear(v, v, weight), 1e-4)


def test_nan_stays_out_where_beta_is_zero() -> None:
    x = torch.full((4, 6), float("nan"))
    assert_same(torch.addmm(x, A, B, beta=0), products.addmm(x, A, B, beta=0), 1e-5)


def test_integers_are_declined_with_their_reason() -> None:
    with pytest.raises(lowerfix.Decline, match="int64"):
        products.mv(torch.ones(2, 2, dtype=torch.int64), torch.ones(2, dtype=torch.int64))


def test_products_that_are_taken_are_left_alone() -> None:
    program = export(lambda a, b: (a @ b, torch.mm(a, b)), (A, B))
    assert str(lowerfix.apply(program, target="tosa-fp").graph) == str(program.graph)
