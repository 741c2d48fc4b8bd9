"""Whether the numbers hold: each rewrite against the program before, and what was lowered against eager PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.export.graph_signature import OutputKind
from torch.fx import Interpreter, Node
from torch.utils._pytree import tree_leaves

from lowerfix import lowering
from lowerfix.errors import LowerfixError
from lowerfix.placement import Comparison
from lowerfix.program import Program, fits

if TYPE_CHECKING:
    from lowerfix.base import Pass
    from lowerfix.report import Report

DRIFT = 80.0
"""A rewrite drifts where the signal-to-noise ratio of an output falls below so many dB, float32's own being about 130.

Float16 and bfloat16 have less by themselves; there it is what their rounding leaves, less 10 dB.
"""

_HALF = {torch.float16: 56.0, torch.bfloat16: 38.0}

Inputs = Sequence[tuple[Any, ...]]


def compare(reference: Sequence[Sequence[Tensor]], actual: Sequence[Sequence[Tensor]]) -> tuple[Comparison, ...]:
    """How the outputs for several inputs differ, output by output.

    Raises:
        LowerfixError: for another number of outputs, or other shapes.
    """
    if len({len(outputs) for outputs in (*reference, *actual)}) != 1:
        raise LowerfixError(f"{len(actual[0])} outputs instead of {len(reference[0])} cannot be compared")
    found = []
    for number, (ours, theirs) in enumerate(zip(zip(*reference, strict=True), zip(*actual, strict=True), strict=True)):
        found.append(
            Comparison(
                str(number),
                lowering.max_abs_error(ours, theirs),
                lowering.max_rel_error(ours, theirs),
                lowering.signal_to_noise(ours, theirs),
                lowering.cosine(ours, theirs),
            )
        )
    return tuple(found)


def evaluate(program: Program, inputs: tuple[Any, ...]) -> list[Tensor]:
    """The tensors that a program's graph computes in eager PyTorch; its parameters and buffers stay as they are.

    Raises:
        LowerfixError: where the inputs are not as many as the program takes.
    """
    given = fitted(program, inputs)
    values = []
    for node in program.graph.find_nodes(op="placeholder"):
        if node in given:
            values.append(given[node])
        else:
            stored = program.initial(node)
            values.append(stored.clone() if stored is not None and node.name in program.mutable else stored)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        results = Interpreter(program.graph_module).run(*values, enable_io_processing=False)
    kinds = zip(results, program.output_kinds, strict=True)
    wanted = [result for result, kind in kinds if kind is OutputKind.USER_OUTPUT]
    return [leaf.detach() for leaf in tree_leaves(wanted) if isinstance(leaf, Tensor)]


@contextmanager
def unchanged(program: Program) -> Iterator[None]:
    """Put back the buffers that running a program changes."""
    stored = [program.initial(node) for node in program.graph.nodes if node.name in program.mutable]
    kept = [(tensor, tensor.clone()) for tensor in stored if tensor is not None]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, before in kept:
                tensor.copy_(before)


def fitted(program: Program, inputs: tuple[Any, ...]) -> dict[Node, Any]:
    """Inputs one by one, of the dtypes that a program takes; a pass that was allowed may have changed them.

    Raises:
        LowerfixError: where they are not as many as the program takes.
    """
    wanted = program.user_inputs
    leaves = tree_leaves(inputs)
    if len(leaves) != len(wanted):
        raise LowerfixError(f"the program takes {len(wanted)} inputs, and {len(leaves)} were given to verify it with")
    return {
        node: leaf.detach().clone().to(node.meta["val"].dtype)  # a program may write to its inputs
        if isinstance(leaf, Tensor) and isinstance(node.meta["val"], Tensor)
        else leaf
        for node, leaf in zip(wanted, leaves, strict=True)
    }


@dataclass
class Watch:
    """Compares a program's numbers after each pass with what they were before the first; a pipeline's callback.

    Attributes:
        report: where the passes say what they do.
        inputs: what to compare on.
        drift: which rewrite was the first to change numbers by more than rounding; empty where none did.
        drifted: by how much.
    """

    report: Report
    inputs: Inputs = ()
    drift: str = ""
    drifted: tuple[Comparison, ...] = ()
    _reference: list[list[Tensor]] = field(default_factory=list)
    _graph: str = ""
    _told: int = 0

    def begin(self, inputs: Inputs) -> None:
        """Another program comes."""
        self.inputs, self._reference, self._graph = inputs, [], ""

    def __call__(self, before: Pass | None, program: Program, after: Pass | None) -> None:
        graph = str(program.graph)
        if self.drift or graph == self._graph:
            return
        self._graph = graph
        news, self._told = self.report.findings[self._told :], len(self.report)
        try:
            actual = [evaluate(program, inputs) for inputs in self.inputs]
            if not self._reference:
                self._reference = actual
                return
            found = compare(self._reference, actual)
        except LowerfixError:  # what was allowed or promised has changed the program's inputs or outputs
            return
        bounds = [_HALF.get(tensor.dtype, DRIFT) for tensor in self._reference[0]]
        if before is not None and any(c.snr < bound for c, bound in zip(found, bounds, strict=True)):
            mine = [finding for finding in news if finding.pass_id == before.id]
            places = dict.fromkeys(f"{f.op} at {f.source}" if f.source else f.op for f in mine)
            self.drift = f"{before.id} ({', '.join(places)})" if places else before.id
            self.drifted = found


def prefixed(prefix: str, comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """Comparisons of one method of several."""
    return tuple(Comparison(prefix + c.output, c.max_abs, c.max_rel, c.snr, c.cosine) for c in comparisons)


def inputs_of(verify: Any, programs: Mapping[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    """The inputs to verify each method with, as ``explain`` takes them.

    Raises:
        LowerfixError: where there are none.
    """
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, program in programs.items():
        given = verify.get(name) if isinstance(verify, Mapping) else verify
        if given is True:
            arguments, keywords = program.example_inputs or (None, {})
            given = None if arguments is None or keywords else [arguments]
        if isinstance(given, tuple) and not all(isinstance(one, tuple) for one in given):
            given = [given]
        if not isinstance(given, (list, tuple)) or not given or not all(isinstance(one, tuple) for one in given):
            raise LowerfixError("verify needs inputs: verify=(x, ...), or a list of such tuples")
        found[name] = list(given)
        taking = Program(program)
        for inputs in given:
            _check_shapes(taking, inputs)
    return found


def _check_shapes(program: Program, inputs: tuple[Any, ...]) -> None:
    for node, value in fitted(program, inputs).items():
        wanted = node.meta["val"]
        if isinstance(wanted, Tensor) and not (isinstance(value, Tensor) and fits(value, wanted)):
            got = f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise LowerfixError(f"verify: the input {node.name!r} has shape {list(wanted.shape)}, got {got}")
