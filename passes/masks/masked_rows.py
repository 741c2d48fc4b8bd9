"""Rows that a mask selects, computed for all rows and told apart where they come together again.

**What it rewrites.** ``x[m] = f(y[m])``, ``x[m].sum()`` and other reductions, ``out.index_add_(0, i, f(x[i]))`` with
``i`` from ``where(m)`` (a mixture of experts), and what leads there: ``x[m]``, ``masked_select``, ``nonzero`` and
``where(m)`` used as an index.

**The identity.** Where ``f`` treats each row by itself, the rows that the mask drops change nothing about those that it
keeps. So all are computed, and at the end ``where`` takes what the mask selects: instead of ``x`` for an assignment, of
zero for a sum, of minus infinity for a maximum. A mean is divided by the count of the mask. What was computed of a
dropped row, NaN included, is discarded. Integers of dropped rows are zero, so that as an index they are in range.

Sums come in another order. A maximum over no row at all is minus infinity, where PyTorch raises an error. Assertions
about the number of rows go, unless they limit it; that leaves the mask alone. A mixture of experts is computed for all
tokens by each expert, as no fixed number goes to any of them.

**Why the backend needs it.** The number of rows depends on data; no backend takes a tensor of such a size.

**What it leaves alone.** Rows that are mixed (by a softmax or a sum over some of them, ``cat``, a view that merges
them), whose number is computed with, or that are an output of the program: the finding names the op that is in the
way. Ops that are not known to treat each row by itself, and integer division, which fails on a row of zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline
from lowerfix.passes.masks._padding import carry_out, planned
from lowerfix.passes.masks._propagation import insert
from lowerfix.passes.masks._sites import Site, has_sites, sites
from lowerfix.program import Program, Stage
from lowerfix.report import Outcome
from lowerfix.targets import Target


@dataclass
class MaskedRows(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "masked-rows"
    after: ClassVar[tuple[str, ...]] = ("strip-guards", "promised-masks", "last-selected-row")
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.FLOAT})
    cleans_up: ClassVar[bool] = True
    retire_when: ClassVar[str] = "backends take tensors of a size that depends on data"

    def wants_functional(self, in_place: Sequence[Node], target: Target) -> Sequence[Node]:
        return in_place if has_sites(in_place[0].graph) else ()  # what they change is followed in functional form

    def run(self, program: Program, context: Context) -> bool:
        if program.has_in_place_ops:
            return False  # it is made functional first
        changed = sum(_spread(site, program, self.id) for site in sites(program)) > 0
        tried: set[str] = set()
        while True:
            groups: dict[Node, list[Site]] = {}
            for site in sites(program):
                if site.mask is not None and site.mask.name not in tried:
                    groups.setdefault(site.mask, []).append(site)
            if not groups:
                break
            mask, group = next(iter(groups.items()))
            tried.add(mask.name)
            try:
                plan = planned(program, group)
            except Decline as decline:
                context.find(self.id, group[0].node, Outcome.DECLINED, decline.reason)
                continue
            for site in group:
                reason = "all rows are computed, and the mask tells them apart where they come together"
                context.find(self.id, site.node, Outcome.REWRITTEN, reason)
            carry_out(plan, program, self.id)
            changed = True
        if changed:
            program.remove_dead()
        return changed


def _spread(site: Site, program: Program, pass_id: str) -> bool:
    """Give ``masked_select`` a mask of the size of what it selects from, as other selections have."""
    node, mask = site.node, site.mask
    if node.target is not torch.ops.aten.masked_select.default or mask is None:
        return False
    source: Any = node.args[0]
    shape = torch.broadcast_shapes(source.meta["val"].shape, mask.meta["val"].shape)

    def spread(x: torch.Tensor) -> torch.Tensor:
        return x.expand(shape)

    arguments = [
        one if one.meta["val"].shape == shape else insert(program, node, node, pass_id, spread, one)
        for one in (source, mask)
    ]
    changed = tuple(arguments) != node.args
    node.args = tuple(arguments)
    return changed
