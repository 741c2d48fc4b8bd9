"""Masks that are known and keep everything, or nothing, dropped.

**What it rewrites.** ``scaled_dot_product_attention`` with a stored mask that is true, or zero, everywhere;
``where`` and ``masked_fill`` with a stored condition that is the same everywhere.

**The identity.** Attention adds the logarithm of the mask, zero, to each score. ``where`` with a condition that is true
everywhere is its second argument, with one that is false its third; ``masked_fill`` with a mask that is false
everywhere is its first.

**Why the backend needs it.** Vision encoders make such masks where no patch is padding. XNNPACK takes no Boolean mask,
and a stored one of each row by each row is large: 13 MiB for thirteen images in SmolVLM.

**What it leaves alone.** Masks that are computed from inputs; attention that is causal as well; a result of another
shape or dtype than what would be left.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import Program
from lowerfix.report import Outcome
from lowerfix.source import aten_name

aten = torch.ops.aten

_SAME_VALUES = ("expand", "unsqueeze", "view", "reshape", "clone", "contiguous", "alias", "squeeze", "permute")


@dataclass
class ConstantMask(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "constant-mask"
    after: ClassVar[tuple[str, ...]] = ("strip-guards", "out-of-place", "fold-constants")
    cleans_up: ClassVar[bool] = True
    retire_when: ClassVar[str] = "XNNPACK drops attention masks that mask nothing; not in ExecuTorch 1.5.1"

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for node in list(program.graph.nodes):
            if node.target is aten.scaled_dot_product_attention.default:
                changed |= self._drop_from_attention(node, program, context)
            elif node.target is aten.where.self:
                changed |= self._choose(node, program, context)
            elif node.target is aten.masked_fill.Scalar and _uniform(node.args[1], program) is False:
                changed |= self._replace(node, node.args[0], program, context)
        if changed:
            program.remove_dead()
        return changed

    def _drop_from_attention(self, node: Node, program: Program, context: Context) -> bool:
        mask: Any = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
        if not isinstance(mask, Node):
            return False
        floats = mask.meta["val"].is_floating_point()
        value = _uniform(mask, program)
        shape = torch.broadcast_shapes(*(n.meta["val"].shape[:-2] for n in node.all_input_nodes))
        keeps = value == 0 if floats else value is True
        if value is None or not keeps or tuple(shape) != tuple(node.args[0].meta["val"].shape[:-2]):  # type: ignore[union-attr]
            return False
        if len(node.args) > 3:
            node.args = (*node.args[:3], None, *node.args[4:])
        node.kwargs = {name: value for name, value in node.kwargs.items() if name != "attn_mask"}
        context.find(self.id, node, Outcome.REWRITTEN, "its attention mask is constant and masks nothing")
        return True

    def _choose(self, node: Node, program: Program, context: Context) -> bool:
        value = _uniform(node.args[0], program)
        return value is not None and self._replace(node, node.args[1 if value else 2], program, context)

    def _replace(self, node: Node, source: Any, program: Program, context: Context) -> bool:
        if not isinstance(source, Node) or program.has_in_place_ops:
            return False
        old, new = node.meta["val"], source.meta["val"]
        if old.shape != new.shape or old.dtype is not new.dtype or old.stride() != new.stride():
            return False
        if source.op == "placeholder" and any(user.op == "output" for user in node.users):
            return False
        context.find(self.id, node, Outcome.REWRITTEN, "its mask is constant, and the same everywhere")
        program.replace(node, source)
        return True


def _uniform(mask: Any, program: Program) -> bool | float | None:
    """The one value of a stored mask; None where it is not stored, or has several."""
    while isinstance(mask, Node) and aten_name(mask) in _SAME_VALUES:
        mask = mask.args[0]
    tensor = program.tensor(mask) if isinstance(mask, Node) else None
    if tensor is None or tensor.numel() == 0 or isinstance(tensor, torch.nn.Parameter):
        return None
    first: Any = tensor.detach().reshape(-1)[0]
    return first.item() if bool((tensor == first).all()) else None
