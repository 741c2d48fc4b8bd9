"""Values that fill a mask one after the other, as a selection by the mask's running count.

**What it rewrites.** ``masked_scatter(x, mask, source)``, by which vision-language models put image features among the
embeddings of words.

**The identity.** The n-th true place of the mask, in row-major order, gets the n-th element of the source: its number
is the running count of true places less one. What is selected elsewhere is not used. The count is taken in float32,
which is exact for so few. A mask that is expanded along the last dimensions is counted once for all of them, and whole
rows of the source are selected.

**Why the backend needs it.** Arm takes no ``masked_scatter``. It takes sums and selections.

**What it leaves alone.** Masks of symbolic size or of more than 4096 rows to count, as Arm's running sum takes the
square of that many steps. A mask with more true places than the
source has elements is an error in PyTorch, and undefined here.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "Arm takes masked_scatter; not in ExecuTorch 1.5.1"

LONGEST = 4096


@rewrite(aten.masked_scatter.default)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    if not all(isinstance(size, int) for size in (*shape, *source.shape)):
        raise Decline("its size is symbolic")
    if source.numel() == 0 or shape.numel() == 0:
        raise Decline("there is nothing to scatter")
    rows = mask.expand(shape)
    width = 1
    while rows.dim() and (rows.stride(-1) == 0 or rows.shape[-1] == 1):  # expanded: the same all along
        width *= rows.shape[-1]
        rows = rows.select(-1, 0)
    if source.numel() % width:
        rows, width = mask.expand(shape), 1
    if rows.numel() > LONGEST:
        raise Decline(f"the mask has {rows.numel()} rows to count, more than {LONGEST}")
    places = torch.where(rows.reshape(-1), torch.ones(()), torch.zeros(()))
    last = float(source.numel() // width - 1)
    number = torch.clamp(torch.cumsum(places, 0) - 1.0, 0.0, last).to(torch.int32)
    values = torch.index_select(source.reshape(-1, width), 0, number).reshape(shape)
    return torch.where(mask, values, x)
