"""Remove the checks that export puts into a program and that lowering cannot take.

**What it removes.** The call of ``_guards_fn`` that ``ExportedProgram.module()`` adds, ``_assert_tensor_metadata``,
and assertions of a literal true.

**Why the numbers stay.** None of them computes anything. Shapes, dtypes and devices are static facts of the program,
and ExecuTorch checks the inputs of a method itself.

**Why the backend needs it.** The passes of Arm's quantizer raise ``call_module is not supported`` on ``_guards_fn``.

**What it leaves alone.** Every assertion about values, which a user wrote or a data-dependent shape needs.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from lowerfix.base import Context, Pass
from lowerfix.program import Program
from lowerfix.report import Outcome

aten = torch.ops.aten


@dataclass
class StripGuards(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "strip-guards"
    retire_when: ClassVar[str] = (
        "Arm's passes accept the guard call of ExportedProgram.module(); they raise on it in ExecuTorch 1.5.1"
    )
    cleans_up: ClassVar[bool] = True

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for node in list(program.graph.nodes):
            if node.op == "call_module" and node.target == "_guards_fn":
                reason = "input checks made by ExportedProgram.module(); ExecuTorch makes its own"
                program.graph_module.delete_submodule("_guards_fn")
            elif node.target is aten._assert_tensor_metadata.default:
                reason = "dtype and layout are static facts of an exported program"
            elif node.target is aten._assert_scalar.default and node.args[0] is True:
                reason = "the assertion is constantly true"
            else:
                continue
            context.find(self.id, node, Outcome.REWRITTEN, reason)
            program.graph.erase_node(node)
            changed = True
        if changed:
            program.remove_dead()
        return changed
