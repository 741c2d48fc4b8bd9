"""All rows kept where a mask would drop some, up to where what it dropped can be told apart again.

Between ``x[mask]`` and there each op has to treat each row by itself; see ``_rows``.
"""

import operator
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch import Tensor
from torch.fx import Node

from lowerfix.errors import Decline
from lowerfix.passes.masks._propagation import insert, is_assertion, renew
from lowerfix.passes.masks._rows import BY_SIZE, FACTORIES, VIEWS, keeps_dims, rank, reduced, rows_after
from lowerfix.passes.masks._sites import PLACES, Site, mask_of
from lowerfix.program import Program, fake_tensors
from lowerfix.source import aten_name, op_name

aten = torch.ops.aten

SUMS = ("sum", "mean", "any", "count_nonzero", "linalg_vector_norm")
NEUTRAL = (*SUMS, "prod", "all", "amax", "amin", "max", "min", "logsumexp")


@dataclass(frozen=True)
class End:
    """How an op brings rows together.

    Attributes:
        kind: ``put`` them where the mask is true, ``add`` them there, or ``reduce`` them.
        dim: the first dimension of the mask in the result, or that of the rows.
        number: for ``add``, the coordinate of the mask that says where.
        rows: for ``put``, the dimension of the values that holds rows; None where they are the same for all.
    """

    kind: str
    dim: int
    number: int = 0
    rows: int | None = None


@dataclass
class Plan:
    """What becomes of the ops behind a mask.

    Attributes:
        sites: the ops that select by the mask, or say where it is true.
        mask: the mask.
        rows: the ops that treat each row by itself, with the dimension that holds the rows.
        sizes: the numbers that are computed from the number of rows.
        views: the ops that index by the places, with the first dimension and the coordinates that they index by.
        ends: the ops behind which there are no rows any more, with what they do.
        outputs: the rows that are outputs of the program.
    """

    sites: list[Site]
    mask: Node
    rows: dict[Node, int] = field(default_factory=dict)
    sizes: set[Node] = field(default_factory=set)
    views: dict[Node, tuple[int, list[int]]] = field(default_factory=dict)
    ends: dict[Node, "End"] = field(default_factory=dict)
    outputs: list[Node] = field(default_factory=list)


def planned(program: Program, sites: list[Site], outputs: bool = False) -> Plan:
    """Follow the rows that a mask selects.

    Args:
        program: the program.
        sites: the ops that hang on one mask.
        outputs: whether rows may be an output of the program.

    Raises:
        Decline: where something mixes them, or computes with their number.
    """
    mask = sites[0].mask
    if mask is None:
        raise Decline("it is not a mask that decides about its size")
    plan = Plan(sites, mask)
    symbols: set[Any] = set()
    nodes = {site.node for site in sites}
    for site in sites:
        symbols.add(_symbol(site))
    for node in program.graph.nodes:
        if node in nodes:
            if any(source in plan.rows for source in node.all_input_nodes):
                raise Decline(f"{op_name(node.target)} selects from rows that were selected already")
            indexed = mask_of(node)
            plan.rows[node] = indexed[0] if indexed else 0
            continue
        read = [source for source in node.all_input_nodes if source in plan.rows or source in plan.sizes]
        if not read:
            continue
        if is_assertion(node):
            _check_assertion(node, symbols, plan)
        elif node.op == "output":
            if any(source in plan.sizes for source in read):
                raise Decline("the number of rows is an output of the program")
            if not outputs:
                raise Decline("its rows are an output of the program")
            plan.outputs = read
        elif isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool, torch.SymFloat)):
            if isinstance(node.target, torch._ops.OpOverload) and node.target is not aten.sym_size.int:
                raise Decline(f"{op_name(node.target)} makes a number of the rows")
            plan.sizes.add(node)
        else:
            end = _end(node, plan)
            if end is not None:
                plan.ends[node] = end
                continue
            view = _view_of_places(node, plan)
            if view is not None:
                plan.views[node] = view
            _follow(node, plan, symbols)
    return plan


def _symbol(site: Site) -> Any:
    indexed = mask_of(site.node)
    value = site.node.meta["val"]
    value = value[0] if isinstance(value, (tuple, list)) else value
    size = value.shape[indexed[0] if indexed else 0]
    expression = size.node.expr if isinstance(size, torch.SymInt) else size
    if not isinstance(expression, sympy.Symbol):
        raise Decline(f"the program requires that there are {expression} rows")
    return expression


