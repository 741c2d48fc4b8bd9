import pytest
import torch
from torch import Tensor, nn

import lowerfix
from lowerfix import lowering
from lowerfix.testing import check_rewrite, export


class Grey(nn.Module):
    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(x.clamp(-8, 8)))


def image(channels: int) -> Tensor:
    return torch.randn(1, channels, 7, 5).to(memory_format=torch.channels_last)


@pytest.mark.slow
def test_a_grey_image_in_channels_last_runs() -> None:
    x = image(1)
    checked = check_rewrite(Grey(), (x,), target="xnnpack", expect="plain-layout", tolerance=1e-5)
    lowering.execute(checked.lowered, (torch.randn(1, 1, 7, 5),))


def test_other_layouts_and_other_backends_are_left_alone() -> None:
    for program, target in (
        (export(Grey(3), (image(3),)), "xnnpack"),
        (export(Grey(), (torch.randn(1, 1, 7, 5),)), "xnnpack"),
        (export(Grey(), (image(1),)), "vgf"),
    ):
        report = lowerfix.Report()
        lowerfix.apply(program, target=target, only="plain-layout", report=report)
        assert not report.findings


@pytest.mark.slow
def test_stock_dies_on_it() -> None:
    """Once this fails, the backend is right and the pass can be retired."""
    x = image(1)
    lowered = lowering.lower(export(Grey(), (x,)), "xnnpack", compile=False)
    with pytest.raises(RuntimeError):
        lowering.execute(lowered, (x,))
