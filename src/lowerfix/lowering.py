"""Quantize, lower and execute a program for a target, and measure what came of it.

    program = quantize(program, target, calibration)
    lowered = lower(program, target, compile=False)      # delegates that can be executed here
    outputs = execute(lowered, inputs)
    lower(program, target, compile=True).pte()           # the file for the device

Nothing here needs the rest of lowerfix: a program is lowered as it is given.
"""

from __future__ import annotations

import csv
import math
import operator
import os
import re
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from lowerfix import targets
from lowerfix.errors import LowerfixError
from lowerfix.source import op_name as full_name
from lowerfix.targets import Target

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node
    from torchao.quantization.pt2e.quantizer import Quantizer


@dataclass(frozen=True)
class VelaEstimate:
    """What Vela expects of the device: clock `cycles` of one inference, the sum over the delegates, and `sram_kib`,
    the most SRAM (KiB) that one of them uses, as they run one after the other. The CPU's share is in neither."""

    cycles: int
    sram_kib: float


@dataclass(frozen=True)
class Lowered:
    """A lowered program, and what it cost.

    `cpu_ops` counts the ops left outside the delegates, by name. Quantize and dequantize are not among them:
    `boundary_quantize` are those next to an input or output of the program, which a float interface cannot do
    without, `inner_quantize` the others, which are there because the program was split. `partition_seconds` is the
    partitioner's own part of `seconds`. `log` is all that the backend and its compilers printed, `warnings` the
    distinct Python warnings meanwhile.
    """

    target: Target
    edge: EdgeProgramManager
    delegates: int
    cpu_ops: dict[str, int]
    boundary_quantize: int
    inner_quantize: int
    partition_seconds: float
    seconds: float
    vela: VelaEstimate | None
    log: str = field(repr=False)
    warnings: tuple[str, ...] = field(repr=False)

    def pte(self) -> bytes:
        """The `.pte` file. Lowered with `compile=False` for an Arm target it holds TOSA, which no device loads."""
        return self._pte

    @cached_property
    def _pte(self) -> bytes:
        # Cached because it works once only: memory planning refuses a graph that it has planned. Without gradients
        # because the out variants are run on the way, and refuse parameters that require them.
        with captured_output(), torch.no_grad():
            return bytes(self.edge.to_executorch().buffer)