def _check_assertion(node: Node, symbols: set[Any], plan: Plan) -> None:
    """What the program asserts of the number of rows has to hold when none is dropped."""
    asserted: Any = node.args[0]
    value = asserted.meta.get("val") if isinstance(asserted, Node) else None
    if isinstance(value, torch.SymBool):
        expression = value.node.expr.subs(dict.fromkeys(symbols, _count(plan.mask)))
        if expression == sympy.false:
            raise Decline(f"the program asserts {value.node.expr}, which limits the number of rows")


def _count(mask: Node) -> Any:
    count: Any = 1
    for size in mask.meta["val"].shape:
        count = count * (size.node.expr if isinstance(size, torch.SymInt) else size)
    return count


def _follow(node: Node, plan: Plan, symbols: set[Any]) -> None:
    if any(source in plan.sizes for source in node.all_input_nodes):
        name = aten_name(node)
        filled = name in ("full", "new_full") and node.args[-1] in plan.sizes
        if filled or name not in (*VIEWS, *FACTORIES, "expand"):
            raise Decline(f"{op_name(node.target)} computes with the number of rows")
    place = rows_after(node, plan.rows)
    for value in fake_tensors(node):
        found = [dim for dim, size in enumerate(value.shape) if _has(size, symbols)]
        if place == BY_SIZE and len(found) == 1:
            place = found[0]
        size: Any = value.shape[place]
        if found != [place] or size.node.expr not in symbols:
            raise Decline(f"{op_name(node.target)} merges rows, or repeats them")
    if place == BY_SIZE:
        raise Decline(f"{op_name(node.target)} computes with the number of rows")
    plan.rows[node] = place


def _has(size: Any, symbols: set[Any]) -> bool:
    return isinstance(size, torch.SymInt) and bool(size.node.expr.free_symbols & symbols)


# Where rows end ------------------------------------------------------------------------------------------------------


def coordinate(node: Node) -> int | None:
    """Which coordinate of the places where a mask is true a node holds."""
    while aten_name(node) in ("clone", "alias", "contiguous", "detach", "to", "_to_copy"):
        node = node.args[0]  # type: ignore[assignment]
    source: Any = node.args[0] if node.args else None
    if not isinstance(source, Node):
        return None
    if node.target is operator.getitem:
        position: Any = node.args[1]
        if source.target in PLACES:
            return int(position)
        unbound: Any = source.args[0] if aten_name(source) == "unbind" else None
        listed = unbound is not None and unbound.target in PLACES and source.args[1:] in ((1,), (-1,))
        return int(position) if listed else None
    if source.target not in PLACES or isinstance(source.meta["val"], (tuple, list)):
        return None
    if node.target is aten.select.int and node.args[1] in (1, -1):
        index: Any = node.args[2]
        return int(index) % int(source.meta["val"].shape[1])
    if node.target is aten.squeeze.dim and node.args[1] in (1, -1) and source.meta["val"].shape[1] == 1:
        return 0
    return None


def _by_places(node: Node, plan: Plan) -> tuple[int, list[int]] | None:
    """The first dimension that an op indexes by coordinates of the mask, and which these are."""
    if node.target is aten.index_select.default:
        given: list[tuple[Any, Any]] = [(node.args[1] % rank(node.args[0]), node.args[2])]  # type: ignore[operator, arg-type]
    elif node.target in (aten.index.Tensor, aten.index_put.default):
        given = [(dim, index) for dim, index in enumerate(node.args[1]) if index is not None]  # type: ignore[arg-type]
    else:
        return None
    start, shape = given[0][0], plan.mask.meta["val"].shape
    if any(index not in plan.rows or rank(index) != 1 for _, index in given):
        return None
    numbers = [coordinate(index) for _, index in given]
    if None in numbers or len(set(numbers)) < len(numbers):
        return None
    if [dim for dim, _ in given] != list(range(start, start + len(given))):
        return None
    sizes = node.args[0].meta["val"].shape  # type: ignore[union-attr]
    if any(sizes[start + n] != shape[number] for n, number in enumerate(numbers)):
        return None
    return start, numbers  # type: ignore[return-value]


def _view_of_places(node: Node, plan: Plan) -> tuple[int, list[int]] | None:
    indexes = node.target in (aten.index.Tensor, aten.index_select.default)
    return _by_places(node, plan) if indexes and node.args[0] not in plan.rows else None


def _end(node: Node, plan: Plan) -> End | None:
    name = aten_name(node)
    source: Any = node.args[0] if node.args else None
    if node.target is aten.index_put.default:
        return _put_end(node, plan)
    if node.target is aten.index_add.default:
        return _add_end(node, plan)
    if name in NEUTRAL and source in plan.rows and not isinstance(node.meta["val"], (tuple, list)):
        dims = reduced(node)
        order: Any = node.args[1] if name == "linalg_vector_norm" and len(node.args) > 1 else 2
        if dims is not None and plan.rows[source] in dims and order > 0:
            return End("reduce", plan.rows[source])
    return None


