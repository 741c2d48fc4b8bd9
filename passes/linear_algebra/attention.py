"""Attention as products and a softmax of the last dimension.

**What it rewrites.** ``scaled_dot_product_attention`` with any mask, causal, with a scale, with grouped
heads.

**The identity.** Its definition: ``softmax(q @ k^T * scale + mask) @ v``, where a Boolean mask adds zero or negative
infinity. Grouped heads that share keys are rows of one product, so that nothing is repeated. A row of which all is
masked is zero in PyTorch, and NaN in a softmax: where a mask may have one, the mask of that row is made zero, and the
row is multiplied by zero after the softmax. Of a causal mask, or a constant one, it is known.

**Why the backend needs it.** What ``to_edge`` makes of it has comparisons, Booleans and ``expand``, which XNNPACK does
not take: twelve ops stay on the CPU, in the middle.

**What it leaves alone.** Dropout, other types than float32, and symbolic sizes. Where an infinite input makes all
scores of a row negative infinity without any mask, the row is NaN instead of zero.
"""

import math

import numpy as np
import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import constant, rewrite

aten = torch.ops.aten

ON = "xnnpack"
RETIRE_WHEN = "XNNPACK takes scaled_dot_product_attention whole; ExecuTorch 1.5.1's takes its products only"

LARGEST = torch.finfo(torch.float32).max


@rewrite(aten.scaled_dot_product_attention.default)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """By the definition."""
    _check(query, key, value, dropout_p)
    length, width = query.shape[-2:]
    keys = key.shape[-2]
    lead = list(query.shape[:-2])
    if not enable_gqa and not list(key.shape[:-2]) == list(value.shape[:-2]) == lead:
        raise Decline("the batches of query, key and value differ")
    batch = math.prod(key.shape[:-2])  # with grouped heads, the heads of a group are further rows
    rows = query.reshape(batch, -1, width) * (1 / math.sqrt(width) if scale is None else float(scale))
    scores = torch.bmm(rows, key.reshape(batch, keys, width).transpose(1, 2)).reshape([*lead, length, keys])
    kept: Tensor | None = None
    if is_causal:
        scores = scores + _causal(length, keys)
    elif attn_mask is not None:
        added, kept = _mask(attn_mask)
        scores = scores + added
    weights = torch.softmax(scores, -1)
    if kept is not None:
        weights = weights * kept
    result = torch.bmm(weights.reshape(batch, -1, keys), value.reshape(batch, keys, value.shape[-1]))
    return result.reshape([*lead, length, value.shape[-1]])


def _check(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> None:
    if dropout:
        raise Decline("it drops out at random; call eval() before the export")
    for x in (query, key, value):
        if x.dtype != torch.float32:
            raise Decline(f"{x.dtype} is computed in float32")
        if not constant_sizes(x):
            raise Decline("a size is symbolic")
        if x.numel() == 0:
            raise Decline("it is of no element")


def _causal(length: int, keys: int) -> Tensor:
    seen = np.tril(np.ones((length, keys), dtype=bool))
    return torch.from_numpy(np.where(seen, np.float32(0.0), -np.float32(np.inf)))


def _mask(mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """What to add to the scores, and what to multiply the weights with: zero for a row of which all is masked."""
    if not constant_sizes(mask):
        raise Decline("a size of the mask is symbolic")
    if mask.dtype != torch.bool:
        return _float_mask(mask)
    known = constant(mask)
    if known is None:
        seen = mask.to(torch.float32)
        kept = torch.clamp(torch.sum(seen, [-1], True) * 2.0, 0.0, 1.0)
        return torch.log(seen + (1.0 - kept)), kept
    some = known.any(-1, keepdims=True)
    added = torch.from_numpy(np.where(known | ~some, np.float32(0.0), -np.float32(np.inf)))
    return added, None if some.all() else torch.from_numpy(some.astype(np.float32))


def _float_mask(mask: Tensor) -> tuple[Tensor, Tensor]:
    if mask.dtype != torch.float32:
        raise Decline(f"a mask of {mask.dtype} is computed in float32")
    highest = torch.amax(mask, [-1], True)
    kept = torch.clamp(torch.clamp(highest * 0.5, -LARGEST, 0.0) + LARGEST, 0.0, 1.0)
    least = torch.log(1.0 - kept)  # zero where all is masked, else negative infinity
    return torch.maximum(least, mask), kept  # in this order: XNNPACK returns the second where one is NaN
