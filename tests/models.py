"""Small models of our own, with the ops that real ones have: robot policies and a text encoder."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TimeEmbedding(nn.Module):
    """Sines and cosines of the time step at geometrically spaced frequencies."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, time: Tensor) -> Tensor:
        half = self.channels // 2
        frequencies = torch.exp(torch.arange(half) * (-math.log(10000) / (half - 1)))
        angles = time.unsqueeze(-1) * frequencies.unsqueeze(0)
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


def conv_block(channels_in: int, channels_out: int) -> nn.Sequential:
    convolution = nn.Conv1d(channels_in, channels_out, 5, padding=2)
    return nn.Sequential(convolution, nn.GroupNorm(4, channels_out), nn.Mish())


class ConditionedBlock(nn.Module):
    """Two convolutions, the features between them scaled and shifted by the condition (FiLM), and a residual."""

    def __init__(self, channels_in: int, channels_out: int, condition: int) -> None:
        super().__init__()
        self.first = conv_block(channels_in, channels_out)
        self.second = conv_block(channels_out, channels_out)
        self.condition = nn.Sequential(nn.Mish(), nn.Linear(condition, 2 * channels_out))
        same = channels_in == channels_out
        self.residual = nn.Identity() if same else nn.Conv1d(channels_in, channels_out, 1)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        scale, shift = self.condition(condition).unsqueeze(-1).chunk(2, dim=1)
        y: Tensor = self.second(scale * self.first(x) + shift) + self.residual(x)
        return y


class DiffusionUnet(nn.Module):
    """One denoising step of a diffusion policy: a conditional U-Net over the action sequence."""

    def __init__(self, actions: int = 4, observations: int = 8, widths: tuple[int, int] = (16, 16)) -> None:
        super().__init__()
        steps = 16
        narrow, wide = widths
        condition = steps + observations
        self.time = nn.Sequential(
            TimeEmbedding(steps), nn.Linear(steps, 4 * steps), nn.Mish(), nn.Linear(4 * steps, steps)
        )
        self.down = nn.ModuleList(
            [
                ConditionedBlock(actions, narrow, condition),
                nn.Conv1d(narrow, narrow, 3, stride=2, padding=1),
                ConditionedBlock(narrow, wide, condition),
            ]
        )
        self.middle = ConditionedBlock(wide, wide, condition)
        self.up = nn.ModuleList(
            [ConditionedBlock(2 * wide, narrow, condition), nn.ConvTranspose1d(narrow, narrow, 4, stride=2, padding=1)]
        )
        self.last = nn.Sequential(conv_block(narrow, narrow), nn.Conv1d(narrow, actions, 1))

    def forward(self, sample: Tensor, time: Tensor, observation: Tensor) -> Tensor:
        """``sample`` is [batch, steps, actions], ``time`` [batch], ``observation`` [batch, observations]."""
        x = sample.transpose(1, 2)
        condition = torch.cat([self.time(time), observation], dim=-1)
        x = self.down[0](x, condition)
        x = self.down[2](self.down[1](x), condition)
        skip = x
        x = self.middle(x, condition)
        x = self.up[1](self.up[0](torch.cat([x, skip], dim=1), condition))
        result: Tensor = self.last(x).transpose(1, 2)
        return result

    @staticmethod
    def inputs(seed: int = 0) -> tuple[Tensor, ...]:
        g = torch.Generator().manual_seed(seed)
        time = torch.randint(0, 100, (1,), generator=g).float()
        return torch.randn(1, 16, 4, generator=g), time, torch.randn(1, 8, generator=g)


class NormedLinear(nn.Linear):
    """Linear, layer normalisation, activation."""

    def __init__(self, channels_in: int, channels_out: int, activation: nn.Module) -> None:
        super().__init__(channels_in, channels_out)
        self.norm = nn.LayerNorm(channels_out)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.activation(self.norm(super().forward(x)))
        return y


class SimNorm(nn.Module):
    """A softmax over each group of features."""

    def forward(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, 8).softmax(-1).view(*x.shape)


