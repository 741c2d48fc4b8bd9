"""Value-range analysis: between which integers the elements of a tensor lie, whatever the inputs are.

Interval arithmetic over a graph, from what bounds itself (shapes, constants, ``arange``, Booleans, the indices that
``argmax`` and its like return) through the arithmetic on it. The rules are those of R. E. Moore, *Interval Analysis*
(1966): each op maps intervals to an interval that holds every result. Where nothing is known, or where a result may not
fit its dtype and would wrap around, the interval is that of the dtype.
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.fx import Node
from torch.utils._sympy.value_ranges import bound_sympy

from lowerfix.source import aten_name, op_name

LARGEST_READ = 1 << 20
"""Elements up to which a constant is read for its smallest and largest value."""


class Interval(NamedTuple):
    """The integers from ``low`` to ``high``, both included."""

    low: int
    high: int

    def within(self, other: "Interval") -> bool:
        return other.low <= self.low and self.high <= other.high

    def fits(self, dtype: torch.dtype) -> bool:
        """Whether an integer dtype holds all of it."""
        return self.within(of_dtype(dtype))

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}]"


def of_dtype(dtype: torch.dtype) -> Interval:
    """All values of an integer dtype or of bool."""
    if dtype is torch.bool:
        return Interval(0, 1)
    info = torch.iinfo(dtype)
    return Interval(info.min, info.max)


FLOAT32 = Interval(-(1 << 24), 1 << 24)
"""Between these, float32 holds every integer."""


class Ranges:
    """The intervals of a graph's nodes, found when asked for and remembered.

    A rewrite keeps a node's values, so what is known of a node stays true while the graph changes around it.

    Args:
        tensor: gives the tensor of a node that is a constant, None for other nodes.
        in_place: whether the graph has in-place ops, which change what a node holds after it has run; then nothing but
            the dtypes is known.
    """

    def __init__(self, tensor: Callable[[Node], torch.Tensor | None] = lambda _: None, in_place: bool = False) -> None:
        self._tensor = tensor
        self._in_place = in_place
        self._known: dict[Node, Interval | None] = {}

    def of(self, value: Any) -> Interval | None:
        """The interval of a node, an integer or a symbolic size; None where it is not an integer or bool tensor."""
        if isinstance(value, Node):
            if value not in self._known:
                self._follow(value)
            return self._known[value]
        return _of_number(value)

    @contextmanager
    def assuming(self, node: Node, interval: Interval) -> Iterator[None]:
        """Let a node's elements lie in an interval, for a question of what would follow."""
        known, self._known = self._known, {node: interval}
        try:
            yield
        finally:
            self._known = known

    def _follow(self, node: Node) -> None:
        """Find a node's interval, its sources' first; a graph can be deeper than Python's stack."""
        pending = [node]
        while pending:
            current = pending[-1]
            sources = [s for s in _sources(current) if s not in self._known]
            if current in self._known or not sources:
                pending.pop()
                self._known.setdefault(current, self._find(current))
            else:
                pending.extend(sources)

    def _find(self, node: Node) -> Interval | None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return _of_number(value)
        if value.is_floating_point() or value.is_complex():
            return None
        whole = of_dtype(value.dtype)
        if value.dtype is torch.bool or self._in_place:
            return whole
        stored = self._tensor(node)
        if stored is not None and 0 < stored.numel() <= LARGEST_READ:
            return Interval(int(stored.min()), int(stored.max()))
        found = self._computed(node) if node.op == "call_function" else None
        return found if found is not None and found.within(whole) else whole

    def _computed(self, node: Node) -> Interval | None:
        """What the rule of a node's op says; None where it has none, or where its arguments say nothing."""
        if node.target is operator.getitem:
            producer, position = node.args
            assert isinstance(producer, Node)
            if aten_name(producer) in _PICKS:
                return self._known.get(producer.all_input_nodes[0]) if position == 0 else _positions(producer)
            return self._known.get(producer.all_input_nodes[0]) if aten_name(producer) in _PIECES else None
        rule = _RULES.get(aten_name(node))
        return rule(node, self.of) if rule is not None else None