def _put_end(node: Node, plan: Plan) -> End | None:
    source, value = node.args[0], node.args[2]
    if source in plan.rows:
        return None
    indexed = mask_of(node)
    if indexed is not None:
        start = indexed[0] if indexed[1] is plan.mask else None
    else:
        places = _by_places(node, plan)
        whole = places is not None and places[1] == list(range(rank(plan.mask)))
        start = places[0] if places is not None and whole else None
    if start is None:
        return None
    after = rank(source) - start - rank(plan.mask)  # type: ignore[arg-type]
    at = plan.rows.get(value)  # type: ignore[arg-type]
    width = rank(value)  # type: ignore[arg-type]
    fits = width <= after if at is None else width - at - 1 == after
    return End("put", start, rows=at) if fits else None


def _add_end(node: Node, plan: Plan) -> End | None:
    source, dim, index, value = node.args[:4]
    if source in plan.rows or index not in plan.rows or value not in plan.rows or rank(index) != 1:  # type: ignore[arg-type]
        return None
    number = coordinate(index)  # type: ignore[arg-type]
    dim = dim % rank(source)  # type: ignore[operator, arg-type]
    if number is None or plan.rows[value] != dim:  # type: ignore[index]
        return None
    size = source.meta["val"].shape[dim]  # type: ignore[union-attr]
    return End("add", dim, number) if size == plan.mask.meta["val"].shape[number] else None


# Carrying it out -----------------------------------------------------------------------------------------------------


def carry_out(plan: Plan, program: Program, pass_id: str) -> None:
    """Keep all rows, and drop at the ends what the mask does not select."""
    selections = {site.node: site for site in plan.sites}
    for node in list(program.graph.nodes):
        if node in selections:
            keep_all(selections[node], program, pass_id, fill=True)
        elif node in plan.ends:
            _finish(node, plan, program, pass_id)
        elif node in plan.views:
            start, numbers = plan.views[node]
            new = insert(
                program, node, node, pass_id, at_places, node.args[0], plan.mask.meta["val"].shape, start, numbers
            )
            program.replace(node, new)
        elif node in plan.sizes or node in plan.rows:
            if not node._erased:
                renew(node, program)
        elif is_assertion(node) and (
            isinstance(node.args[0], (bool, int)) or any(source in plan.sizes for source in node.all_input_nodes)
        ):
            renew(node, program)


def keep_all(site: Site, program: Program, pass_id: str, fill: bool = False, guard: bool = False) -> None:
    """Replace a selection by all that it selects from, and places where a mask is true by all places.

    Args:
        site: the op.
        program: the program.
        pass_id: the pass that does it.
        fill: rows that the mask does not select become zero where they are integers, as an index has to be in range.
        guard: such rows become NaN where they are floats.
    """
    node, mask = site.node, site.mask
    assert mask is not None
    if site.kind == "places":
        _all_places(node, mask, program, pass_id)
        return
    source: Any = node.args[0]
    value = source.meta["val"]
    filled: float | int | None = None
    if guard and value.is_floating_point():
        filled = float("nan")
    elif fill and not value.is_floating_point() and value.dtype is not torch.bool:
        filled = 0
    indexed = mask_of(node)
    if indexed is None:  # masked_select
        program.replace(node, insert(program, node, node, pass_id, _all_pairs, source, mask, filled))
        return
    needs_copy = source.op == "placeholder" and any(user.op == "output" for user in node.users)
    if rank(mask) == 1 and filled is None and not needs_copy:
        program.replace(node, source)
        return
    program.replace(node, insert(program, node, node, pass_id, _all_rows, source, mask, indexed[0], filled))


def _all_rows(x: Tensor, mask: Tensor, dim: int, filled: float | int | None) -> Tensor:
    if filled is not None:
        wide = mask.reshape(list(mask.shape) + [1] * (x.dim() - dim - mask.dim()))
        x = torch.where(wide, x, torch.full((), filled, dtype=x.dtype))
    if mask.dim() > 1:
        return x.flatten(dim, dim + mask.dim() - 1)
    return x.clone() if filled is None else x


def _all_pairs(x: Tensor, mask: Tensor, filled: float | int | None) -> Tensor:
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    if filled is not None:
        x = torch.where(mask, x, torch.full((), filled, dtype=x.dtype))
    return x.expand(shape).clone().reshape(-1)


def _all_places(node: Node, mask: Node, program: Program, pass_id: str) -> None:
    if not isinstance(node.meta["val"], (tuple, list)):
        program.replace(node, insert(program, node, node, pass_id, _table, mask))
        return
    for user in list(node.users):
        program.replace(user, insert(program, node, node, pass_id, _places, mask, user.args[1]))
    program.graph.erase_node(node)


