"""Where each op of a program would run, in a delegate or on the CPU, and whether the numbers hold."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Op:
    """An op of the Edge program that the backend's partitioner was given.

    Attributes:
        name: the node's name, behind the method's and a slash where the program has several methods.
        op: what it computes, ``aten.argmin.default``.
        inputs: the names of the ops that it reads.
        value: dtype and shape of its result.
        module: the path of the module that it comes from, ``encoder.layers.0``.
        source: the user's own ``file:line``.
        delegate: the number of the delegate that it runs in; None on the CPU.
        counts: whether it computes something: it is no ``getitem``, quantize or dequantize, size or assertion.
        reason: why it stays on the CPU, in the backend's words.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    value: str = ""
    module: str = ""
    source: str = ""
    delegate: int | None = None
    counts: bool = True
    reason: str = ""


@dataclass(frozen=True)
class Placement:
    """What the backend's partitioner makes of a program.

    Attributes:
        delegates: how many there are.
        delegated_ops: how many ops run in them.
        cpu_ops: how many stay on the CPU, by name. Quantize and dequantize are not among them.
        boundary_quantize: quantize and dequantize ops on the CPU next to an input or output of the program.
        inner_quantize: those elsewhere, which are there because the program is split.
        between: the names of the ops on the CPU that stand between delegates: all of them have to be taken for there to
            be one delegate.
        error: what stopped the lowering; empty where nothing did.
        ops: the graph; empty in a report that was loaded from a file without it.
    """

    delegates: int = 0
    delegated_ops: int = 0
    cpu_ops: Mapping[str, int] = field(default_factory=dict)
    boundary_quantize: int = 0
    inner_quantize: int = 0
    between: tuple[str, ...] = ()
    error: str = ""
    ops: tuple[Op, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, ops: Iterable[Op], boundary: Iterable[str] = (), between: Iterable[str] = ()) -> "Placement":
        """The placement that a graph's ops show.

        Args:
            ops: the ops.
            boundary: the names of those next to an input or output.
            between: the names of those between delegates.
        """
        ops = tuple(ops)
        near = set(boundary)
        left = [op for op in ops if op.delegate is None]
        quantizing = [op.name for op in left if "quantize_per" in op.op]
        at_boundary = sum(name in near for name in quantizing)
        return cls(
            delegates=len({op.delegate for op in ops} - {None}),
            delegated_ops=sum(op.counts for op in ops if op.delegate is not None),
            cpu_ops=dict(sorted(Counter(op.op for op in left if op.counts).items())),
            boundary_quantize=at_boundary,
            inner_quantize=len(quantizing) - at_boundary,
            between=tuple(between),
            ops=ops,
        )

    @property
    def left(self) -> int:
        """How many ops stay on the CPU."""
        return sum(self.cpu_ops.values())

    @property
    def whole(self) -> bool:
        """Whether the backend takes all of each method, in one piece or in none where there is nothing to take."""
        methods = {op.name.rpartition("/")[0] for op in self.ops if op.delegate is not None}
        return not self.error and not self.left and self.delegates <= max(1, len(methods))

    def __str__(self) -> str:
        if self.error:
            return f"fails: {self.error}"
        ops = ", ".join(name if count == 1 else f"{count} x {name}" for name, count in self.cpu_ops.items())
        delegates = f"{self.delegates} delegate{'' if self.delegates == 1 else 's'} with {self.delegated_ops} ops"
        return f"{delegates}, {self.left} on the CPU{f' ({ops})' if ops else ''}"


@dataclass(frozen=True)
class Comparison:
    """How one output differs from what it should be.

    Attributes:
        output: its number, behind the method's name where the program has several.
        max_abs: the largest difference; infinite where only one of the two is NaN or infinite.
        max_rel: the largest difference, divided by what it should be.
        snr: the signal-to-noise ratio in dB; infinite where nothing differs.
        cosine: of the angle between the two as vectors.
    """

    output: str
    max_abs: float
    max_rel: float
    snr: float
    cosine: float


@dataclass(frozen=True)
class Verified:
    """Whether the numbers hold.

    Attributes:
        lowered: what the lowered program computed on this machine, against the float model in eager PyTorch.
        quantized: what the quantized one computes in eager, so what int8 alone costs; empty where nothing is quantized.
        drift: the first rewrite that changes numbers by more than rounding, with its ops and source lines; empty where
            none does.
        drifted: by how much.
        error: what stopped the program from being lowered or executed.
    """

    lowered: tuple[Comparison, ...] = ()
    quantized: tuple[Comparison, ...] = ()
    drift: str = ""
    drifted: tuple[Comparison, ...] = ()
    error: str = ""
