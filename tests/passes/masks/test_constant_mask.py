import torch
from torch.nn.functional import scaled_dot_product_attention as attention

import lowerfix
from lowerfix.testing import assert_same, export

Q, K = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8)
ONLY = ["strip-guards", "out-of-place", "fold-constants", "constant-mask"]


def rewritten(function, inputs):  # type: ignore[no-untyped-def]
    report = lowerfix.Report()
    program = export(function, inputs)
    result = lowerfix.apply(program, target="xnnpack", only=ONLY, report=report)
    assert_same(function(*inputs), result.module()(*inputs), 1e-6)
    again = lowerfix.apply(result, target="xnnpack", only=ONLY)
    assert str(again.graph) == str(result.graph)
    return result, [f for f in report.of("rewritten") if f.pass_id == "constant-mask"]


def test_masks_that_mask_nothing_go() -> None:
    def function(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        true = torch.ones(2, 1, 1, 5, dtype=torch.bool).expand(2, 1, 4, 5)
        zero = torch.zeros(4, 5)
        kept = torch.where(true[..., :1], q * 2, k.sum())
        filled = (q + 1).masked_fill(torch.zeros(8, dtype=torch.bool), 3.0)
        other = torch.where(torch.zeros(4, 1, dtype=torch.bool), q * 3, q * 4)
        return attention(q, k, k, true), attention(q, k, k, attn_mask=zero), kept, filled, other

    result, found = rewritten(function, (Q, K))
    assert len(found) == 5
    assert not any(name in str(result.graph) for name in ("where", "masked_fill"))
    assert len(list(result.graph.find_nodes(op="placeholder"))) == 2


def test_others_stay() -> None:
    def function(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        some = (torch.arange(5) < 3).expand(4, 5)
        narrow = torch.where(torch.ones(2, 1, 1, 1, dtype=torch.bool), q[:1] * 2, q[:1])
        given = attention(q, k, k, k[..., 0].unsqueeze(2).expand(2, 3, 4, 5) > -9)
        return attention(q, k, k, some), attention(q, k, k, torch.ones(4, 5)), narrow, given

    assert rewritten(function, (Q, K))[1] == []
