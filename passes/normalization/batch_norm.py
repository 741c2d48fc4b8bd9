"""Batch and instance norm in products and sums.

**What it rewrites.** ``batch_norm`` and ``instance_norm``: with running statistics on ``[N, C]`` and volumes, where the
backend refuses it, and without them in every form.

**The identity.** With running statistics it is ``x * scale + shift``, where ``scale = weight / sqrt(var + eps)`` and
``shift = bias - mean * scale`` are constants. Without, mean and variance are those of the batch, or of each instance:
``d = x - mean(x)``, ``d / sqrt(mean(d * d) + eps)``, and then weight and bias. In training the running statistics move
by ``momentum`` towards those of the batch, its variance multiplied by ``n / (n - 1)``.

**Why the backend needs it.** Arm makes a convolution of images of a norm with running statistics, and dies on other
ranks; norms without running statistics are not in its list for float programs. Nothing takes a norm that trains, nor is
there a kernel for it.

**What it leaves alone.** Instance norm that trains running statistics. Half precision, whose statistics are
float32. Where the sum of the inputs overflows, PyTorch's kernels return an infinity, and this returns NaN.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = (
    "Arm takes batch norm of rows and volumes and norms without running statistics; not so in ExecuTorch 1.5.1"
)


@rewrite(aten.batch_norm.default)
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Over all dimensions but the second."""
    _check(input)
    if not training:
        return _scaled(input, weight, bias, running_mean, running_var, eps)
    if running_mean is not None:
        raise Decline("it trains running statistics; call eval() before the export")
    return _normalized(input, weight, bias, [0, *range(2, input.dim())], eps)


@rewrite(aten._native_batch_norm_legit_functional.default)
def trained_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """In training: also the mean and the reciprocal deviation of the batch, and the new running statistics."""
    _check(input)
    if not training:
        raise Decline("it trains nothing, and then batch_norm is what export makes of it")
    dims = [0, *range(2, input.dim())]
    count = math.prod(input.shape[dim] for dim in dims)
    if not isinstance(count, int) or count < 2:
        raise Decline(f"the variance of {count} values has no unbiased form that is known here")
    mean = input.mean(dims)
    difference = input - _along_channels(mean, input.dim())
    variance = (difference * difference).mean(dims)
    scale = torch.rsqrt(variance + eps)
    y = difference * _along_channels(scale, input.dim())
    if weight is not None:
        y = y * _along_channels(weight, input.dim())
    if bias is not None:
        y = y + _along_channels(bias, input.dim())
    new_mean = mean * momentum + running_mean * (1 - momentum)
    new_var = variance * (momentum * count / (count - 1)) + running_var * (1 - momentum)
    return y, mean, scale, new_mean, new_var


@rewrite(aten.instance_norm.default)
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Over all dimensions but the first two."""
    _check(input)
    if not use_input_stats:
        return _scaled(input, weight, bias, running_mean, running_var, eps)
    if running_mean is not None:
        raise Decline("it trains running statistics; call eval() before the export")
    return _normalized(input, weight, bias, list(range(2, input.dim())), eps)


def _check(x: Tensor) -> None:
    if x.dtype not in (torch.float32, torch.float64):
        raise Decline(f"the statistics of {x.dtype} are computed in float32")


def _along_channels(value: Tensor, rank: int) -> Tensor:
    return value.reshape(-1, *[1] * (rank - 2))


def _scaled(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, var: Tensor | None, eps: float
) -> Tensor:
    assert mean is not None
    assert var is not None
    scale = torch.rsqrt(var + eps)
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return x * _along_channels(scale, x.dim()) + _along_channels(shift, x.dim())


def _normalized(x: Tensor, weight: Tensor | None, bias: Tensor | None, dims: list[int], eps: float) -> Tensor:
    difference = x - x.mean(dims, keepdim=True)
    variance = (difference * difference).mean(dims, keepdim=True)
    y = difference * torch.rsqrt(variance + eps)
    if weight is not None:
        y = y * _along_channels(weight, x.dim())
    return y if bias is None else y + _along_channels(bias, x.dim())
