"""Reductions of a tensor without dimensions, as those of one element.

**What it rewrites.** ``sum``, ``amax``, ``amin``, ``logsumexp``, ``prod``, ``any``, ``all`` along "dimension 0" and
``cumsum`` of a tensor without dimensions.

**The identity.** PyTorch counts such a tensor as one of a single dimension and a single element.

**Why the backend needs it.** A TOSA reduction needs an axis, and Arm's partitioner refuses tensors that have none.

**What it leaves alone.** Tensors with dimensions.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes reductions of tensors without dimensions; ExecuTorch 1.5.1 refuses them"

OPS = (
    aten.sum.default,
    aten.sum.dim_IntList,
    aten.mean.dim,
    aten.amax.default,
    aten.amin.default,
    aten.logsumexp.default,
    aten.prod.dim_int,
    aten.any.dim,
    aten.any.dims,
    aten.all.dim,
    aten.all.dims,
    aten.cumsum.default,
)


def of_one_element(op: Any) -> Callable[..., Tensor]:
    """The replacement of one op: a dimension is added before it and, where it is still there, removed after it."""

    def function(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if x.dim():
            raise Decline("the tensor has dimensions")
        result: Tensor = op(x.unsqueeze(0), *args, **kwargs)
        return result.squeeze(0) if result.dim() else result

    function.__name__ = f"{op._opname}_{op._overloadname}_of_one_element"
    return function


for _op in OPS:
    rewrite(_op, cost=9)(of_one_element(_op))
