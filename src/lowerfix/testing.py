"""Check a rewrite against eager PyTorch and the real backend.

from lowerfix.testing import check_rewrite

def test_argmin():
    check_rewrite(lambda x: x.argmin(-1).to(torch.int32), (torch.randn(6, 16),), target="vgf", expect="argmin")
"""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from lowerfix import lowering, passes, targets
from lowerfix.api import apply
from lowerfix.composites import listed_once
from lowerfix.program import Stage, mutated_arguments, stage_of
from lowerfix.report import Outcome, Report
from lowerfix.wrappers import wrap_partitioner, wrap_quantizer


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


@dataclass(frozen=True)
class Checked:
    """What :func:`check_rewrite` saw, for further assertions.

    Attributes:
        before: the exported program.
        after: the rewritten one.
        report: the findings.
        lowered: the lowered program (quantized first for an int8 target).
        signal_to_noise: of what the lowered program computed against eager, in dB.
    """

    before: ExportedProgram
    after: ExportedProgram
    report: Report
    lowered: lowering.Lowered
    signal_to_noise: float


def export(model: torch.nn.Module | Callable[..., Any], inputs: Sequence[Any], **options: Any) -> ExportedProgram:
    """Export a module, or a plain function of tensors, in evaluation mode."""
    module = model if isinstance(model, torch.nn.Module) else _Function(model)
    return torch.export.export(module.eval(), tuple(inputs), **options)