def _sources(node: Node) -> list[Node]:
    """The nodes whose intervals may matter to a node's; floats say nothing."""
    value = node.meta.get("val")
    if node.op != "call_function" or (isinstance(value, torch.Tensor) and value.is_floating_point()):
        return []
    if node.target is operator.getitem:
        return node.all_input_nodes[0].all_input_nodes[:1]
    return node.all_input_nodes


def _of_number(value: Any) -> Interval | None:
    if isinstance(value, (bool, int)):
        return Interval(int(value), int(value))
    if isinstance(value, torch.SymInt):
        bounds = bound_sympy(value.node.expr, value.node.shape_env.var_to_range)
        whole = of_dtype(torch.int64)
        low = int(bounds.lower) if bounds.lower.is_Integer else whole.low  # int_oo calls itself finite
        high = int(bounds.upper) if bounds.upper.is_Integer else whole.high
        return Interval(max(low, whole.low), min(high, whole.high))
    return None


# Rules ----------------------------------------------------------------------------------------------------------------

Of: TypeAlias = Callable[[Any], Interval | None]
Rule: TypeAlias = Callable[[Node, Of], Interval | None]
_RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return add


def _argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if position < len(node.args) else node.kwargs.get(name, default)


def _hull(intervals: Sequence[Interval | None]) -> Interval | None:
    """The smallest interval around several; None where one of them is unknown."""
    known = [interval for interval in intervals if interval is not None]
    if not known or len(known) != len(intervals):
        return None
    return Interval(min(i.low for i in known), max(i.high for i in known))


def _corners(a: Interval, b: Interval, function: Callable[[int, int], int]) -> Interval:
    """Of a function that is monotonic in each argument: its extremes are at the corners."""
    values = [function(x, y) for x, y in itertools.product(a, b)]
    return Interval(min(values), max(values))


def _size(node: Any, dim: Any = None) -> int | None:
    """How many elements a tensor has, or has along some dimensions, at most; None where no bound is known."""
    shape = node.meta["val"].shape
    if dim is None or dim == []:
        sizes = list(shape)
    else:
        sizes = [shape[d] for d in (dim if isinstance(dim, (list, tuple)) else [dim])] if len(shape) else []
    bounds = [_of_number(size) for size in sizes]
    return None if any(b is None for b in bounds) else math.prod(b.high for b in bounds if b is not None)


_PICKS = ("max", "min", "topk", "sort", "kthvalue", "median", "nanmedian", "cummax", "cummin", "mode")
"""Ops that return values and, second, their positions along a dimension."""

_PIECES = ("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_split")
"""Ops that take a tensor apart."""


def _positions(node: Node) -> Interval | None:
    """Positions along one dimension of what the node reads."""
    position = 2 if op_name(node.target) in ("aten.topk.default", "aten.kthvalue.default", "aten.sort.stable") else 1
    size = _size(node.args[0], _argument(node, position, "dim", -1))
    return None if size is None else Interval(0, max(size - 1, 0))


@_rule("argmax", "argmin", "argsort")
def _index(node: Node, of: Of) -> Interval | None:
    position = {"aten.argsort.stable": 2}.get(op_name(node.target), 1)
    default = -1 if "argsort" in op_name(node.target) else None
    size = _size(node.args[0], _argument(node, position, "dim", default))
    return None if size is None else Interval(0, max(size - 1, 0))


@_rule("bucketize", "searchsorted")
def _bucket(node: Node, of: Of) -> Interval | None:
    boundaries = node.args[1] if "bucketize" in op_name(node.target) else node.args[0]
    size = _size(boundaries, -1)
    return None if size is None else Interval(0, size)


@_rule("count_nonzero")
def _count(node: Node, of: Of) -> Interval | None:
    size = _size(node.args[0], _argument(node, 1, "dim"))
    return None if size is None else Interval(0, size)


@_rule("one_hot", "logical_not", "logical_and", "logical_or", "logical_xor")
def _bit(node: Node, of: Of) -> Interval | None:
    return Interval(0, 1)


@_rule("arange")
def _arange(node: Node, of: Of) -> Interval | None:
    name = op_name(node.target)
    numbers = [0, *node.args, 1] if name == "aten.arange.default" else [*node.args, 1]
    start, end, step = (of(number) for number in numbers[:3])
    if start is None or end is None or step is None or step.low <= 0:
        return None
    return Interval(start.low, max(start.high, end.high - 1))


