"""Assignments to slices of a tensor, as one concatenation of the pieces.

**What it rewrites.** Chains of ``slice_scatter`` and ``select_scatter`` along one dimension, which is what ``y[..., :h]
= a; y[..., h:] = b`` and ``y[..., 0] = c`` become in a functional program, and what is read back of such a chain along
that dimension.

**The identity.** Each position along the dimension holds what was written there last, or what the tensor held before.
Runs of positions from one source are slices of it, and the result is their concatenation. Where sources alternate, as
in ``y[..., ::2] = a; y[..., 1::2] = b``, they are stacked along a new dimension that is then merged. A tensor that is
written all over, such as one from ``empty``, is not read at all.

**Why the backend needs it.** Arm's lowering of ``select_scatter`` compares int64 positions, and what ``empty`` makes
stays on the CPU; XNNPACK has neither scatter. Rotary position embeddings and time embeddings are written so.

**What it leaves alone.** Symbolic bounds; a dimension of symbolic size, or of more than 2**16 positions; chains that
leave more than 16 pieces; reading from ``empty`` what was never written.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.program import Program, inherit_metadata, origin
from lowerfix.report import Outcome

aten = torch.ops.aten

RETIRE_WHEN = (
    "the backends take slice_scatter and select_scatter, and tensors from empty; none does in ExecuTorch 1.5.1"
)

LONGEST = 1 << 16
MOST_PIECES = 16

_WRITES = (aten.slice_scatter.default, aten.select_scatter.default)
_READS = (aten.slice.Tensor, aten.select.int)


@dataclass(frozen=True)
class _Run:
    """Positions ``start, start + step, ...`` of a source along the dimension; ``source`` may lack the dimension."""

    source: Node
    start: int
    step: int
    count: int


@dataclass
class SliceAssignment(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "slice-assignment"
    after: ClassVar[tuple[str, ...]] = ("out-of-place", "overwrite")
    cleans_up: ClassVar[bool] = True
    retire_when: ClassVar[str] = RETIRE_WHEN

    def run(self, program: Program, context: Context) -> bool:
        if program.has_in_place_ops:
            return False
        changed = False
        known: dict[Node, list[tuple[Node, int]]] = {}
        dims: dict[Node, int] = {}
        for node in list(program.graph.nodes):
            if node.op != "call_function" or node.target not in (*_WRITES, *_READS):
                continue
            bounds = _positions(node)
            if bounds is None:
                continue
            dim, positions = bounds
            base: Any = node.args[0]
            before = known[base] if dims.get(base) == dim and base.target is not aten.select.int else None
            if node.target in _WRITES:
                size = int(node.meta["val"].shape[dim])
                after = list(before) if before is not None else [(base, n) for n in range(size)]
                for number, position in enumerate(positions):
                    after[position] = (_written(node), number)
                known[node], dims[node] = after, dim
            elif before is None:
                continue
            else:
                known[node], dims[node] = [before[position] for position in positions], dim
        renewed: dict[Node, Node] = {}
        for node, content in known.items():
            if not content or _is_passed_on(node, dims):
                continue
            pieces = _pieces([(renewed.get(source, source), position) for source, position in content])
            if pieces is None or any(_is_uninitialised(run.source) for piece in pieces for run in piece):
                continue
            context.find(self.id, node, Outcome.REWRITTEN, f"it consists of {sum(map(len, pieces))} pieces")
            renewed[node] = _assembled(program, node, dims[node], pieces, self.id)
            program.replace(node, renewed[node])
            changed = True
        if changed:
            program.remove_dead()
        return changed


def _is_passed_on(node: Node, dims: dict[Node, int]) -> bool:
    """Whether nothing reads a node but later members of its chain, which know its content."""
    return all(
        user in dims and dims[user] == dims[node] and user.args[0] is node and user.args.count(node) == 1
        for user in node.users
    )


def _positions(node: Node) -> tuple[int, list[int]] | None:
    """The dimension and the positions that a slice or a selection reads or writes; None where they are not known."""
    base = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    if not isinstance(base, torch.Tensor):
        return None
    writes = node.target in _WRITES
    names = ["self", "src", "dim", "start", "end", "step"] if writes else ["self", "dim", "start", "end", "step"]
    if node.target in (aten.select_scatter.default, aten.select.int):
        names = ["self", "src", "dim", "index"] if writes else ["self", "dim", "index"]
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    dim = given.get("dim", 0)
    size = base.shape[dim]
    bounds = [given.get(name) for name in ("start", "end", "step", "index")]
    if not isinstance(size, int) or size > LONGEST or not all(b is None or isinstance(b, int) for b in bounds):
        return None
    if writes:
        source = given["src"].meta["val"]
        if source.dtype != base.dtype:
            return None
    dim = dim % base.dim()
    if "index" in given:
        return dim, [given["index"] % size]
    start, end, step = given.get("start"), given.get("end"), given.get("step", 1)
    return dim, list(range(size))[start:end:step]


def _written(node: Node) -> Node:
    source = node.args[1] if len(node.args) > 1 else node.kwargs["src"]
    assert isinstance(source, Node)
    return source


def _is_uninitialised(node: Node) -> bool:
    return "empty" in str(node.target)


def _pieces(content: list[tuple[Node, int]]) -> list[list[_Run]] | None:
    """The content as a list of pieces to be concatenated, each a list of runs that alternate; None for too many."""
    plain = [[run] for run in _runs(content)]
    best = plain
    for period in range(2, MOST_PIECES + 1):
        whole = len(content) // period * period
        if whole < 2 * period or period >= len(best):
            break
        lanes = [list(_runs(content[lane:whole:period], None)) for lane in range(period)]
        if all(len(lane) == 1 for lane in lanes):
            rest = [[run] for run in _runs(content[whole:])]
            if period + len(rest) < len(best):
                best = [[lane[0] for lane in lanes], *rest]
    return best if sum(map(len, best)) <= MOST_PIECES else None


def _runs(content: list[tuple[Node, int]], step: int | None = 1) -> Iterator[_Run]:
    """Maximal runs of positions of one source, with the given step or, for None, any positive one."""
    start = 0
    while start < len(content):
        source, first = content[start]
        end, stride = start + 1, step
        while end < len(content) and content[end][0] is source:
            distance = content[end][1] - content[end - 1][1]
            if stride is None and distance > 0:
                stride = distance
            if distance != stride:
                break
            end += 1
        yield _Run(source, first, stride or 1, end - start)
        start = end


def _assembled(program: Program, node: Node, dim: int, pieces: list[list[_Run]], pass_id: str) -> Node:
    """The nodes that slice, stack and concatenate."""
    origin_ = origin(node, pass_id)
    rank = node.args[0].meta["val"].dim()  # type: ignore[union-attr]

    def add(target: Any, *args: Any) -> Node:
        values = torch.fx.node.map_arg(args, lambda n: n.meta["val"])
        new = program.graph.call_function(target, args)
        new.meta["val"] = target(*values)
        inherit_metadata(new, node, pass_id, origin_)
        return new

    def taken(run: _Run) -> Node:
        source = run.source
        if source.meta["val"].dim() < rank:  # what was selected has lost the dimension
            return add(aten.unsqueeze.default, source, dim)
        size = source.meta["val"].shape[dim]
        if run.count == size:
            return source
        end = run.start + (run.count - 1) * run.step + 1
        return add(aten.slice.Tensor, source, dim, run.start, end, *([run.step] if run.step != 1 else []))

    with program.fake_mode, program.graph.inserting_before(node):
        parts = []
        for piece in pieces:
            lanes = [taken(run) for run in piece]
            if len(lanes) > 1:
                stacked = add(aten.stack.default, lanes, dim + 1)
                shape = list(lanes[0].meta["val"].shape)
                shape[dim] *= len(lanes)
                lanes = [add(aten.reshape.default, stacked, shape)]
            parts += lanes
        whole = add(aten.cat.default, parts, dim) if len(parts) > 1 else parts[0]
        if node.target is aten.select.int:
            whole = add(aten.squeeze.dim, whole, dim)
        return whole
