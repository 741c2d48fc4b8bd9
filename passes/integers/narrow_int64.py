"""int64 arithmetic in int32, or in float32, where its values provably fit.

**What it rewrites.** Arithmetic, comparisons, sums and views of int64 tensors whose values, operands and results, are
known to lie within int32: ``cumsum(mask) - 1``, ``argmax(x) % 7``, ``ids // 8``, ``position < length``. The proof is
interval analysis (:mod:`lowerfix.ranges`) from Booleans, shapes, constants and positions.

**The identity.** Whole-number arithmetic that does not overflow gives the same number in every width. In float32 it is
exact as long as every value lies within 2**24; a quotient is taken of ``a + 1/2``, so that a division that is not
correctly rounded cannot cross a whole number: the distance to the next one is ``1 / (2 b)``, the error at most
``a / b * 2**-22``, hence ``|a| < 2**20``.

**Why the backend needs it.** Arm has no int64. It computes in int32 where the TOSA profile has integers, in float32
where it has not, and a cumulative sum in float32 alone.

**What it leaves alone.** Values that may not fit: the finding gives the interval. Divisors that may be zero. Groups of
ops for which more casts would stay on the CPU than ops stay today. The dtypes of the program's inputs and outputs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Node
from torch.utils._pytree import tree_map

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline
from lowerfix.oracle import Answer, Question
from lowerfix.program import CASTS, Program
from lowerfix.ranges import FLOAT32, Interval
from lowerfix.report import Outcome
from lowerfix.rewritepass import question
from lowerfix.rewriting import Match, Rewrite, Trace, splice
from lowerfix.source import aten_name, op_name

aten = torch.ops.aten

ARITHMETIC = (
    "add", "sub", "rsub", "mul", "neg", "abs", "sign", "square", "remainder", "fmod", "floor_divide", "div", "clamp",
    "clamp_min", "clamp_max", "maximum", "minimum", "relu", "where", "masked_fill", "sum", "cumsum", "amax", "amin",
    "eq", "ne", "lt", "le", "gt", "ge", "argmax",
)  # fmt: skip
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "__lshift__", "__rshift__",
        "bitwise_left_shift", "bitwise_right_shift")  # fmt: skip
MOVES = (
    "view", "reshape", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "slice", "select", "clone",
    "contiguous", "flatten", "unflatten", "flip", "repeat", "cat", "stack", "constant_pad_nd", "pad", "index_select",
)  # fmt: skip
INDEXING = ("aten.index_select.default", "aten.embedding.default", "aten.index.Tensor", "aten.gather.default")
"""Ops that cast an int64 index by themselves, where lowerfix has rewritten them."""

WHOLE_QUOTIENT = Interval(-(1 << 20), 1 << 20)


@dataclass(frozen=True)
class _Plan:
    """One op in the narrower type, and what the backend does with it as it is."""

    replacement: Trace
    now: Answer
    dtype: torch.dtype


@dataclass
class NarrowInt64(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "narrow-int64"
    retire_when: ClassVar[str] = "TOSA has int64, or Arm narrows it by ranges; neither in ExecuTorch 1.5.1"
    after: ClassVar[tuple[str, ...]] = ("fold-constants", "merge-casts", "cast-before-view", "index-to-int32")

    def questions(self, program: Program, context: Context) -> list[Question]:
        return questions(program, context)

    def run(self, program: Program, context: Context) -> bool:
        def declined(match: Match, reason: str) -> None:
            if not context.oracle.ask([question(match, None, program, context)])[0].taken:
                context.find(self.id, match.node, Outcome.DECLINED, reason)

        plans = narrowed(program, context, declined)
        changed = False
        for group in _groups(plans):
            if _cost_after(group, plans, program) >= _cost_now(group, plans):
                continue
            for node in group:
                plan = plans[node]
                interval = program.ranges.of(node)
                fits = f"its values lie in {interval}, which" if interval is not None else "its operands are such that"
                reason = f"{context.target.name} does not take it ({plan.now.reason}); {fits} {plan.dtype} holds"
                context.find(self.id, node, Outcome.REWRITTEN, reason)
                splice(program, Match.of(node, program), plan.replacement, self.id)  # its arguments are new by now
                changed = True
        if changed:
            program.remove_dead()
        return changed


def questions(program: Program, context: Context) -> list[Question]:
    """What :func:`narrowed` will want to know."""
    found = []
    for match, replacements in _candidates(program, context, lambda *_: None):
        asked = question(match, None, program, context)
        found.append(asked)
        now = context.oracle.known(asked)
        if now is not None and not now.taken:
            found += [question(match, trace, program, context) for trace in replacements.values()]
    return found


def narrowed(
    program: Program, context: Context, declined: Callable[[Match, str], None] = lambda *_: None
) -> dict[Node, _Plan]:
    """The ops that the backend refuses in int64 and takes in a narrower type that provably holds their values."""
    plans: dict[Node, _Plan] = {}
    for match, replacements in list(_candidates(program, context, declined)):
        [now] = context.oracle.ask([question(match, None, program, context)])
        if now.taken:
            continue
        for dtype, replacement in replacements.items():
            [then] = context.oracle.ask([question(match, replacement, program, context)])
            if then.serves:
                plans[match.node] = _Plan(replacement, now, dtype)
                break
    return plans


# What fits ------------------------------------------------------------------------------------------------------------


def _candidates(
    program: Program, context: Context, declined: Callable[[Match, str], None]
) -> Iterator[tuple[Match, dict[torch.dtype, Trace]]]:
    """The int64 ops whose values fit a narrower type, each with what it is in those types."""
    if program.has_in_place_ops:
        return
    for node in program.graph.nodes:
        short = aten_name(node)
        if short not in ARITHMETIC and short not in BITS and short not in MOVES:
            continue
        if not any(_is_int64(value) for value in (node, *node.all_input_nodes)):
            continue
        try:
            match = Match.of(node, program)
            replacements = _replacements(match, program, context)
        except Decline as decline:
            if "val" in node.meta and all("val" in source.meta for source in node.all_input_nodes):
                declined(Match.of(node, program), decline.reason)
            continue
        yield match, replacements


def _replacements(match: Match, program: Program, context: Context) -> dict[torch.dtype, Trace]:
    """The op in int32 and, where that is exact too, in float32.

    Raises:
        Decline: with the interval, where a value may not fit int32.
    """
    node = match.node
    short = aten_name(node)
    divides = short in ("remainder", "fmod", "floor_divide") or (short == "div" and node.kwargs.get("rounding_mode"))
    if divides:
        divisor = program.ranges.of(node.args[1])
        if divisor is None or divisor.low <= 0 <= divisor.high:
            raise Decline("its divisor may be zero")
    intervals = [interval for value in (node, *match.leaves) if (interval := program.ranges.of(value)) is not None]
    for interval in intervals:
        if not interval.fits(torch.int32):
            raise Decline(f"its values or operands lie in {interval}, as far as is known; int32 holds less")
    found: dict[torch.dtype, Trace] = {}
    result = node.meta["val"].dtype
    for dtype in (torch.int32, torch.float32):
        if dtype is torch.int32 and short == "cumsum":
            continue  # Arm's partitioner takes it and its lowering dies
        if dtype is torch.float32:
            bound = WHOLE_QUOTIENT if divides else FLOAT32
            alpha = node.kwargs.get("alpha", 1) == 1
            if (
                short in BITS
                or short in MOVES
                or short == "argmax"
                or not alpha
                or not all(i.within(bound) for i in intervals)
            ):
                continue
            if divides and (divisor is None or divisor.low < 0):
                continue
        function = Rewrite(_narrowed(node.target, short, dtype, result), (node.target,))
        found[dtype] = context.traced(f"{__name__}: {node.target} {dtype}", function, match)
    if not found:
        raise Decline("its values fit int32 but not float32, which is what the backend adds up in")
    return found


def _narrowed(target: Any, short: str, dtype: torch.dtype, result: torch.dtype) -> Callable[..., Any]:
    """The op on operands of a narrower type, its result cast to the dtype that the op has."""
    function = (_IN_FLOAT32 if dtype is torch.float32 else _IN_INT32).get(short, target)

    def narrow(value: Any) -> Any:
        if value is torch.int64:
            return dtype
        if not isinstance(value, Tensor) or value.dtype.is_floating_point:
            return value
        if value.dtype is torch.bool:
            return value.to(dtype) if short in ("sum", "cumsum") else value
        wanted = result if result.is_floating_point else dtype  # what PyTorch promotes an integer operand to
        return value.to(torch.int32).to(wanted)

    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(narrow, (args, kwargs))
        value = function(*args, **kwargs)
        return value.to(torch.int32).to(result) if result is torch.int64 else value.to(result)

    return run


def _sum(dtype: torch.dtype) -> Callable[..., Tensor]:
    def run(x: Tensor, dim: Any = None, keepdim: bool = False, **_: Any) -> Tensor:
        dims = list(range(x.dim())) if dim is None or dim == [] else dim
        return torch.sum(x, dims, keepdim, dtype=dtype)

    return run


def _fmod(x: Tensor, y: Any) -> Tensor:
    product: Tensor = torch.div(x, y, rounding_mode="trunc") * y
    return x - product


def _floor_divide(x: Tensor, y: Any) -> Tensor:
    """``floor(x / y)`` in float32 for positive ``y``."""
    return torch.floor((x + 0.5) * (1.0 / y)) if isinstance(y, int) else torch.floor((x + 0.5) / y)


def _divide(x: Tensor, y: Any, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode is None:
        quotient: Tensor = x / y
        return quotient
    if rounding_mode == "floor":
        return _floor_divide(x, y)
    return torch.where(x < 0, -_floor_divide(-x, y), _floor_divide(x, y))


_IN_INT32: dict[str, Callable[..., Any]] = {
    "sum": _sum(torch.int32),
    "fmod": _fmod,
    "ne": lambda x, y: torch.logical_not(torch.eq(x, y)),
    "relu": lambda x: torch.clamp(x, min=0),
}
_IN_FLOAT32: dict[str, Callable[..., Any]] = {
    "sum": _sum(torch.float32),
    "cumsum": lambda x, dim, **_: torch.cumsum(x, dim),
    "floor_divide": _floor_divide,
    "div": _divide,
    "remainder": lambda x, y: x - _floor_divide(x, y) * y,
    "fmod": lambda x, y: x - _divide(x, y, rounding_mode="trunc") * y,
    "ne": lambda x, y: torch.logical_not(torch.eq(x, y)),
}


def _is_int64(value: Any) -> bool:
    return isinstance(value, Node) and getattr(value.meta.get("val"), "dtype", None) is torch.int64


# What it saves --------------------------------------------------------------------------------------------------------


def _groups(plans: dict[Node, _Plan]) -> list[list[Node]]:
    """The planned ops that hand int64 tensors to each other: all of a group are narrowed, or none."""
    parent = {node: node for node in plans}

    def root(node: Node) -> Node:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node in plans:
        for source in node.all_input_nodes:
            if source in plans and _is_int64(source):
                parent[root(node)] = root(source)
    groups: dict[Node, list[Node]] = {}
    for node in plans:
        groups.setdefault(root(node), []).append(node)
    return list(groups.values())


def _cost_now(group: list[Node], plans: dict[Node, _Plan]) -> int:
    """How many ops stay on the CPU today: those of the group, and the casts that read it. A crash is worse than all."""
    casts = {user for node in group if _is_int64(node) for user in node.users if _is_cast(user)}
    crashes = any(plans[node].now.error for node in group)
    return len(group) + len(casts) + (1 << 20) * crashes


def _cost_after(group: list[Node], plans: dict[Node, _Plan], program: Program) -> int:
    """How many casts will stay on the CPU: of int64 that enters the group, and of what leaves it as int64."""
    inside = set(group)
    entering = {
        source
        for node in group
        for source in node.all_input_nodes
        if _is_int64(source) and source not in inside and not _is_cast(source) and program.tensor(source) is None
    }
    leaving = [
        node
        for node in group
        if _is_int64(node)
        and any(not (user in inside or _is_cast(user) or op_name(user.target) in INDEXING) for user in node.users)
    ]
    return len(entering) + len(leaving)


def _is_cast(node: Node) -> bool:
    return op_name(node.target) in CASTS
