"""Overwriting all of a tensor, as what it is overwritten with.

**What it rewrites.** ``copy(x, y)``, ``fill(x, value)`` and ``zero(x)``: what ``copy_``, ``fill_`` and ``zero_`` become
in a functional program. ``y[..., 0] = a`` is a ``copy_`` or ``fill_`` of a view.

**The identity.** Nothing of the old values is left: ``copy`` is ``y``, cast to the dtype of ``x`` and expanded to its
shape; ``fill`` and ``zero`` are a ``full``.

**Why the backend needs it.** An op that reads ``x`` for its shape alone keeps ``x`` alive, often an ``empty`` that no
backend takes, or a chain of assignments that could be joined.

**What it leaves alone.** Programs with in-place ops, where the result could share memory with ``y``; results whose
size is symbolic; ``copy`` between real and complex numbers.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import Program, inherit_metadata, origin
from lowerfix.report import Outcome

aten = torch.ops.aten

RETIRE_WHEN = "functional programs no longer read a tensor whose values are all overwritten; PyTorch 2.13 does"


@dataclass
class Overwrite(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "overwrite"
    after: ClassVar[tuple[str, ...]] = ("out-of-place",)
    cleans_up: ClassVar[bool] = True
    retire_when: ClassVar[str] = RETIRE_WHEN

    def run(self, program: Program, context: Context) -> bool:
        if program.has_in_place_ops:
            return False
        changed = False
        for node in list(program.graph.nodes):
            value = node.meta.get("val")
            if node.op != "call_function" or node.target not in _OVERWRITES or not isinstance(value, torch.Tensor):
                continue
            if not all(isinstance(size, int) for size in value.shape):
                continue
            new = _written(program, node, self.id)
            if new is None:
                continue
            context.find(self.id, node, Outcome.REWRITTEN, "nothing of the tensor that it overwrites is left")
            program.replace(node, new)
            changed = True
        if changed:
            program.remove_dead()
        return changed


_OVERWRITES = (aten.copy.default, aten.fill.Scalar, aten.fill.Tensor, aten.zero.default)


def _written(program: Program, node: Node, pass_id: str) -> Node | None:
    """The node that holds what was written; None where it cannot be told."""
    value = node.meta["val"]
    source = origin(node, pass_id)

    def add(target: Any, args: tuple[Any, ...], result: Any, **kwargs: Any) -> Node:
        new = program.graph.call_function(target, args, kwargs)
        new.meta["val"] = result
        inherit_metadata(new, node, pass_id, source)
        return new

    shape = list(value.shape)
    written: Any = 0 if node.target is aten.zero.default else node.args[1]
    with program.fake_mode, program.graph.inserting_before(node):
        if not isinstance(written, Node):
            made = torch.full(shape, written, dtype=value.dtype)
            return add(aten.full.default, (shape, written), made, dtype=value.dtype, pin_memory=False)
        current = written.meta["val"]
        if current.dtype.is_complex != value.dtype.is_complex or current.device != value.device:
            return None
        if current.dtype != value.dtype:
            current = current.to(value.dtype)
            written = add(aten.to.dtype, (written, value.dtype), current)
        if list(current.shape) != shape:
            current = current.expand(shape)
            return add(aten.expand.default, (written, shape), current)
        whole: Node = written
        return whole