@_rule("full", "full_like", "new_full", "scalar_tensor", "fill")
def _full(node: Node, of: Of) -> Interval | None:
    return of(node.args[0 if "scalar_tensor" in op_name(node.target) else -1])


@_rule("zeros", "zeros_like", "new_zeros")
def _zeros(node: Node, of: Of) -> Interval | None:
    return Interval(0, 0)


@_rule("ones", "ones_like", "new_ones")
def _ones(node: Node, of: Of) -> Interval | None:
    return Interval(1, 1)


@_rule("to", "_to_copy")
def _cast(node: Node, of: Of) -> Interval | None:
    """A value that fits is kept; ``_find`` replaces what does not by the whole dtype. Floats are not followed."""
    return of(node.args[0])


@_rule(
    "view", "reshape", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "slice", "select", "clone",
    "contiguous", "flatten", "unflatten", "flip", "roll", "repeat", "index_select", "gather", "index", "diagonal",
    "detach", "alias", "movedim", "take_along_dim", "narrow", "unfold", "repeat_interleave", "expand_as", "view_as",
    "reshape_as", "numpy_T", "swapaxes", "tile", "embedding", "amax", "amin", "take", "view_copy",
    "lift_fresh_copy", "msort",
)  # fmt: skip
def _elements(node: Node, of: Of) -> Interval | None:
    """Every element of the result is one of the first argument's."""
    return of(node.args[0])


@_rule("max", "min")
def _extreme(node: Node, of: Of) -> Interval | None:
    if len(node.args) == 1:
        return of(node.args[0])
    return _maximum(node, of) if "max" in op_name(node.target) else _minimum(node, of)


@_rule("tril", "triu")
def _triangle(node: Node, of: Of) -> Interval | None:
    return _hull([of(node.args[0]), Interval(0, 0)])


@_rule("constant_pad_nd", "pad")
def _padded(node: Node, of: Of) -> Interval | None:
    """The elements, and the value that is put around them; other modes repeat elements."""
    if op_name(node.target) == "aten.pad.default":
        mode, value = _argument(node, 2, "mode", "constant"), _argument(node, 3, "value")
        if mode != "constant":
            return of(node.args[0])
    else:
        value = _argument(node, 2, "value")
    return _hull([of(node.args[0]), of(value or 0)])


@_rule("cat", "stack", "concat", "concatenate")
def _joined(node: Node, of: Of) -> Interval | None:
    tensors = node.args[0]
    return _hull([of(tensor) for tensor in tensors]) if isinstance(tensors, (list, tuple)) else None


@_rule("where")
def _where(node: Node, of: Of) -> Interval | None:
    """Of each branch, what it can be where the condition chooses it."""
    if len(node.args) != 3:
        return None
    condition, *branches = node.args
    chosen = (_assuming(condition, truth, of) for truth in (True, False))
    parts = []
    for branch, refined in zip(branches, chosen, strict=True):
        interval = refined(branch)
        rule = _RULES.get(aten_name(branch)) if isinstance(branch, Node) else None
        if rule is not None and isinstance(branch, Node) and isinstance(condition, Node):
            closer = rule(branch, refined)  # one op deep: where(i < 0, i + n, i) is what it is for
            interval = closer if closer is not None and interval is not None and closer.within(interval) else interval
        parts.append(interval)
    return _hull(parts)


def _assuming(condition: Any, truth: bool, of: Of) -> Of:
    """What is known of values where a comparison with a number holds, or where it does not."""
    name = aten_name(condition) if isinstance(condition, Node) else ""
    if name not in _NEGATED or not isinstance(condition, Node) or not isinstance(condition.args[1], int):
        return of
    compared, number = condition.args[0], condition.args[1]
    name = name if truth else _NEGATED[name]
    limits = {"lt": (None, number - 1), "le": (None, number), "gt": (number + 1, None), "ge": (number, None)}

    def refined(value: Any) -> Interval | None:
        interval = of(value)
        if value is not compared or interval is None:
            return interval
        low, high = limits[name]
        closer = Interval(interval.low if low is None else max(interval.low, low),
                          interval.high if high is None else min(interval.high, high))  # fmt: skip
        return closer if closer.low <= closer.high else interval

    return refined


