"""A bounded activation between a convolution and a concatenation, as a clamp.

**What it rewrites.** On int8 targets ``relu``, ``relu6`` and ``hardtanh`` that read a convolution or a linear layer and
are read by ``cat`` or ``stack``.

**The identity.** All three are clamps, and NaN passes through each of them.

**Why the backend needs it.** Arm's quantizer takes the activation for a part of the convolution, and gives neither a
range between the two. But the inputs of ``cat`` share one range, which then does not begin at the activation's lower
bound, so that the two cannot be fused, and the activation stays in float on the CPU. A clamp is quantized by itself.

**What it leaves alone.** Other activations, and those of which ``cat`` is no reader: there fusing saves an op.
"""

from typing import Any, ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import Program, Stage, inherit_metadata, origin
from lowerfix.report import Outcome
from lowerfix.source import op_name

aten = torch.ops.aten

LAYERS = (
    "aten.conv1d.default",
    "aten.conv2d.default",
    "aten.conv2d.padding",
    "aten.conv3d.default",
    "aten.linear.default",
)

JOINING = ("aten.cat.default", "aten.concat.default", "aten.concatenate.default", "aten.stack.default")


class ClampBeforeCat(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "clamp-before-cat"
    after: ClassVar[tuple[str, ...]] = ("out-of-place",)
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.FLOAT})
    retire_when: ClassVar[str] = "Arm's quantizer keeps the range of an activation that cat reads; not in 1.5.1"

    def run(self, program: Program, context: Context) -> bool:
        if not context.target.quantized:
            return False
        changed = False
        for node in list(program.graph.nodes):
            bounds = _bounds(node)
            if bounds is None or not _between(node):
                continue
            context.find(self.id, node, Outcome.REWRITTEN, "cat gives it another range than the convolution before it")
            with program.graph.inserting_before(node):
                clamp = program.graph.call_function(aten.clamp.default, (node.args[0], *bounds))
            clamp.meta = {"val": node.meta["val"]}
            inherit_metadata(clamp, node, self.id, origin(node, self.id))
            program.replace(node, clamp)
            changed = True
        if changed:
            program.remove_dead()
        return changed


def _bounds(node: Node) -> tuple[Any, ...] | None:
    """What an activation clamps to."""
    name = op_name(node.target) if node.op == "call_function" else ""
    if name == "aten.relu.default":
        return (0.0,)
    if name == "aten.relu6.default":
        return (0.0, 6.0)
    if name == "aten.hardtanh.default":
        return (node.args[1] if len(node.args) > 1 else -1.0, node.args[2] if len(node.args) > 2 else 1.0)
    return None


def _between(node: Node) -> bool:
    source = node.args[0]
    after_layer = isinstance(source, Node) and op_name(source.target) in LAYERS
    return after_layer and any(op_name(user.target) in JOINING for user in node.users)
