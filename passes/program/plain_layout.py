"""Inputs whose layout can be read in two ways are read as contiguous.

**What it rewrites.** A tensor with a dimension of one element has strides that say nothing there: a grey image
``[1, 1, 7, 5]`` in ``channels_last`` is contiguous as well. The program is told the strides of a contiguous tensor, and
the layouts of all that is computed from it follow.

**The identity.** Each element is where it was; only what the layout is called changes. The caller passes what he
passed before.

**Why the backend needs it.** The `.pte` says in which order the dimensions of an input are. The XNNPACK delegate takes
a grey image in ``channels_last`` to be ordered otherwise than it is, and the runtime dies on it (error 0x1).

**What it leaves alone.** Layouts that can be read in one way only, symbolic sizes, programs with in-place ops, and
other backends.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from lowerfix.base import Context, Pass
from lowerfix.program import Program, Stage
from lowerfix.report import Outcome


@dataclass
class PlainLayout(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "plain-layout"
    after: ClassVar[tuple[str, ...]] = ("strip-guards", "out-of-place")
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.FLOAT})
    retire_when: ClassVar[str] = "the XNNPACK delegate runs a grey image in channels_last; it dies in ExecuTorch 1.5.1"

    def run(self, program: Program, context: Context) -> bool:
        if context.target.name != "xnnpack" or program.has_in_place_ops:
            return False
        changed = [node for node in program.graph.nodes if program.is_user_input(node) and _is_ambiguous(node)]
        if not changed:
            return False
        values: dict[Node, Any] = {}
        with program.fake_mode, torch.no_grad():
            for node in changed:
                value = node.meta["val"]
                values[node] = torch.empty(value.shape, dtype=value.dtype, device=value.device)
            for node in program.graph.nodes:
                if node.op == "call_function" and any(source in values for source in node.all_input_nodes):
                    args, kwargs = map_arg(
                        (node.args, node.kwargs), lambda source: values.get(source, source.meta.get("val"))
                    )
                    values[node] = node.target(*args, **kwargs)
        for node, value in values.items():
            node.meta["val"] = value
        for node in changed:
            context.find(self.id, node, Outcome.REWRITTEN, "its layout can be read in two ways: it is contiguous now")
        return True


def _is_ambiguous(node: Node) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
        return False
    plain = [1]
    for size in reversed(value.shape[1:]):
        plain.insert(0, plain[0] * size)
    return bool(value.is_contiguous() and value.dim() > 1 and value.numel() and list(value.stride()) != plain)