_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@_rule("masked_fill")
def _masked_fill(node: Node, of: Of) -> Interval | None:
    return _hull([of(node.args[0]), of(node.args[2])])


def _two(node: Node, of: Of) -> tuple[Interval, Interval] | None:
    a, b = of(node.args[0]), of(node.args[1])
    return None if a is None or b is None else (a, b)


def _scaled(node: Node, of: Of) -> tuple[Interval, Interval] | None:
    """The operands of add and sub, the second times ``alpha``."""
    both, alpha = _two(node, of), of(_argument(node, 2, "alpha", 1))
    return None if both is None or alpha is None else (both[0], _corners(both[1], alpha, operator.mul))


@_rule("add")
def _add(node: Node, of: Of) -> Interval | None:
    both = _scaled(node, of)
    return both and Interval(both[0].low + both[1].low, both[0].high + both[1].high)


@_rule("sub", "subtract")
def _sub(node: Node, of: Of) -> Interval | None:
    both = _scaled(node, of)
    return both and Interval(both[0].low - both[1].high, both[0].high - both[1].low)


@_rule("rsub")
def _rsub(node: Node, of: Of) -> Interval | None:
    a, b, alpha = of(node.args[0]), of(node.args[1]), of(_argument(node, 2, "alpha", 1))
    if a is None or b is None or alpha is None:
        return None
    a = _corners(a, alpha, operator.mul)
    return Interval(b.low - a.high, b.high - a.low)


@_rule("mul", "multiply")
def _mul(node: Node, of: Of) -> Interval | None:
    both = _two(node, of)
    return both and _corners(*both, operator.mul)


@_rule("neg", "negative")
def _neg(node: Node, of: Of) -> Interval | None:
    a = of(node.args[0])
    return a and Interval(-a.high, -a.low)


@_rule("bitwise_not")
def _bitwise_not(node: Node, of: Of) -> Interval | None:
    a = of(node.args[0])
    return a and Interval(-1 - a.high, -1 - a.low)


@_rule("abs", "absolute")
def _abs(node: Node, of: Of) -> Interval | None:
    a = of(node.args[0])
    return a and Interval(max(a.low, -a.high, 0), max(-a.low, a.high))


@_rule("square")
def _square(node: Node, of: Of) -> Interval | None:
    a = _abs(node, of)
    return a and Interval(a.low**2, a.high**2)


@_rule("sign", "sgn")
def _sign(node: Node, of: Of) -> Interval | None:
    a = of(node.args[0])
    return a and Interval((a.low > 0) - (a.low < 0), (a.high > 0) - (a.high < 0))


@_rule("relu")
def _relu(node: Node, of: Of) -> Interval | None:
    a = of(node.args[0])
    return a and Interval(max(a.low, 0), max(a.high, 0))


@_rule("maximum", "clamp_min")
def _maximum(node: Node, of: Of) -> Interval | None:
    both = _two(node, of)
    return both and Interval(max(both[0].low, both[1].low), max(both[0].high, both[1].high))


@_rule("minimum", "clamp_max")
def _minimum(node: Node, of: Of) -> Interval | None:
    both = _two(node, of)
    return both and Interval(min(both[0].low, both[1].low), min(both[0].high, both[1].high))


@_rule("clamp", "clip")
def _clamp(node: Node, of: Of) -> Interval | None:
    """``min(max(x, low), high)``."""
    a = of(node.args[0])
    for position, name, pick in ((1, "min", max), (2, "max", min)):
        bound = _argument(node, position, name)
        if bound is None or a is None:
            continue
        b = of(bound)
        a = None if b is None else Interval(pick(a.low, b.low), pick(a.high, b.high))
    return a


