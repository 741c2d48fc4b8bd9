"""One of the rows that a mask selects in each sample, such as the last, without the others.

**What it rewrites.** ``x[mask].view(batch, -1, width)[:, -1]``, by which T5 and BART take the state at the last end of
sentence, and the same with another constant row than the last.

**The identity.** The view gives each sample the same number c of rows, one after the other, so row n of sample i is
selected row ``i * c + n`` overall: that of which the running count of the mask is the next. It is found by counting how
many places have a smaller one. That is so whatever the mask is, as long as the view is possible at all. The count is
taken in float32, which is exact for so few. Assertions about the number of selected rows go.

**Why the backend needs it.** The number of selected rows depends on data; no backend takes a tensor of such a size.

**What it leaves alone.** Selected rows that are read in another way as well; masks of 2**24 places and more; symbolic
sizes.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.passes.masks._propagation import insert, is_assertion
from lowerfix.passes.masks._sites import depending, mask_of, sites
from lowerfix.program import Program, Stage
from lowerfix.report import Outcome
from lowerfix.source import aten_name

aten = torch.ops.aten

EXACT = 1 << 24


@dataclass
class LastSelectedRow(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "last-selected-row"
    after: ClassVar[tuple[str, ...]] = ("strip-guards", "promised-masks")
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.FLOAT})
    cleans_up: ClassVar[bool] = True
    retire_when: ClassVar[str] = "backends take tensors of a size that depends on data"

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        if program.has_in_place_ops:
            return False
        for site in sites(program):
            node = site.node
            if mask_of(node) is None or node._erased:
                continue
            picked = _picked(node)
            if not picked:
                continue
            mask = site.mask
            for view, selects in picked.items():
                count = view.meta["val"].shape[0]
                for select in selects:
                    context.find(self.id, select, Outcome.REWRITTEN, "of the selected rows, only this one is needed")
                    new = insert(program, select, select, self.id, _row, node.args[0], mask, count, select.args[2])
                    program.replace(select, new)
            later = depending([node])
            for checked in reversed([one for one in program.graph.nodes if one in later and is_assertion(one)]):
                program.graph.erase_node(checked)
            changed = True
        if changed:
            program.remove_dead()
        return changed


def _picked(node: Node) -> dict[Node, list[Node]]:
    """The views of selected rows by sample, with what picks one row of each; empty where anything else reads them."""
    value = node.meta["val"]
    source: Any = node.args[0]
    indexed = mask_of(node)
    assert indexed is not None
    places = indexed[1].meta["val"].shape
    static = all(isinstance(size, int) for size in (*source.meta["val"].shape, *places))
    if indexed[0] != 0 or not static or places.numel() >= EXACT:
        return {}
    views = {user for user in node.users if aten_name(user) in ("view", "reshape") and user.args[0] is node}
    found: dict[Node, list[Node]] = {}
    for view in views:
        shape = view.meta["val"].shape
        if len(shape) != value.dim() + 1 or tuple(shape[2:]) != tuple(value.shape[1:]) or not isinstance(shape[0], int):
            return {}
        selects = list(view.users)
        if not all(user.target is aten.select.int and user.args[1] == 1 for user in selects):
            return {}
        found[view] = selects
    allowed = {*views, *(select for selects in found.values() for select in selects)}
    sizes = [user for user in node.users if user not in views]
    while sizes:  # whatever else reads it only asks for its size, to make or to check the view
        one = sizes.pop()
        if one in allowed or is_assertion(one):
            continue
        if one.op != "call_function" or not isinstance(one.meta.get("val"), (torch.SymInt, torch.SymBool)):
            return {}
        sizes.extend(one.users)
    return found


def _row(x: Tensor, mask: Tensor, count: int, row: int) -> Tensor:
    flat = x.flatten(0, mask.dim() - 1) if mask.dim() > 1 else x
    running = torch.cumsum(torch.where(mask.reshape(-1), torch.ones(()), torch.zeros(())), 0)
    each = running[-1:] / float(count)
    first = torch.arange(count, dtype=torch.float32) + (0.0 if row >= 0 else 1.0)
    wanted = first * each + float(row + 1)
    before = running.unsqueeze(0) < wanted.unsqueeze(1)
    place = torch.where(before, torch.ones(()), torch.zeros(())).sum(1)
    return torch.index_select(flat, 0, torch.clamp(place, 0.0, float(flat.shape[0] - 1)).to(torch.int32))
