from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selection_inputs import SEEDS, SOME, special, whole
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.selection.bucketize import bucketize, bucketize_float, searchsorted, searchsorted_float
from lowerfix.testing import assert_same

BOUNDARIES = torch.tensor([-1.0, 0.0, 0.0, 0.5, 2.0])


class Buckets(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("boundaries", BOUNDARIES)
        self.register_buffer("rows", torch.stack([BOUNDARIES, BOUNDARIES * 2]))

    def forward(self, x: Tensor) -> Any:
        return (
            torch.bucketize(x, self.boundaries, out_int32=True),
            torch.bucketize(x, self.boundaries, right=True).float(),
            torch.searchsorted(self.rows, x, out_int32=True, side="right"),
            torch.searchsorted(self.boundaries, x, right=True).to(torch.int32),
        )


@pytest.mark.slow
def test_every_form_goes_whole() -> None:
    inputs = (torch.randn(2, 7),)
    whole(Buckets(), inputs, "tosa-fp")


@SOME
@given(seed=SEEDS, right=st.booleans(), out_int32=st.booleans(), many=st.booleans())
def test_as_in_eager(seed: int, right: bool, out_int32: bool, many: bool) -> None:
    x = special((3, 8), seed)
    rows = special((3, 6) if many else (6,), seed + 1).nan_to_num(7.0).sort(-1)[0]
    for form in (searchsorted, searchsorted_float):
        options = {"right": right, "out_int32": out_int32}
        assert_same(torch.searchsorted(rows, x, **options), form(rows, x, **options))
        shuffled, order = rows.flip(-1), torch.arange(5, -1, -1).expand(rows.shape)
        assert_same(torch.searchsorted(rows, x, **options), form(shuffled, x, sorter=order, **options))
    if not many:
        for form in (bucketize, bucketize_float):
            assert_same(torch.bucketize(x, rows, **options), form(x, rows, **options))
            assert_same(torch.bucketize(x[0, 0], rows, **options), form(x[0, 0], rows, **options))


def test_what_is_declined() -> None:
    with pytest.raises(Decline, match="int64"):
        bucketize(torch.zeros(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(Decline, match="too many"):
        bucketize(torch.zeros(1 << 14), torch.zeros(1 << 14))
    with pytest.raises(Decline, match="nothing"):
        bucketize(torch.zeros(3), torch.zeros(0))
