"""On request: compute in float32 what the program computes in bfloat16 or float16.

**What it rewrites.** With ``allow="bfloat16-to-float32"`` (``"float16-to-float32"``), where the backend refuses an
operator in that type: all operators compute in float32. Parameters and buffers are stored in float32; inputs, outputs
and buffers that the program changes keep their type and are cast.

**The identity.** float32 holds every number of both types, so casting up is exact, and each operator then rounds to 24
bits instead of 8 or 11: results are nearer to the exact ones, and differ from those of PyTorch by its own rounding.
What overflowed (float16 beyond 65504) no longer does.

**Why the backend needs it.** The default VGF specification has no bfloat16, and leaves such operators on the CPU
without a warning. If the device has it, the target ``vgf+bf16`` is the better choice; the finding says both.

**What it leaves alone.** Operators that are not ATen's, draw random numbers or read the bits of a number: casts are put
around them. Graph modules with in-place operators. Programs that are quantized already: allow it before they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.errors import LowerfixError
from lowerfix.program import Program, Stage
from lowerfix.report import Outcome
from lowerfix.retyping import computes_alike, first_refusal, is_cast, produces, retype
from lowerfix.source import op_name
from lowerfix.targets import Target


@dataclass
class Bfloat16ToFloat32(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "bfloat16-to-float32"
    after: ClassVar[tuple[str, ...]] = ("fold-constants",)
    stages: ClassVar[frozenset[Stage]] = frozenset([Stage.FLOAT])
    retire_when: ClassVar[str] = "never: a device without the type stays without it"
    opt_in: ClassVar[str] = "parameters take twice the memory; results are rounded less, and differ in the last bits"
    dtype: ClassVar[torch.dtype] = torch.bfloat16

    def run(self, program: Program, context: Context) -> bool:
        nodes, problem = self._refused(program, context)
        if not problem:
            return False
        if program.has_in_place_ops:
            reason = f"{problem}; it has in-place ops: apply lowerfix to the ExportedProgram"
            context.find(self.id, nodes[0], Outcome.DECLINED, reason)
            return False
        reason = f"{problem}: {len(nodes)} ops compute in float32, each with an error of about 2**-24 of its result"
        context.find(self.id, nodes[0], Outcome.REWRITTEN, reason)
        retype(program, set(nodes), self.dtype, torch.float32, self.id)
        return True

    def wants_functional(self, in_place: Sequence[Node], target: Target) -> Sequence[Node]:
        return [node for node in in_place if produces(node, self.dtype)]

    def tell(self, program: Program, context: Context) -> None:
        nodes, problem = self._refused(program, context)
        if problem:
            names = ", ".join(dict.fromkeys(op_name(node.target) for node in nodes))
            self.offer(nodes[0], f"{problem}; the program computes {names} in it{self._extended(context)}", context)

    def _refused(self, program: Program, context: Context) -> tuple[list[Node], str]:
        """The nodes that compute in the dtype, and why the backend does not take one of them; empty where it does."""
        nodes = [
            node
            for node in program.graph.nodes
            if any(produces(n, self.dtype) for n in (node, *node.all_input_nodes)) and computes_alike(node)
        ]
        # The casts at the program's inputs and outputs stay where they are.
        ops = [node for node in nodes if not is_cast(node)]
        refusal = first_refusal(ops, program, context)
        if refusal is None:
            return ops, ""
        return nodes, f"{context.target.name} does not compute {op_name(refusal[0].target)} so ({refusal[1]})"

    def _extended(self, context: Context) -> str:
        """The same target with the extension that takes the dtype, as the user has to write it."""
        try:
            extended = context.target.suited_to([self.dtype])
            if extended == context.target:
                return ""
            spec = extended.compile_spec()
        except LowerfixError:
            return ""
        return f'; target="{extended.name}", that is {type(spec).__name__}("{spec.tosa_spec}"), has the type'


@dataclass
class Float16ToFloat32(Bfloat16ToFloat32):
    """See the module's docstring."""

    id: ClassVar[str] = "float16-to-float32"
    dtype: ClassVar[torch.dtype] = torch.float16
