import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.scatter.masked_scatter import masked_scatter
from lowerfix.testing import adversarial_inputs, assert_same, check_rewrite


def images_among_words(x: Tensor, words: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
    mask = words == 7
    return x.masked_scatter(mask.unsqueeze(-1).expand_as(x), images), x[..., 0].masked_scatter(mask, images)


@pytest.mark.slow
def test_features_among_embeddings_go_whole() -> None:
    words = torch.tensor([[1, 7, 7, 2, 7]], dtype=torch.int32)
    inputs = (torch.randn(1, 5, 4), words, torch.randn(3, 4))
    check_rewrite(
        images_among_words,
        inputs,
        target="vgf",
        expect="masked-scatter",
        lowered_inputs=list(adversarial_inputs(inputs))[::8],
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=0, max_size=3), st.integers(0, 3), st.integers(0, 99), st.integers(0, 3))
def test_any_mask(shape: list[int], expanded: int, seed: int, more: int) -> None:
    torch.manual_seed(seed)
    x = torch.randn(shape)
    kept = shape[: max(0, len(shape) - expanded)]
    mask = (torch.rand(kept) > 0.5).reshape(kept + [1] * (len(shape) - len(kept)))
    source = torch.randn(x.numel() + more)
    assert_same(x.masked_scatter(mask.expand(shape), source), masked_scatter(x, mask.expand(shape), source))
    assert_same(x.masked_scatter(mask, source), masked_scatter(x, mask, source))
    whole = mask.expand(shape).contiguous()
    assert_same(x.to(torch.int32).masked_scatter(whole, source.int()), masked_scatter(x.int(), whole, source.int()))


def test_each_decline_says_why() -> None:
    x = torch.zeros(5000)
    with pytest.raises(Decline, match="rows to count"):
        masked_scatter(x, x > 0, x)
    with pytest.raises(Decline, match="nothing to scatter"):
        masked_scatter(x[:0], x[:0] > 0, x)
