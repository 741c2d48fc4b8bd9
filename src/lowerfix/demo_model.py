"""A small robot policy, as such models are written: the demo's example."""

from __future__ import annotations

import torch
from torch import Tensor, nn

JOINTS = 6
STEPS = 16
CHANNELS = 24
CODES = 32


class ConvBlock(nn.Module):
    """Convolution over time, group normalisation, Mish: the block of Diffusion Policy's 1-D U-Net."""

    def __init__(self, channels_in: int, channels_out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels_in, channels_out, 3, stride=stride, padding=1)
        self.norm = nn.GroupNorm(4, channels_out)
        self.activation = nn.Mish()  # no quantizer annotates it, so it stays in float

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.activation(self.norm(self.conv(x)))
        return y


class Codebook(nn.Module):
    """The vector quantizer of VQ-BeT and ACT-like policies: every step is replaced by the code nearest to it."""

    def __init__(self, codes: int, channels: int) -> None:
        super().__init__()
        self.codes = nn.Embedding(codes, channels)

    def forward(self, x: Tensor) -> Tensor:
        """`x` and the result are [batch, channels, steps]."""
        steps = x.transpose(1, 2)
        codes = self.codes.weight
        # |s - c|² without |s|², which is the same for all codes.
        distances = codes.square().sum(-1) - 2 * steps @ codes.t()
        nearest = distances.argmin(-1)  # TOSA has only argmax; and the index is int64
        quantized: Tensor = self.codes(nearest)
        return quantized.transpose(1, 2)


class RobotPolicy(nn.Module):
    """A history of joint positions [batch, 6, 16] to a chunk of actions [batch, 6, 16], through a VQ bottleneck.

    About 7000 parameters, the same in every run.
    """

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.encode = ConvBlock(JOINTS, CHANNELS)
            self.down = ConvBlock(CHANNELS, CHANNELS, stride=2)
            self.codebook = Codebook(CODES, CHANNELS)
            self.up = nn.ConvTranspose1d(CHANNELS, CHANNELS, 4, stride=2, padding=1)  # TOSA's has two dimensions
            self.decode = ConvBlock(CHANNELS, CHANNELS)
            self.head = nn.Conv1d(CHANNELS, JOINTS, 1)
        # The robot's driver counts the joints in another order than the training data.
        self.register_buffer("order", torch.tensor([2, 0, 1, 5, 3, 4]))  # int64, as every index in PyTorch
        self.order: Tensor

    def forward(self, positions: Tensor) -> Tensor:
        skip = self.encode(positions)
        latent = self.down(skip)
        latent = latent + self.codebook(latent)
        x = self.decode(self.up(latent) + skip)
        actions: Tensor = self.head(x)
        return actions[:, self.order]


def example_inputs() -> tuple[Tensor]:
    """One input: positions [1, 6, 16] in radians."""
    return calibration_inputs(1)[0]


def calibration_inputs(count: int = 4) -> list[tuple[Tensor]]:
    """`count` inputs, positions [1, 6, 16] in radians: smooth movements, as a robot makes them, with sensor noise."""
    generator = torch.Generator().manual_seed(1)
    time = torch.linspace(0, 1, STEPS)
    batches = []
    for _ in range(count):
        frequency = 1 + torch.rand(1, JOINTS, 1, generator=generator)
        phase = 6.28 * torch.rand(1, JOINTS, 1, generator=generator)
        noise = 0.02 * torch.randn(1, JOINTS, STEPS, generator=generator)
        batches.append(((6.28 * frequency * time + phase).sin() + noise,))
    return batches


def make() -> tuple[RobotPolicy, tuple[Tensor], list[tuple[Tensor]]]:
    """The model, one input and calibration inputs: a factory as the command line takes it."""
    return RobotPolicy().eval(), example_inputs(), calibration_inputs()