@_rule("floor_divide", "div", "divide")
def _divide(node: Node, of: Of) -> Interval | None:
    """Whole-number division only; a divisor that may be zero bounds nothing."""
    both = _two(node, of)
    mode = "floor" if "floor_divide" in op_name(node.target) else node.kwargs.get("rounding_mode")
    if both is None or mode is None or both[1].low <= 0 <= both[1].high:
        return None
    return _corners(
        *both, operator.floordiv if mode == "floor" else lambda x, y: -(-x // y) if (x < 0) != (y < 0) else x // y
    )


@_rule("remainder")
def _remainder(node: Node, of: Of) -> Interval | None:
    """The remainder has the sign of the divisor and is smaller than it."""
    both = _two(node, of)
    if both is None or both[1].low <= 0 <= both[1].high:
        return None
    a, b = both
    if b.low > 0:
        return (
            a if a.low >= 0 and a.high < b.low else Interval(0, min(b.high - 1, a.high) if a.low >= 0 else b.high - 1)
        )
    return Interval(b.low + 1, 0)


@_rule("fmod")
def _fmod(node: Node, of: Of) -> Interval | None:
    """The remainder has the sign of the dividend and is smaller than the divisor."""
    both = _two(node, of)
    if both is None or both[1].low <= 0 <= both[1].high:
        return None
    a, most = both[0], max(abs(both[1].low), abs(both[1].high)) - 1
    return Interval(max(-most, min(a.low, 0)), min(most, max(a.high, 0)))


@_rule("bitwise_and")
def _bitwise_and(node: Node, of: Of) -> Interval | None:
    both = _two(node, of)
    known = [i.high for i in both or () if i.low >= 0]
    return Interval(0, min(known)) if known else None


@_rule("bitwise_or", "bitwise_xor")
def _bitwise_or(node: Node, of: Of) -> Interval | None:
    """Of numbers that are not negative: no more bits than the longer one has."""
    both = _two(node, of)
    if both is None or min(both[0].low, both[1].low) < 0:
        return None
    return Interval(0, (1 << max(both[0].high, both[1].high).bit_length()) - 1)


@_rule("bitwise_left_shift", "__lshift__")
def _left_shift(node: Node, of: Of) -> Interval | None:
    both = _two(node, of)
    return _corners(*both, operator.lshift) if both is not None and both[1].low >= 0 and both[1].high < 64 else None


@_rule("bitwise_right_shift", "__rshift__")
def _right_shift(node: Node, of: Of) -> Interval | None:
    both = _two(node, of)
    return _corners(*both, operator.rshift) if both is not None and both[1].low >= 0 and both[1].high < 64 else None


@_rule("pow")
def _pow(node: Node, of: Of) -> Interval | None:
    a, exponent = of(node.args[0]), node.args[1]
    if a is None or not isinstance(exponent, int) or not 0 <= exponent <= 64:
        return None
    ends = [a.low**exponent, a.high**exponent]
    return Interval(0 if exponent % 2 == 0 and a.low < 0 < a.high else min(ends), max(ends))


@_rule("sum", "cumsum")
def _sum(node: Node, of: Of) -> Interval | None:
    """Up to so many elements: at least none of them and at most all, each at its extreme."""
    a = of(node.args[0])
    count = _size(node.args[0], _argument(node, 1, "dim"))
    if a is None or count is None:
        return None
    if "cumsum" in op_name(node.target):
        return Interval(min(a.low, a.low * count), max(a.high, a.high * count))
    sizes = [s for s in node.args[0].meta["val"].shape if not isinstance(s, int)]  # type: ignore[union-attr]
    fewest = 0 if sizes else count  # a symbolic dimension may be shorter
    return Interval(min(a.low * count, a.low * fewest), max(a.high * count, a.high * fewest))


@_rule("scatter", "scatter_src", "index_copy", "slice_scatter", "select_scatter", "index_put", "masked_scatter")
def _scattered(node: Node, of: Of) -> Interval | None:
    """Elements of the base or of what is written, unless they are added up."""
    name = op_name(node.target)
    if "index_put" in name and _argument(node, 3, "accumulate", False):
        return None
    source = node.args[1 if "slice_scatter" in name or "select_scatter" in name else -1]
    if name.startswith(("aten.index_put.", "aten.masked_scatter.")):
        source = node.args[2]
    elif not name.startswith(("aten.slice_scatter", "aten.select_scatter")):
        source = node.args[3]
    return _hull([of(node.args[0]), of(source)])
