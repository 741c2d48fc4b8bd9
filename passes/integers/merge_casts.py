"""Merge casts: chains through a wider integer, and the same cast made twice.

**What it rewrites.** ``x.to(int64).to(int32)`` with ``x`` int32 is ``x``, and with ``x`` int16 it is ``x.to(int32)``:
the wider type holds every value of the narrower one, so going through it changes nothing. Two casts of one tensor to
one dtype that rewrites have made become one.

**Why the backend needs it.** Rewrites meet at int64, the dtype of PyTorch's indices: one casts its int32 result up,
the next casts it down again, and Arm has no int64 to cast to.

**What it leaves alone.** Chains through a narrower or a floating-point type, which do change values; programs with
in-place ops, where a cast is also a copy.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import CASTS, Program
from lowerfix.report import Outcome
from lowerfix.source import op_name


@dataclass
class MergeCasts(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "merge-casts"
    after: ClassVar[tuple[str, ...]] = ("fold-constants",)
    cleans_up: ClassVar[bool] = True

    def run(self, program: Program, context: Context) -> bool:
        if program.has_in_place_ops:
            return False
        changed = False
        seen: dict[tuple[Node, torch.dtype], Node] = {}
        for node in list(program.graph.nodes):
            if not _is_cast(node):
                continue
            inner = node.args[0]
            while _is_cast(inner) and _holds(inner.meta["val"].dtype, inner.args[0].meta["val"].dtype):
                context.find(
                    self.id, node, Outcome.REWRITTEN, f"the cast to {inner.meta['val'].dtype} before it is void"
                )
                node.replace_input_with(inner, inner.args[0])
                inner = node.args[0]
                changed = True
                if inner.meta["val"].dtype == node.meta["val"].dtype:
                    break
            dtype = node.meta["val"].dtype
            same = inner if inner.meta["val"].dtype == dtype else seen.setdefault((inner, dtype), node)
            if same is not node and (changed or "lowerfix" in node.meta.get("custom", {})):
                program.replace(node, same)
                changed = True
        if changed:
            program.remove_dead()
        return changed


def _is_cast(node: object) -> bool:
    """Whether a node changes the dtype of a tensor and nothing else."""
    if not isinstance(node, Node) or op_name(node.target) not in CASTS or "val" not in node.meta:
        return False
    others = {key: value for key, value in node.kwargs.items() if key != "dtype" and value not in (None, False)}
    source = node.args[0]
    if others or len(node.args) > 2 or not isinstance(source, Node) or "val" not in source.meta:
        return False
    return bool(source.meta["val"].stride() == node.meta["val"].stride())


def _holds(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Whether an integer dtype holds every value of another."""
    if wide.is_floating_point or narrow.is_floating_point or wide.is_complex or narrow.is_complex or wide is torch.bool:
        return False
    if narrow is torch.bool:
        return True
    outer, inner = torch.iinfo(wide), torch.iinfo(narrow)
    return bool(outer.min <= inner.min and inner.max <= outer.max)
