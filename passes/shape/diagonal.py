"""The diagonal of a matrix, as every n-th element of the flattened matrix.

**What it rewrites.** ``diagonal``, ``diagonal_copy``, ``linalg_diagonal``, ``diag`` of a matrix, and ``trace``.

**The identity.** In a matrix of ``n`` columns, element ``(i, i)`` is number ``i * (n + 1)`` of the rows laid end to
end; an offset moves the first one. A trace is the sum of these elements.

**Why the backend needs it.** Arm takes no ``diagonal_copy``; it takes slices with a step.

**What it leaves alone.** Matrices of symbolic size, and empty diagonals.
"""

import torch
from torch import Tensor

from lowerfix.errors import Decline
from lowerfix.rewriting import rewrite

aten = torch.ops.aten

RETIRE_WHEN = "the backends take diagonal_copy; none does in ExecuTorch 1.5.1"


@rewrite(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The two dimensions are merged where the second one follows the first, else at the end."""
    first, second = dim1 % x.dim(), dim2 % x.dim()
    if first > second:
        first, second, offset = second, first, -offset
    rows, columns = x.shape[first], x.shape[second]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Decline(f"the matrix has the symbolic size {rows} x {columns}")
    count = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    if count <= 0:
        raise Decline("the diagonal is empty")
    rest = [d for d in range(x.dim()) if d not in (first, second)]
    at = first if second == first + 1 else len(rest)
    if at != first or second != first + 1:
        x = x.permute([*rest, first, second])
    start = offset if offset >= 0 else -offset * columns
    flat = x.reshape([*x.shape[:at], rows * columns, *x.shape[at + 2 :]])
    end = start + (count - 1) * (columns + 1) + 1
    taken: Tensor = aten.slice.Tensor(flat, at, start, end, columns + 1)
    last = taken.dim() - 1
    return taken if at == last else taken.permute([*range(at), *range(at + 1, last + 1), at])


@rewrite(aten.linalg_diagonal.default)
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    return diagonal(A, offset, dim1, dim2)


@rewrite(aten.diag.default)
def diag(x: Tensor, offset: int = 0) -> Tensor:
    if x.dim() != 2:
        raise Decline("it makes a matrix of a vector")
    return diagonal(x, offset)


@rewrite(aten.trace.default)
def trace(x: Tensor) -> Tensor:
    total = diagonal(x).sum(0)
    return total if x.is_floating_point() else total.to(torch.int64)
