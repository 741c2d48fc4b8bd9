"""Turn an in-place op into its functional form where nothing can see the difference.

**What it rewrites.** ``mish_(conv)`` becomes ``mish(conv)`` where the op before it made that tensor and nothing else
reads it, for ops that a rewrite serves. ``detach`` and ``detach_``, which export puts behind every
``torch.tensor(...)`` in a model's code, go.

**The identity.** ``detach_`` changes what autograd knows and no value. In-place and functional forms return the same
values; they differ in what happens to the argument, which nobody reads again.

**Why it is needed.** ``nn.Mish(inplace=True)`` exports as ``mish_``, which no backend and no rewrite takes.

**What it leaves alone.** An argument that has other readers, is a view, an input or stored in the program. Of an
``ExportedProgram`` with such ops lowerfix makes the functional form with ``run_decompositions({})``, as ExecuTorch
does.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import Program, mutated_arguments
from lowerfix.report import Outcome
from lowerfix.rewriting import functional_form


@dataclass
class OutOfPlace(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "out-of-place"
    after: ClassVar[tuple[str, ...]] = ("strip-guards",)
    cleans_up: ClassVar[bool] = True

    def run(self, program: Program, context: Context) -> bool:
        from lowerfix import registry

        changed = False
        for node in list(program.graph.nodes):
            if node.target in (torch.ops.aten.detach_.default, torch.ops.aten.detach.default):
                context.find(self.id, node, Outcome.REWRITTEN, "it concerns gradients only")
                program.replace(node, node.args[0])
                changed = True
                continue
            functional = functional_form(node)
            name = context.target.name
            if functional is None or not any(
                rewrite.is_for(name) and functional in rewrite.targets
                for p in registry.serving(functional)
                for rewrite in p.rewrites
            ):
                continue
            arguments = mutated_arguments(node)
            if len(arguments) == 1 and list(arguments[0].users) == [node] and _is_fresh(arguments[0]):
                node.target = functional
                context.find(self.id, node, Outcome.REWRITTEN, "nothing else reads what it changed in place")
                changed = True
            else:
                context.find(
                    self.id,
                    node,
                    Outcome.DECLINED,
                    "it changes in place a tensor that others can see; apply lowerfix to the ExportedProgram, "
                    "of which it makes the functional form",
                )
        return changed


def _is_fresh(node: Node) -> bool:
    """Whether a node's op makes a new tensor, rather than a view or a change of an old one."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    if target.namespace != "aten" or target._schema.is_mutable:
        return False
    # batch_norm has the tag for its running statistics in training; its result is always new.
    known = torch.Tag.maybe_aliasing_or_mutating not in target.tags or target is torch.ops.aten.batch_norm.default
    return known and all(result.alias_info is None for result in target._schema.returns)
