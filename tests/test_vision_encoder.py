"""A vision encoder that drops padding images, with the ops of SmolVLM's and Idefics3's."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import lowerfix
from lowerfix import lowering
from lowerfix.testing import assert_same, export

SIDE, PATCH, WIDTH = 16, 8, 16


class VisionEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH, padding="valid")
        self.positions = nn.Embedding(4, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.queries, self.keys, self.values = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.project = nn.Linear(WIDTH, 6)

    def forward(self, images: Tensor) -> list[Tensor]:
        batch, count = images.shape[:2]
        x = images.view(batch * count, *images.shape[2:])
        real = (x == 0.0).sum(dim=(-1, -2, -3)) != x.shape[1:].numel()
        real[0] |= ~torch.any(real)
        counts = real.view(batch, count).sum(dim=1)
        x = x[real].contiguous()
        seen = torch.ones([x.shape[0], SIDE, SIDE], dtype=torch.bool)
        seen = seen.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH).sum(dim=(-1, -2)) > 0
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.positions(self.places(seen))
        y = self.norm(x)
        q, k, v = (
            m(y).view(x.shape[0], -1, 2, WIDTH // 2).transpose(1, 2) for m in (self.queries, self.keys, self.values)
        )
        mask = seen.view(x.shape[0], 1, 1, -1).expand(-1, -1, x.shape[1], -1)
        y = scaled_dot_product_attention(q, k, v, mask)
        x = x + y.transpose(1, 2).reshape(x.shape[0], -1, WIDTH)
        return [part.reshape(-1, part.shape[-1]) for part in self.project(x).split(counts.tolist())]

    def places(self, seen: Tensor) -> Tensor:
        """The number of each patch, from the share of the image at which it lies."""
        share = torch.arange(2, dtype=torch.float32)[None] / seen[:, :, 0].sum(1)[:, None]
        number = torch.bucketize(share.clamp(max=1 - 1e-6), torch.tensor([0.5]), right=True)
        numbers = (number[:, :, None] * 2 + number[:, None, :]).reshape(seen.shape[0], -1)
        return torch.where(seen.view(seen.shape[0], -1), numbers, torch.zeros_like(numbers))


IMAGES = torch.randn(1, 3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
PROMISE = {"x = x[real]": "all-true"}


@pytest.mark.slow
def test_with_the_promise_it_is_one_delegate_and_the_numbers_hold() -> None:
    model = VisionEncoder().eval()
    result = lowerfix.apply(export(model, (IMAGES,)), target="xnnpack", promises=PROMISE)
    lowered = lowering.lower(result, "xnnpack", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    with torch.no_grad():
        assert_same(model(IMAGES), list(lowering.execute(lowered, (IMAGES,))), 1e-5)


@pytest.mark.slow
def test_without_it_a_finding_says_which_line_blocks_what_and_the_file_is_made() -> None:
    report = lowerfix.Report()
    result = lowerfix.apply(export(VisionEncoder(), (IMAGES,)), target="xnnpack", report=report)
    found = [f for f in report.of("declined") if f.pass_id == "promised-masks"]
    assert "ops behind it" in found[0].reason
    assert "test_vision_encoder.py" in found[0].source
    assert lowering.lower(result, "xnnpack", compile=False).pte()
