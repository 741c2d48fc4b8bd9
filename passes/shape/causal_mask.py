"""The mask of causal attention, as a constant.

**What it rewrites.** ``scaled_dot_product_attention`` with ``is_causal``.

**The identity.** PyTorch defines ``is_causal`` by the mask that is true where the key's position is at most the
query's. With that mask given, it is the same op.

**Why the backend needs it.** ExecuTorch decomposes ``is_causal`` to comparisons of int64 positions, which stay on the
CPU of Arm's targets. The mask here is a constant of the program.

**What it leaves alone.** Attention that is not causal, has dropout, or is over symbolic lengths. NaN in a masked key
can reach the result, as it does in what ExecuTorch makes of ``is_causal``; PyTorch's fused kernel skips it.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "constants are folded before attention is decomposed; ExecuTorch 1.5.1 leaves int64 positions"


@rewrite(aten.scaled_dot_product_attention.default)
def causal_attention(
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
    if not is_causal or attn_mask is not None:
        raise Decline("it is not causal")
    if dropout_p:
        raise Decline("it has dropout; export the model in evaluation mode")
    queries, keys = query.shape[-2], key.shape[-2]
    if not isinstance(queries, int) or not isinstance(keys, int):
        raise Decline(f"it is over the symbolic lengths {queries} and {keys}; a mask of them cannot be stored")
    mask = torch.arange(keys) <= torch.arange(queries).unsqueeze(1)
    result: Tensor = aten.scaled_dot_product_attention.default(
        query, key, value, mask, 0.0, False, scale=scale, enable_gqa=enable_gqa
    )
    return result
