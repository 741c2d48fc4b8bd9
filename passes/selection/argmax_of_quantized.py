"""argmax and argmin of a dequantized tensor, on the integers themselves.

**What it rewrites.** ``argmax(dequantize(q))`` becomes ``argmax(q)`` in a quantized program, and argmin likewise.

**The identity.** ``(q - zero_point) * scale`` with one positive scale is strictly increasing in ``q``: 16-bit integers
and narrower stay distinct in float32. Order and ties are the same, so the index is.

**Why the backend needs it.** An int8-only NPU cannot read the float tensor that the quantizer leaves in front of an op
whose result is not quantized.

**What it leaves alone.** Per-channel scales, wider integers, scales beyond 1e-30 to 1e30, and targets that compute in
float, which take the op as it is.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import Program, Stage
from lowerfix.report import Outcome

aten = torch.ops.aten

NARROW = (torch.int8, torch.uint8, torch.int16)


@dataclass
class ArgmaxOfQuantized(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "argmax-of-quantized"
    retire_when: ClassVar[str] = (
        "Arm folds the dequantize in front of argmax by itself; it leaves both on the CPU in ExecuTorch 1.5.1"
    )
    after: ClassVar[tuple[str, ...]] = ("fold-constants",)
    stages: ClassVar[frozenset[Stage]] = frozenset({Stage.QUANTIZED})
    cleans_up: ClassVar[bool] = True

    def run(self, program: Program, context: Context) -> bool:
        if not context.target.quantized:
            return False
        changed = False
        for target in (aten.argmax.default, aten.argmin.default):
            for node in program.graph.find_nodes(op="call_function", target=target):
                source = node.args[0]
                if _is_increasing(source):
                    node.replace_input_with(source, source.args[0])
                    context.find(self.id, node, Outcome.REWRITTEN, "dequantizing keeps the order: the integers decide")
                    changed = True
        if changed:
            program.remove_dead()
        return changed


def _is_increasing(node: Node) -> bool:
    """Whether a node dequantizes per tensor, so that a larger integer gives a larger float."""
    if node.target is not torch.ops.quantized_decomposed.dequantize_per_tensor.default:
        return False
    source, scale = node.args[0], node.args[1]
    return (
        isinstance(source, Node)
        and isinstance(scale, float)
        and 1e-30 < scale < 1e30
        and (source.meta["val"].dtype in NARROW)
    )