def _places(mask: Tensor, number: int) -> Tensor:
    """One coordinate of every place of a mask, in order."""
    shape = [1] * mask.dim()
    shape[number] = -1
    return torch.arange(mask.shape[number]).reshape(shape).expand(mask.shape).clone().reshape(-1)


def _table(mask: Tensor) -> Tensor:
    return torch.stack([_places(mask, number) for number in range(mask.dim())], 1)


def at_places(x: Tensor, shape: tuple[int, ...], start: int, numbers: list[int]) -> Tensor:
    """``x[:, i, j]`` for all places ``i, j`` of a mask, as another view of ``x``."""
    ordered = sorted(range(len(numbers)), key=numbers.__getitem__)
    order = list(range(x.dim()))
    order[start : start + len(numbers)] = [start + n for n in ordered]
    if order != sorted(order):
        x = x.permute(order)
    for number in range(len(shape)):
        if number not in numbers:
            x = x.unsqueeze(start + number)
    full = [*x.shape[:start], *shape, *x.shape[start + len(shape) :]]
    if len(numbers) < len(shape):
        x = x.expand(full).clone()
    return x.flatten(start, start + len(shape) - 1) if len(shape) > 1 else x.clone()


def _finish(node: Node, plan: Plan, program: Program, pass_id: str) -> None:
    end = plan.ends[node]
    source: Any = node.args[0]
    if end.kind == "put":
        value: Any = node.args[2]
        more: Any = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)
        new = insert(program, node, node, pass_id, _put, source, plan.mask, value, end.dim, end.rows, bool(more))
    elif end.kind == "add":
        alpha: Any = node.kwargs.get("alpha", 1)
        new = insert(program, node, node, pass_id, _add, source, plan.mask, node.args[3], end.dim, end.number, alpha)
    else:
        name = aten_name(node)

        def reduce(rows: Tensor, mask: Tensor) -> Tensor:
            return _reduced(node, name, rows, mask, end.dim)

        new = insert(program, node, node, pass_id, reduce, source, plan.mask)
    program.replace(node, new)


def _put(x: Tensor, mask: Tensor, value: Tensor, dim: int, at: int | None, accumulate: bool) -> Tensor:
    wide = mask.reshape(list(mask.shape) + [1] * (x.dim() - dim - mask.dim()))
    if at is not None and mask.dim() > 1:
        value = value.unflatten(at, mask.shape)
    return torch.where(wide, x + value if accumulate else value, x)


def _add(x: Tensor, mask: Tensor, value: Tensor, dim: int, number: int, alpha: Any) -> Tensor:
    wide = mask.reshape(list(mask.shape) + [1] * (x.dim() - dim - 1))
    value = value if alpha == 1 else value * alpha
    if mask.dim() == 1:
        return torch.where(wide, x + value, x)
    value = value.unflatten(dim, mask.shape) if mask.dim() > 1 else value
    others = [n for n in range(mask.dim()) if n != number]
    added = torch.where(wide, value, torch.zeros((), dtype=value.dtype)).sum([dim + n for n in others], dtype=x.dtype)
    hit = mask
    for n in reversed(others):
        hit = hit.any(n)
    return torch.where(hit.reshape([-1] + [1] * (x.dim() - dim - 1)), x + added, x)


def _reduced(node: Node, name: str, rows: Tensor, mask: Tensor, at: int) -> Tensor:
    flat = mask.reshape([-1] + [1] * (rows.dim() - at - 1))
    kept = torch.where(flat, rows, torch.full((), _neutral(name, rows.dtype), dtype=rows.dtype))
    arguments: Any = node.args[1:]
    options: Any = node.kwargs
    if name != "mean":
        result: Tensor = node.target(kept, *arguments, **options)  # type: ignore[operator]
        return result
    dims = reduced(node)
    assert dims is not None
    dtype = node.meta["val"].dtype
    exact = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    count = torch.where(mask, torch.ones((), dtype=exact), torch.zeros((), dtype=exact)).sum()
    for dim in dims:
        if dim != at:
            count = count * rows.shape[dim]
    return (kept.sum(dims, keeps_dims(node), dtype=exact) / count).to(dtype)


def _neutral(name: str, dtype: torch.dtype) -> Any:
    """What changes nothing about a reduction."""
    if name in SUMS:
        return 0
    if name in ("prod", "all"):
        return 1
    low = name in ("amax", "max", "logsumexp")
    if dtype is torch.bool:
        return not low
    if dtype.is_floating_point:
        return float("-inf") if low else float("inf")
    info = torch.iinfo(dtype)
    return info.min if low else info.max