def quantize(
    program: ExportedProgram,
    target: str | Target,
    calibration: Sequence[tuple[Any, ...]],
    *,
    quantizer: Quantizer | None = None,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """`program` in int8 by PT2E, calibrated on a sequence of argument tuples and exported anew.

    `quantizer` replaces the target's own, e.g. by a wrapped one; `dynamic_shapes` is passed to the second export.
    Raises `LowerfixError` without calibration data; what the quantizer raises comes through.
    """
    if not calibration:
        raise LowerfixError("quantization needs at least one tuple of calibration inputs; got none")
    with captured_output(), torch.no_grad():
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        if quantizer is None:
            quantizer = targets.get(target).quantizer()
        # Arm's quantizer fails on the guard submodule that module() adds otherwise.
        prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
        for inputs in calibration:
            prepared(*inputs)
        return torch.export.export(convert_pt2e(prepared), calibration[0], dynamic_shapes=dynamic_shapes)


def lower(
    program: ExportedProgram,
    target: str | Target,
    *,
    compile: bool,
    partitioner: Partitioner | None = None,
) -> Lowered:
    """Lower `program` to `target`.

    With `compile` the target's compiler runs as well (Vela, the VGF model converter) and the `.pte` is for the
    device; without, the delegates are such that `execute` can run them. `partitioner` replaces the target's own.

    Raises `LowerfixError` when a package is missing. What the backend raises comes through, with the end of what it
    printed as a note.
    """
    target = targets.get(target)
    target.check_installed(compile=compile)
    with captured_output() as captured, torch.no_grad():
        from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

        if partitioner is None:
            partitioner = target.partitioner() if compile else target.executable_partitioner()
        with _partition_timed(partitioner) as partition_seconds, _vela_estimates() as estimates:
            start = time.perf_counter()
            edge = to_edge_transform_and_lower(
                program,
                partitioner=[partitioner],
                # The check refuses what Arm keeps whole until its own passes.
                compile_config=EdgeCompileConfig(_check_ir_validity=False),
            )
            seconds = time.perf_counter() - start

    left = [node for node in edge.exported_program().graph.nodes if node.op == "call_function"]
    names = Counter(op_name(node) for node in left if node.target is not operator.getitem)
    quantizing = [node for node in left if "quantize_per" in op_name(node)]
    boundary = sum(at_boundary(node, edge.exported_program()) for node in quantizing)
    return Lowered(
        target=target,
        edge=edge,
        delegates=names.pop("executorch_call_delegate", 0),
        cpu_ops={name: count for name, count in sorted(names.items()) if "quantize_per" not in name},
        boundary_quantize=boundary,
        inner_quantize=len(quantizing) - boundary,
        partition_seconds=sum(partition_seconds),
        seconds=seconds,
        vela=VelaEstimate(sum(e.cycles for e in estimates), max(e.sram_kib for e in estimates)) if estimates else None,
        log=captured.log,
        warnings=captured.warnings,
    )


def execute(lowered: Lowered, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
    """The outputs of the lowered program for `inputs`, flattened, computed on this machine.

    TOSA delegates run on the TOSA reference model and what is left on the CPU in eager PyTorch; every other program
    is loaded and run by the ExecuTorch runtime, as on a device. Raises `LowerfixError` for a program that was
    compiled for a device that is not here.
    """
    program = lowered.edge.exported_program()
    backends = {
        getattr(program.graph_module, str(node.args[0])).backend_id
        for node in program.graph.nodes
        if op_name(node) == "executorch_call_delegate"
    }
    elsewhere = backends & {"EthosUBackend", "VgfBackend"}
    if elsewhere:
        raise LowerfixError(
            f"delegates of {', '.join(sorted(elsewhere))} run only on the device. "
            f"Next step: lower(program, {lowered.target.name!r}, compile=False)"
        )
    with captured_output(), torch.no_grad():
        if "TOSABackend" in backends:
            from executorch.backends.arm.test.runner_utils import TosaReferenceModelDispatch

            with TosaReferenceModelDispatch():
                outputs = program.module(check_guards=False)(*inputs)
        else:
            import executorch.kernels.quantized  # noqa: F401  (the runtime's quantize and dequantize kernels)
            from executorch.runtime import Runtime

            method = Runtime.get().load_program(lowered.pte()).load_method("forward")
            outputs = method.execute(tree_leaves(tuple(inputs)))
    return tuple(leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor))


def signal_to_noise(reference: Any, actual: Any) -> float:
    """Signal-to-noise ratio of `actual` in dB: `10 log10(sum r² / sum (r - a)²)`, the sums over all outputs.

    `reference` and `actual` are tensors or nested containers of them with the same shapes. It is inf where nothing
    differs, -inf where the reference is all zero and something differs. Raises `LowerfixError` on unequal shapes.
    """
    r, error = _compare(reference, actual)
    noise = error.square().sum().item()
    signal = r.nan_to_num(0.0, 0.0, 0.0).square().sum().item()
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and noise < math.inf else -math.inf


def max_abs_error(reference: Any, actual: Any) -> float:
    """`max |r - a|` over all outputs; 0 without elements, inf where only one of the two is NaN or infinite.

    Takes and raises what `signal_to_noise` does.
    """
    _, error = _compare(reference, actual)
    return float(error.abs().max()) if error.numel() else 0.0


def max_rel_error(reference: Any, actual: Any) -> float:
    """`max |r - a| / |r|` over all outputs; inf where the reference is zero and something differs.

    Takes and raises what `signal_to_noise` does.
    """
    r, error = _compare(reference, actual)
    relative = torch.where(error == 0, torch.zeros_like(r), error.abs() / r.abs())
    return float(torch.where(relative.isnan(), math.inf, relative).max()) if error.numel() else 0.0


def cosine(reference: Any, actual: Any) -> float:
    """`r·a / (|r| |a|)` of all outputs as one vector; 1 where both are zero, 0 where one is.

    NaN where one is not finite. Takes and raises what `signal_to_noise` does.
    """
    r, a = _flat(reference, actual)
    norms = float(r.norm() * a.norm())
    if norms == 0:
        return 1.0 if torch.equal(r, a) else 0.0
    return float(r @ a) / norms


@dataclass
class Captured:
    """What was printed, and the distinct Python warnings; filled when `captured_output` ends."""

    log: str = ""
    warnings: tuple[str, ...] = ()


transcript: IO[str] | None = None
"""Where all that is caught is written down too, while a command of the command line works."""


class _Reached(Exception):
    """The partitioner was called: nothing is to be lowered."""


def at_partitioner(
    program: ExportedProgram,
    target: str | Target,
    answer: Callable[[ExportedProgram, Callable[[ExportedProgram], Any]], Any],
    compile_config: Any = None,
) -> Any:
    """What a function makes of the Edge program that ``to_edge_transform_and_lower`` gives a target's partitioner.

    Args:
        program: the exported program.
        target: the target.
        answer: takes the Edge program and the ``partition`` of the target's partitioner.
        compile_config: as ``to_edge_transform_and_lower`` takes it.
    """
    from executorch.exir import to_edge_transform_and_lower

    partitioner: Any = targets.get(target).partitioner()
    original = partitioner.partition
    answers = []

    def partition(edge: ExportedProgram) -> Any:
        answers.append(answer(edge, original))
        raise _Reached

    partitioner.partition = partition
    with captured_output(), suppress(_Reached):
        to_edge_transform_and_lower(program, partitioner=[partitioner], compile_config=compile_config)
    if not answers:
        raise AssertionError("the lowering never called the partitioner")
    return answers[0]


@contextmanager
def captured_output() -> Iterator[Captured]:
    """Catch what is printed, by subprocesses and C++ as well, so at the file descriptors; filled when the block ends.

    The tools of this Python's environment are on the PATH meanwhile: the Arm backend looks for the model converter
    there, and an environment that was not activated is not on it.
    """
    captured = Captured()
    path = os.environ.get("PATH", "")
    with tempfile.TemporaryFile() as sink, warnings.catch_warnings(record=True) as caught:
        sys.stdout.flush()
        sys.stderr.flush()
        kept = [os.dup(1), os.dup(2)]
        try:
            os.dup2(sink.fileno(), 1)
            os.dup2(sink.fileno(), 2)
            os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), path])
            yield captured
        except Exception as error:
            if (printed := _read(sink)) and hasattr(error, "add_note"):
                error.add_note("The backend printed last:\n" + "\n".join(printed.splitlines()[-20:]))
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.environ["PATH"] = path
            for descriptor, original in zip((1, 2), kept, strict=True):
                os.dup2(original, descriptor)
                os.close(original)
            captured.log = _read(sink)
            if transcript is not None:
                transcript.write(captured.log)
            captured.warnings = tuple(dict.fromkeys(str(warning.message) for warning in caught))


