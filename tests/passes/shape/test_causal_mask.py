import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import lowerfix
from lowerfix import lowering
from lowerfix.errors import Decline
from lowerfix.passes.shape.causal_mask import causal_attention
from lowerfix.testing import assert_same, export


def attention(q: Tensor, k: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, k, is_causal=True)


def test_causal_attention_goes_whole() -> None:
    inputs = (torch.randn(1, 2, 4, 8), torch.randn(1, 2, 6, 8))
    report = lowerfix.Report()
    program = lowerfix.apply(export(attention, inputs), target="tosa-fp", report=report)
    assert "causal-mask" in {finding.pass_id for finding in report.of("rewritten")}
    lowered = lowering.lower(program, "tosa-fp", compile=False)
    assert (lowered.delegates, dict(lowered.cpu_ops)) == (1, {})
    assert_same([attention(*inputs)], list(lowering.execute(lowered, list(inputs))), 1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from([None, 0.3]), st.booleans())
def test_any_lengths(queries: int, keys: int, scale: float | None, grouped: bool) -> None:
    q, k = torch.randn(1, 4, queries, 8), torch.randn(1, 2 if grouped else 4, keys, 8)
    theirs = F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=scale, enable_gqa=grouped)
    assert_same(theirs, causal_attention(q, k, k, None, 0.0, True, scale=scale, enable_gqa=grouped), 1e-5)


def test_each_decline_says_why() -> None:
    q = torch.randn(1, 2, 4, 8)
    with pytest.raises(Decline, match="not causal"):
        causal_attention(q, q, q)
    with pytest.raises(Decline, match="dropout"):
        causal_attention(q, q, q, None, 0.1, True)
