"""Elements at constant positions along a dimension, for the passes that resample and pool."""

from collections.abc import Sequence

import torch
from torch import Tensor

aten = torch.ops.aten


def take(x: Tensor, dim: int, positions: Sequence[int], gather: bool = True) -> Tensor:
    """The elements of ``x`` at ``positions`` along ``dim``, by the plainest op that does it.

    A run is a slice, one with a step likewise, each element ``k`` times is a repetition; what remains is an
    ``index_select``, or without ``gather`` the slices side by side.
    """
    count, first = len(positions), positions[0]
    step = positions[1] - first if count > 1 else 1
    if step > 0 and list(positions) == list(range(first, first + count * step, step)):
        if (first, count, step) == (0, x.shape[dim], 1):
            return x
        part: Tensor = aten.slice.Tensor(x, dim, first, positions[-1] + 1, step)
        return part
    times = next((n for n, position in enumerate(positions) if position != first), count)
    if count % times == 0 and list(positions) == [first + n // times for n in range(count)]:
        return _repeated(take(x, dim, range(first, first + count // times)), dim, times)
    if gather:
        return torch.index_select(x, dim, torch.tensor(positions, dtype=torch.int32))
    return torch.cat([take(x, dim, run, gather) for run in _runs(positions)], dim)


def _repeated(x: Tensor, dim: int, times: int) -> Tensor:
    shape = list(x.shape)
    wide = [*shape[: dim + 1], times, *shape[dim + 1 :]]
    shape[dim] *= times
    return x.unsqueeze(dim + 1).expand(wide).reshape(shape)


def _runs(positions: Sequence[int]) -> list[list[int]]:
    """The positions cut into runs that go on by one, and runs of one position."""
    runs: list[list[int]] = []
    for position in positions:
        run = runs[-1] if runs else []
        step = run[1] - run[0] if len(run) > 1 else position - run[0] if run else None
        if step in (0, 1) and position == run[-1] + step:
            run.append(position)
        else:
            runs.append([position])
    return runs
