"""argmax in the forms that Arm refuses.

**What it rewrites.** ``argmax`` of the flattened tensor, with ``keepdim``, with an index that is read as int64, of a
tensor without dimensions, and of integers of 32 bits.

**The identity.** Without a dimension it numbers the elements in row-major order, as a flattened tensor does;
``keepdim`` puts the dimension back. Of integers it is the least number of an element that equals the maximum.

**Why the backend needs it.** Arm takes ``argmax`` along one given dimension, without ``keepdim``, and where the index
is read as int32; TOSA's ARGMAX takes floats and integers of 8 and 16 bits.

**What it leaves alone.** Dimensions of 2**31 elements and more, int64, and a symbolic length of integers.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm's partitioner takes argmax in every form; not in ExecuTorch 1.5.1"


@rewrite(aten.argmax.default)
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Along one dimension, with an int32 index that is cast up at the end."""
    y, along = _along_one(x, dim)
    return _result(torch.argmax(y, along).to(torch.int32), x, dim, keepdim)


@rewrite(aten.argmax.default, cost=2)
def argmax_of_integers(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The least number of an element that equals the maximum."""
    if x.dtype not in (torch.int8, torch.int16, torch.int32, torch.bool):
        raise Decline(f"the elements are {x.dtype}, not integers of up to 32 bits")
    y, along = _along_one(x.to(torch.int32) if x.dtype == torch.bool else x, dim)
    n = y.shape[along]
    if not isinstance(n, int):
        raise Decline(f"the dimension has the symbolic size {n}; export with that size constant")
    shape = [1] * y.dim()
    shape[along] = n
    number = torch.arange(n, dtype=torch.int32).reshape(shape)
    largest = torch.amax(y, along, keepdim=True)
    index = torch.amin(torch.where(y == largest, number, torch.full((), n, dtype=torch.int32)), along)
    return _result(index, x, dim, keepdim)


def _along_one(x: Tensor, dim: int | None) -> tuple[Tensor, int]:
    if x.is_complex():
        raise Decline("complex numbers have no order")
    if x.numel() > (1 << 31) - 1:
        raise Decline("the index may not fit int32")
    if x.dim() == 0 or dim is None:
        return x.reshape(-1), 0
    return x, dim


def _result(index: Tensor, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if keepdim and x.dim():
        index = index.reshape([1] * x.dim()) if dim is None else index.unsqueeze(dim)
    return index.to(torch.int64)