class WorldModel(nn.Module):
    """Encoder, latent dynamics, policy and value of a model-predictive controller."""

    def __init__(self, state: int = 6, actions: int = 4, latent: int = 32) -> None:
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=2),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, stride=2),
            nn.ELU(),
            nn.Flatten(),
            nn.Linear(8 * 6 * 6, latent),
            nn.LayerNorm(latent),
            nn.Sigmoid(),
        )
        self.state = nn.Sequential(
            nn.Linear(state, latent), nn.ELU(), nn.Linear(latent, latent), nn.LayerNorm(latent), nn.Sigmoid()
        )
        self.policy = nn.Sequential(
            NormedLinear(latent, latent, nn.Mish()), NormedLinear(latent, latent, nn.Mish()), nn.Linear(latent, actions)
        )
        self.dynamics = nn.Sequential(
            NormedLinear(latent + actions, latent, nn.Mish()), NormedLinear(latent, latent, SimNorm())
        )
        self.values = nn.ModuleList(
            nn.Sequential(NormedLinear(latent + actions, latent, nn.Tanh()), nn.ELU(), nn.Linear(latent, 1))
            for _ in range(2)
        )

    def forward(self, image: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The action, and the smaller of two estimates of what it is worth."""
        latent = torch.stack([self.image(image), self.state(state)]).mean(0)
        action = torch.tanh(self.policy(latent))
        following = self.dynamics(torch.cat([latent, action], dim=-1))
        joined = torch.cat([following, torch.tanh(self.policy(following))], dim=-1)
        worth = torch.stack([value(joined) for value in self.values]).min(dim=0).values
        return action, worth

    @staticmethod
    def inputs(seed: int = 0) -> tuple[Tensor, ...]:
        g = torch.Generator().manual_seed(seed)
        return torch.rand(2, 3, 31, 31, generator=g), torch.randn(2, 6, generator=g)


class CausalBlock(nn.Module):
    """A transformer block in which no position sees a later one."""

    def __init__(self, width: int, heads: int, longest: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.register_buffer("visible", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.attention(self.norms[0](x)).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        visible = self.get_buffer("visible")[:, :, :length, :length]
        scores = scores.masked_fill(visible == 0, float("-inf"))
        attended = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(attended)
        y: Tensor = x + self.mlp(self.norms[1](x))
        return y


class CodebookPolicy(nn.Module):
    """A transformer that chooses codes of a residual vector quantizer, and an offset for the action they stand for."""

    def __init__(self, observations: int = 6, actions: int = 4, width: int = 32, codes: int = 8) -> None:
        super().__init__()
        self.codes, self.actions, self.layers = codes, actions, 2
        self.embed = nn.Linear(observations, width)
        self.positions = nn.Embedding(16, width)
        self.block = CausalBlock(width, 4, 16)
        self.choose = nn.Linear(width, self.layers * codes)
        self.offset = nn.Linear(width, self.layers * codes * actions)
        self.codebooks = nn.Parameter(torch.randn(self.layers, codes, width))
        self.encode = nn.Linear(actions, width)
        self.decode = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, actions))

    def quantized(self, actions: Tensor) -> Tensor:
        """The actions as the sum of the nearest code of each layer to what the layers before left."""
        residual = self.encode(actions)
        total = torch.zeros_like(residual)
        for layer in range(self.layers):
            nearest = torch.cdist(residual, self.codebooks[layer]).argmin(-1)
            code = F.embedding(nearest, self.codebooks[layer])
            residual, total = residual - code, total + code
        return total

    def forward(self, observations: Tensor, previous: Tensor) -> Tensor:
        """Both are [batch, steps, ...]; the result is the actions."""
        batch, steps, _ = observations.shape
        x = self.embed(observations) + self.quantized(previous) + self.positions(torch.arange(steps))
        x = self.block(x).flatten(0, 1)
        logits = self.choose(x).view(-1, self.layers, self.codes)
        chosen = logits.softmax(-1).argmax(-1)
        offsets = self.offset(x).view(-1, self.layers, self.codes, self.actions)
        picked = torch.take_along_dim(offsets, chosen[..., None, None], dim=2).squeeze(2)
        codes = [F.embedding(chosen[:, layer], self.codebooks[layer]) for layer in range(self.layers)]
        result: Tensor = self.decode(torch.stack(codes).sum(0)) + picked.sum(1)
        return result.view(batch, steps, self.actions)

    @staticmethod
    def inputs(seed: int = 0) -> tuple[Tensor, ...]:
        g = torch.Generator().manual_seed(seed)
        return torch.randn(1, 6, 6, generator=g), torch.randn(1, 6, 4, generator=g)


class RootMeanSquareNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class RelativePositions(nn.Module):
    """A bias of the attention for each distance: near ones one by one, far ones in logarithmic buckets."""

    def __init__(self, heads: int, buckets: int = 16, farthest: int = 32) -> None:
        super().__init__()
        self.buckets, self.farthest = buckets, farthest
        self.bias = nn.Embedding(buckets, heads)

    def forward(self, length: int) -> Tensor:
        positions = torch.arange(length)
        distance = positions[None, :] - positions[:, None]
        half = self.buckets // 2
        bucket = (distance > 0).to(torch.long) * half
        distance = distance.abs()
        exact = half // 2
        far = exact + (torch.log(distance.float() / exact) / math.log(self.farthest / exact) * (half - exact)).to(
            torch.long
        )
        far = torch.min(far, torch.full_like(far, half - 1))
        bucket = bucket + torch.where(distance < exact, distance, far)
        bias: Tensor = self.bias(bucket).permute(2, 0, 1).unsqueeze(0)
        return bias


class TextEncoder(nn.Module):
    """A text encoder with relative positions, root-mean-square norms, gated GELU and an additive padding mask."""

    def __init__(self, words: int = 40, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(words, width)
        self.relative = RelativePositions(heads)
        self.norms = nn.ModuleList(RootMeanSquareNorm(width) for _ in range(3))
        self.qkv = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.inner = nn.Linear(width, 2 * width, bias=False)
        self.outer = nn.Linear(2 * width, width, bias=False)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """``words`` are numbers [batch, length]; ``mask`` is 1 for words and 0 for padding."""
        batch, length = words.shape
        x = self.words(words)
        bias = self.relative(length) + (1.0 - mask[:, None, None, :]) * torch.finfo(torch.float32).min
        y = self.norms[0](x)
        q, k, v = (layer(y).view(batch, length, self.heads, -1).transpose(1, 2) for layer in self.qkv)
        weights = (q @ k.transpose(-2, -1) + bias).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, -1))
        y = self.norms[1](x)
        x = x + self.outer(F.gelu(self.gate(y), approximate="tanh") * self.inner(y))
        result: Tensor = self.norms[2](x)
        return result

    @staticmethod
    def inputs(seed: int = 0) -> tuple[Tensor, ...]:
        g = torch.Generator().manual_seed(seed)
        mask = torch.ones(1, 8)
        mask[:, 6:] = 0
        return torch.randint(1, 40, (1, 8), generator=g, dtype=torch.int32), mask


def made(kind: type[nn.Module]) -> nn.Module:
    """The model with the same weights in every run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind().eval()


MODELS = (DiffusionUnet, WorldModel, CodebookPolicy, TextEncoder)
