"""Layer, group and RMS norm in means of rows.

**What it rewrites.** ``layer_norm``, ``group_norm``, ``rms_norm`` and what they are decomposed to,
``native_layer_norm``, ``native_group_norm`` and ``_fused_rms_norm``, in float32.

**The identity.** All that shares its statistics is a row of a view ``[rows, 1, 1, count]``: ``d = x - mean(x)``,
``d / sqrt(mean(d * d) + eps)``, then weight and bias. The variance is that of what was centred, so nothing cancels. RMS
norm does not centre.

**Why the backend needs it.** XNNPACK takes none of them, and ``mean`` over the last two of four dimensions only. Arm
takes all, but gives the statistics of the native forms in another shape.

**What it leaves alone.** Other types than float32, whose statistics are float32; symbolic sizes; empty tensors. Where
the variance overflows, PyTorch's kernels return NaN for the largest floats and a zero for others; this returns NaN.
"""

import math

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.passes.shape._views import constant_sizes
from lowerfix.rewriting import rewrite
from lowerfix.targets import arm

aten = torch.ops.aten

RETIRE_WHEN = (
    "XNNPACK takes layer_norm, group_norm and rms_norm, and Arm's statistics are right; not in ExecuTorch 1.5.1"
)

MISSHAPEN = "the mean and the reciprocal deviation come out in another shape"


@rewrite(aten.layer_norm.default, on="xnnpack")
def layer_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:
    """Over the last dimensions."""
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


@rewrite(aten.native_layer_norm.default, on="xnnpack")
def native_layer_norm(
    input: Tensor, normalized_shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """With the mean and the reciprocal deviation."""
    centred, mean, scale = _standardized(_rows(input, math.prod(normalized_shape)), eps)
    statistics = [*input.shape[: input.dim() - len(normalized_shape)], *[1] * len(normalized_shape)]
    result = _affine(centred.reshape(input.shape), weight, bias)
    return result, mean.reshape(statistics), scale.reshape(statistics)


rewrite(aten.native_layer_norm.default, wrong=MISSHAPEN, on=arm.FLOAT)(native_layer_norm)


@rewrite(aten.group_norm.default, on="xnnpack")
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Over the channels of a group and all positions."""
    batch, channels = input.shape[:2]
    rest = math.prod(input.shape[2:])
    return native_group_norm(input, weight, bias, batch, channels, rest, num_groups, eps)[0]


@rewrite(aten.native_group_norm.default, on="xnnpack")
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """With the means and the reciprocal deviations."""
    _check(input)
    centred, mean, scale = _standardized(_rows(input, HxW * C // group), eps)
    sides = [1] * (input.dim() - 2)
    weight = None if weight is None else weight.reshape([-1, *sides])
    bias = None if bias is None else bias.reshape([-1, *sides])
    result = _affine(centred.reshape(input.shape), weight, bias)
    return result, mean.reshape(N, group), scale.reshape(N, group)


rewrite(aten.native_group_norm.default, wrong=MISSHAPEN, on=arm.FLOAT)(native_group_norm)


@rewrite(aten.rms_norm.default, on="xnnpack")
def rms_norm(
    input: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Over the last dimensions."""
    return fused_rms_norm(input, normalized_shape, weight, eps)[0]


@rewrite(aten._fused_rms_norm.default, on="xnnpack")
def fused_rms_norm(
    input: Tensor, normalized_shape: list[int], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    """With the reciprocal root of the mean square."""
    rows = _rows(input, math.prod(normalized_shape))
    added = torch.finfo(input.dtype).eps if eps is None else eps
    scale = torch.rsqrt(torch.mean(rows * rows, [2, 3], True) + added)
    statistics = [*input.shape[: input.dim() - len(normalized_shape)], *[1] * len(normalized_shape)]
    return _affine((rows * scale).reshape(input.shape), weight, None), scale.reshape(statistics)


def _rows(x: Tensor, count: int) -> Tensor:
    _check(x)
    return x.reshape([x.numel() // count, 1, 1, count])


def _check(x: Tensor) -> None:
    if x.dtype != torch.float32:
        raise Decline(f"the statistics of {x.dtype} are computed in float32")
    if not constant_sizes(x):
        raise Decline("a size is symbolic")
    if x.numel() == 0:
        raise Decline("it is of no element")


def _standardized(rows: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = torch.mean(rows, [2, 3], True)
    centred = rows - mean
    variance = torch.mean(centred * centred, [2, 3], True)
    scale = torch.rsqrt(variance + eps) + variance * 0.0  # NaN where the variance is infinite
    return centred * scale, mean, scale


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias
