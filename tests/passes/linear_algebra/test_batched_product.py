import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.linear_algebra import batched_product
from lowerfix.testing import assert_same, check_rewrite


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(4, 8), torch.randn(8, 6), torch.randn(1, 3, 4, 8), torch.randn(8))

    def forms(a: Tensor, b: Tensor, heads: Tensor, row: Tensor) -> tuple[Tensor, ...]:
        a, b, heads, row = (x.clamp(-8, 8) for x in (a, b, heads, row))  # a sum in another order overflows elsewhere
        one = heads.reshape(3, 4, 8)
        return (
            a @ b,
            heads @ b,
            heads @ heads.transpose(-1, -2),
            a @ one.transpose(-1, -2),
            a @ row,
            row @ one.transpose(-1, -2),
            torch.dot(row, row),
            torch.addmm(row[:6], a, b, alpha=2, beta=0.5),
            torch.addmv(row[:4], a, row, beta=0),
            F.linear(heads, a, row[:4]),
        )

    check_rewrite(forms, inputs, target="xnnpack", expect="batched-product", tolerance=1e-4)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_it_is_what_pytorch_does(data: st.DataObject) -> None:
    lead = data.draw(st.lists(st.integers(1, 3), max_size=2))

    def part() -> list[int]:
        shape = lead[data.draw(st.integers(0, len(lead))) :]
        return [data.draw(st.sampled_from([1, size])) for size in shape]

    x = torch.randn(*part(), 4, 5) if data.draw(st.booleans()) else torch.randn(5)
    y = torch.randn(*part(), 5, 3) if data.draw(st.booleans()) else torch.randn(5)
    assert_same(torch.matmul(x, y), batched_product.matmul(x, y), 1e-5)
    beta, alpha = data.draw(st.sampled_from([0, 1, 0.5])), data.draw(st.sampled_from([1, 2]))
    if x.dim() == y.dim() == 2:
        added = torch.full((3,), float("nan")) if beta == 0 else torch.randn(3)
        expected = torch.addmm(added, x, y, beta=beta, alpha=alpha)
        assert_same(expected, batched_product.addmm(added, x, y, beta=beta, alpha=alpha), 1e-5)
    if x.dim() == 2:
        assert_same(
            F.linear(y.mT if y.dim() > 1 else y, x), batched_product.linear(y.mT if y.dim() > 1 else y, x), 1e-5
        )


def test_declines() -> None:
    with pytest.raises(Decline, match="int64"):
        batched_product.matmul(torch.ones(2, 2, dtype=torch.int64), torch.ones(2, 2, dtype=torch.int64))