def adversarial(tensor: Tensor) -> Iterator[Tensor]:
    """Variants of a floating-point tensor, of its shape and dtype, with what breaks careless identities.

    NaN, infinities of both signs, all of them mixed, signed zeros, ties, values near overflow and underflow.
    """
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return
    info = torch.finfo(tensor.dtype)
    flat = tensor.detach().reshape(-1)
    special = torch.tensor(
        [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, info.max, info.min, info.tiny, 1.0, -1.0]
    )
    special = special.to(tensor.dtype)
    for value in special:
        variant = flat.clone()
        variant[variant.numel() // 2] = value
        yield variant.reshape(tensor.shape)
        yield torch.full_like(tensor, float(value))
    yield special.repeat(flat.numel() // len(special) + 1)[: flat.numel()].reshape(tensor.shape)
    yield flat.round().reshape(tensor.shape)  # ties
    yield (flat * 30).reshape(tensor.shape)
    yield (flat * 1e-4).reshape(tensor.shape)


def adversarial_inputs(inputs: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Input tuples in which one float input at a time is an :func:`adversarial` variant of what it was."""
    for position, value in enumerate(inputs):
        if isinstance(value, Tensor):
            for variant in adversarial(value):
                yield (*inputs[:position], variant, *inputs[position + 1 :])


def edge_program(program: ExportedProgram, target: str) -> ExportedProgram:
    """The Edge program that ``to_edge_transform_and_lower`` gives a target's partitioner. Nothing is lowered."""
    edge: ExportedProgram = lowering.at_partitioner(program, target, lambda edge, partition: edge)
    return edge


def assert_same(expected: Any, actual: Any, tolerance: float = 0.0) -> None:
    """Assert that two results are equal, NaN for NaN; floats within ``tolerance``, relative and absolute.

    Raises:
        AssertionError: for another structure, dtype, shape or value.
    """
    ours, their = tree_leaves(expected), tree_leaves(actual)
    assert len(ours) == len(their), f"{len(their)} outputs instead of {len(ours)}"
    for one, other in zip(ours, their, strict=True):
        if isinstance(one, Tensor):
            exact = not one.is_floating_point()
            bound = 0.0 if exact else tolerance
            torch.testing.assert_close(other, one, rtol=bound, atol=bound, equal_nan=True)
        else:
            assert one == other, f"{other} instead of {one}"


def check_rewrite(
    model: torch.nn.Module | Callable[..., Any],
    inputs: Sequence[Any],
    *,
    target: str,
    expect: str | Iterable[str],
    tolerance: float = 0.0,
    more_inputs: Iterable[Sequence[Any]] = (),
    allowed_left: Iterable[str] = (),
    lowered_tolerance: float = 1e-4,
    lowered_inputs: Iterable[Sequence[Any]] = (),
    least_signal_to_noise: float = 20.0,
    allow: str | Iterable[str] = (),
) -> Checked:
    """Export a model, rewrite it, lower it with the installed backend, execute it, and compare it with eager.

    Checked are: the expected passes fired; the result equals eager on ``inputs``, on :func:`adversarial` variants of
    each float input and on ``more_inputs``; the input program is untouched; names, shapes and dtypes of inputs and
    outputs are kept; every new op carries its origin; a second run changes nothing; saving and loading, ``module()``
    and ``run_decompositions`` work; the pass object, the ``GraphModule`` form and both wrappers do the same; the
    backend takes the whole in at most one delegate; and what it computes equals eager.

    Args:
        model: a module or a function of tensors.
        inputs: example inputs.
        target: the target's name; for an int8 target the model is quantized on the way.
        expect: the id of the pass or passes that have to fire.
        tolerance: of the rewritten program against eager, relative and absolute; 0 asks for equality.
        more_inputs: further input tuples to compare on.
        allowed_left: names of Edge ops that may stay on the CPU, such as the cast of an int64 input.
        lowered_tolerance: of the lowered float program against eager.
        lowered_inputs: further input tuples to execute the lowered float program on, such as
            :func:`adversarial_inputs`.
        least_signal_to_noise: of the lowered int8 program against eager, in dB.
        allow: ids of opt-in passes to allow.

    Raises:
        AssertionError: for the first thing that does not hold.
    """
    expected = {expect} if isinstance(expect, str) else set(expect)
    module = (model if isinstance(model, torch.nn.Module) else _Function(model)).eval()
    before = export(module, inputs)
    text, names = str(before.graph), list(before.state_dict)
    report = Report()
    after = apply(before, target=target, report=report, allow=allow)
    fired = {finding.pass_id for finding in report.of(Outcome.REWRITTEN)}
    assert expected <= fired, f"expected {sorted(expected - fired)} to fire; {report}"
    assert (str(before.graph), list(before.state_dict)) == (text, names), "the input program was changed"

    _check_numbers(module, after, inputs, more_inputs, tolerance)
    _check_program(after, before, inputs, tolerance)
    again = apply(after, target=target, allow=allow)
    assert str(again.graph) == str(after.graph), "a second run changed the program again"
    _check_hooks(before, after, inputs, target, expected, tolerance, allow)
    lowered, ratio = _check_lowering(module, after, inputs, target, set(allowed_left), allow)
    if targets.get(target).quantized:
        assert ratio >= least_signal_to_noise, f"int8 differs from eager: {ratio:.1f} dB"
    else:
        for trial in (tuple(inputs), *map(tuple, lowered_inputs)):
            with torch.no_grad():
                eager = tree_leaves(module(*_copies(trial)))
            assert_same(eager, list(lowering.execute(lowered, _copies(trial))), lowered_tolerance)
    return Checked(before, after, report, lowered, ratio)


def _check_numbers(
    module: torch.nn.Module,
    after: ExportedProgram,
    inputs: Sequence[Any],
    more_inputs: Iterable[Sequence[Any]],
    tolerance: float,
) -> None:
    rewritten = after.module(check_guards=False)
    trials = [tuple(inputs), *map(tuple, more_inputs), *adversarial_inputs(inputs)]
    with torch.no_grad():
        for trial in trials:
            assert_same(module(*_copies(trial)), rewritten(*_copies(trial)), tolerance)


def _check_program(after: ExportedProgram, before: ExportedProgram, inputs: Sequence[Any], tolerance: float) -> None:
    after.validate()
    assert after.graph_signature.user_inputs == before.graph_signature.user_inputs
    assert len(after.graph_signature.user_outputs) == len(before.graph_signature.user_outputs)
    old = {node.name for node in before.graph.nodes}
    if any(
        mutated_arguments(node) for node in before.graph.nodes
    ):  # it has got a functional form, with names of its own
        old |= {node.name for node in before.run_decompositions({}).graph.nodes}
    for node in after.graph.nodes:
        if node.op == "call_function" and node.name not in old:
            made_by = "lowerfix" in node.meta.get("custom", {}) and node.meta.get("from_node")
            assert made_by, f"{node.name} does not say who made it"
            assert node.meta.get("stack_trace"), f"{node.name} has lost its source line"
    file = io.BytesIO()
    torch.export.save(after, file)
    file.seek(0)
    loaded = torch.export.load(file)
    with torch.no_grad():
        result = after.module()(*_copies(inputs))
        assert_same(result, loaded.module()(*_copies(inputs)))
        assert_same(result, after.run_decompositions({}).module()(*_copies(inputs)), max(tolerance, 1e-6))


def _check_hooks(
    before: ExportedProgram,
    after: ExportedProgram,
    inputs: Sequence[Any],
    target: str,
    expected: set[str],
    tolerance: float,
    allow: str | Iterable[str],
) -> None:
    """The other ways in lead to the same ops and numbers."""
    backend = targets.get(target)
    wrapped = wrap_partitioner(backend.partitioner(), target=target, allow=allow)
    assert type(wrapped) is type(backend.partitioner())
    module = apply(before.module(check_guards=False), target=target, allow=allow)
    assert isinstance(module, GraphModule)
    with torch.no_grad():
        assert_same(before.module(check_guards=False)(*_copies(inputs)), module(*_copies(inputs)), tolerance)
    functional = not any(map(mutated_arguments, before.graph.nodes))
    if functional and not before.graph_signature.inputs_to_lifted_tensor_constants:  # module() makes buffers of them
        assert _ops(module) == _ops(after.graph_module)
    single = passes.get(sorted(expected)[0], target=target)(before) if len(expected) == 1 else None
    if single is not None:
        assert single.modified
        assert single.exported_program is not None
        assert single.findings
    quantizer = wrap_quantizer(backend.quantizer(), target=target, allow=allow)
    assert type(quantizer) is type(backend.quantizer())


def _check_lowering(
    module: torch.nn.Module,
    after: ExportedProgram,
    inputs: Sequence[Any],
    target: str,
    allowed: set[str],
    allow: str | Iterable[str],
) -> tuple[lowering.Lowered, float]:
    program = after
    if targets.get(target).quantized and stage_of(after.graph) is Stage.FLOAT:
        quantized = lowering.quantize(after, target, [tuple(_copies(inputs))])
        program = apply(quantized, target=target, allow=allow)
    with listed_once():
        lowered = lowering.lower(program, target, compile=False)
    assert set(lowered.cpu_ops) <= allowed, f"left on the CPU: {lowered.cpu_ops}"
    assert lowered.delegates == 1, f"{lowered.delegates} delegates"
    with torch.no_grad():
        eager = module(*_copies(inputs))
    outputs = lowering.execute(lowered, _copies(inputs))
    return lowered, lowering.signal_to_noise([t.double() for t in tree_leaves(eager)], [t.double() for t in outputs])


def _ops(module: GraphModule) -> list[str]:
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, Tensor) else value for value in inputs]


__all__ = ["Checked", "adversarial", "adversarial_inputs", "assert_same", "check_rewrite", "export"]
