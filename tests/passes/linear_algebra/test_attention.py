from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lowerfix import lowering
from lowerfix.api import apply
from lowerfix.errors import Decline
from lowerfix.passes.linear_algebra import attention as forms
from lowerfix.testing import adversarial, assert_same, export

attend = torch.nn.functional.scaled_dot_product_attention
LOWEST = torch.finfo(torch.float32).min


def check(model: nn.Module | Callable[..., object], *trials: Sequence[Tensor], left: Sequence[str] = ()) -> None:
    """Lower for XNNPACK, and compare what the runtime computes with PyTorch's own definition.

    ``check_rewrite`` compares with what eager runs, whose fused kernel makes zero of NaN.
    """
    lowered = lowering.lower(apply(export(model, trials[0]), target="xnnpack"), "xnnpack", compile=False)
    assert lowered.delegates == 1
    assert set(lowered.cpu_ops) <= set(left)
    for trial in trials:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            expected = model(*trial)
        assert_same(expected, list(lowering.execute(lowered, list(trial))), 1e-5)


def masks() -> tuple[Tensor, Tensor]:
    some = torch.ones(6, 6).tril().bool()
    none = some.clone()
    none[3] = False
    return some, none


def inputs(heads: int = 4) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, 4, 6, 8), torch.randn(1, heads, 6, 8), torch.randn(1, heads, 6, 8)]


@pytest.mark.slow
def test_xnnpack_takes_attention_without_a_mask_with_constant_ones_and_with_grouped_heads() -> None:
    some, none = masks()

    def every_form(q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor) -> tuple[Tensor, ...]:
        plain = attend(q, k, v), attend(q, k, v, is_causal=True), attend(q[0], k[0], v[0])
        masked = attend(q, k, v, attn_mask=some.clone()), attend(q, k, v, attn_mask=none.clone())
        return *plain, *masked, attend(q, k2, v2, enable_gqa=True, scale=0.3)

    q, k, v = inputs()
    _, k2, v2 = inputs(2)
    check(every_form, (q, k, v, k2, v2), (q * 30, k, v, k2, v2))


@pytest.mark.slow
def test_rows_of_which_all_is_masked_by_floats_are_zero() -> None:
    some, none = masks()
    q, k, v = inputs()
    shift = torch.randn(6, 6)
    trials = [
        torch.where(none, shift, -torch.inf),
        torch.where(some, 0.0, LOWEST),
        torch.where(none, LOWEST, -torch.inf),
        torch.where(none, shift, torch.nan),
    ]
    check(lambda q, k, v, mask: attend(q, k, v, attn_mask=mask), *((q, k, v, mask) for mask in trials))


@pytest.mark.slow
def test_of_a_boolean_mask_only_its_cast_stays_on_the_cpu() -> None:
    q, k, v = inputs()
    trials = ((q, k, v, mask) for mask in reversed(masks()))
    check(lambda q, k, v, mask: attend(q, k, v, attn_mask=mask), *trials, left=["_to_dim_order_copy"])


@pytest.mark.slow
def test_multi_head_attention_is_one_delegate() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.attention(x, x, x, need_weights=False)[0]
            return result

    check(Attention().eval(), (torch.randn(2, 6, 16),))


@pytest.mark.parametrize("position", [0, 1, 2])
def test_nan_and_infinity_go_where_they_go_in_pytorch(position: int) -> None:
    trial = inputs()
    for variant in adversarial(trial[position]):
        if (variant.abs() > 1e38).logical_and(variant.isfinite()).any():
            continue  # where the products overflow, it depends on the order of the sums
        trial[position] = variant
        with sdpa_kernel(SDPBackend.MATH):
            assert_same(attend(*trial), forms.attention(*trial), 1e-5)


@pytest.mark.parametrize("as_float", [False, True])
def test_masks_and_grouped_heads(as_float: bool) -> None:
    for heads in (1, 2, 4):
        trial = inputs(heads)
        for mask in (*masks(), torch.rand(1, 4, 1, 6) > 0.9):
            added = torch.where(mask, 0.5, -torch.inf) if as_float else mask
            with sdpa_kernel(SDPBackend.MATH):
                expected = attend(*trial, attn_mask=added, enable_gqa=True, scale=0.7)
            assert_same(expected, forms.attention(*trial, added, enable_gqa=True, scale=0.7), 1e-5)


def test_declines_say_why() -> None:
    q, k, v = inputs()
    with pytest.raises(Decline, match="drops out"):
        forms.attention(q, k, v, dropout_p=0.5)
    with pytest.raises(Decline, match="float16"):
        forms.attention(q.half(), k.half(), v.half())
    with pytest.raises(Decline, match="differ"):
        forms.attention(q, k[:, :2], v[:, :2])