def op_name(node: Node) -> str:
    """The op of a node without dialect and default overload: `argmin`, `where.self`, `executorch_call_delegate`."""
    name = full_name(node.target)
    return re.sub(r"^(aten|dim_order_ops|quantized_decomposed)\.", "", name).removesuffix(".default")


def at_boundary(node: Node, program: ExportedProgram) -> bool:
    """Whether a quantize or dequantize op touches an input or an output of the program."""
    source = node.all_input_nodes[0]
    return source.name in program.graph_signature.user_inputs or all(user.op == "output" for user in node.users)


def _flat(reference: Any, actual: Any) -> tuple[Tensor, Tensor]:
    """All tensors of each side as one float64 vector."""
    sides = [[leaf for leaf in tree_leaves(side) if isinstance(leaf, Tensor)] for side in (reference, actual)]
    shapes = [[tuple(tensor.shape) for tensor in side] for side in sides]
    if shapes[0] != shapes[1]:
        raise LowerfixError(f"outputs of different shapes cannot be compared: {shapes[0]} and {shapes[1]}")
    empty = torch.zeros(0, dtype=torch.float64)
    r, a = (torch.cat([empty, *(tensor.detach().double().reshape(-1) for tensor in side)]) for side in sides)
    return r, a


def _compare(reference: Any, actual: Any) -> tuple[Tensor, Tensor]:
    """The reference and the error, flat in float64: NaN for NaN is no error, NaN for a number an infinite one."""
    r, a = _flat(reference, actual)
    same = (r == a) | (r.isnan() & a.isnan())
    error = torch.where(same, torch.zeros_like(r), r - a)
    return r, torch.where(error.isnan(), torch.full_like(r, math.inf), error)


_VELA = threading.RLock()


@contextmanager
def _vela_estimates() -> Iterator[list[VelaEstimate]]:
    """Collect Vela's estimate for each delegate that is compiled.

    Vela writes them to a CSV file next to its output, which ExecuTorch deletes, or overwrites from one delegate to the
    next. So the function that calls Vela is replaced meanwhile by one that gives it a directory and reads the file.
    """
    estimates: list[VelaEstimate] = []
    # Not loaded: then no delegate is compiled for Ethos-U.
    backend: Any = sys.modules.get("executorch.backends.arm.ethosu.backend")
    if backend is None:
        yield estimates
        return
    with _VELA:
        compile_with_vela = backend.vela_compile

        def compile_and_read(*args: Any, intermediate_path: str | None = None, **kwargs: Any) -> Any:
            with tempfile.TemporaryDirectory() as scratch:
                directory = intermediate_path or scratch
                result = compile_with_vela(*args, intermediate_path=directory, **kwargs)
                for summary in Path(directory, "output").glob("*_summary_*.csv"):
                    with summary.open(newline="") as lines:
                        row = next(csv.DictReader(lines))
                    estimates.append(VelaEstimate(int(row["cycles_total"]), float(row["sram_memory_used"])))
            return result

        backend.vela_compile = compile_and_read
        try:
            yield estimates
        finally:
            backend.vela_compile = compile_with_vela


@contextmanager
def _partition_timed(partitioner: Partitioner) -> Iterator[list[float]]:
    """Collect the seconds of each call of this one object's `partition`."""
    seconds: list[float] = []
    partition = partitioner.partition

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return partition(*args, **kwargs)
        finally:
            seconds.append(time.perf_counter() - start)

    overridden = vars(partitioner).get("partition")
    partitioner.partition = timed
    try:
        yield seconds
    finally:
        if overridden is None:
            del partitioner.partition
        else:
            partitioner.partition = overridden


def _read(sink: Any) -> str:
    sys.stdout.flush()
    sys.stderr.flush()
    sink.seek(0)
    text = sink.read().decode(errors="replace")
    sink.seek(0, os.SEEK_END)
    return str(text)
