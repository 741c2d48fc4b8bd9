"""Sizes that depend on data, made constant where the user promises what they are.

**What it rewrites.** ``x[mask]``, ``masked_select`` and places where a mask is true, under
``apply(..., promises={site: ...})``:

- ``"all-true"``: the mask is true everywhere. ``x[mask]`` becomes ``x``; counts of the mask become numbers.
- a number: so many values of the mask are true, or ``n.item()``, as in ``x[: n.item()]``, is that number.
- ``"padded"``: nothing is promised of the mask. All rows become the output, and the mask a further one: whoever calls
  the program drops the rows that it does not select.

Sizes that came from counting become numbers, and all that depends on them is worked out anew.

**The identity.** A mask that is true everywhere selects every element, in order. One with so many true values selects
those rows whose running count is the next. Only the user can know this, so it is done for a site that is named, and for
no other. Where the promise is broken the result is wrong, and ExecuTorch strips assertions. ``guard="output"`` adds
what was promised to be true as a further output, ``guard="poison"`` makes rows of floats NaN for which it is not.
Padded rows change no other only where each op treats each row by itself; that is checked.

A site is the name of a node, ``file.py:line``, or a piece of that line's text, and has to fit exactly one mask or
number. What was promised is kept in ``graph_module.meta["custom"]["lowerfix_promises"]``.

**Why the backend needs it.** The number of rows depends on data; no backend takes a tensor of such a size, so nothing
behind the mask is lowered, and Arm's lowering dies on it.

**What it leaves alone.** Every size that nobody made a promise about: the finding says which line it is, how many ops
it keeps from being lowered, and how to promise it, where that can be done; the number of different values (``unique``)
has no constant form. A promise that an assertion of the program contradicts is an error; assertions about other things
stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Node

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline, LowerfixError
from lowerfix.passes.masks._padding import carry_out, keep_all, planned
from lowerfix.passes.masks._propagation import insert, is_assertion, number, renew
from lowerfix.passes.masks._sites import MARK, NUMBERS, Site, depending, mask_of, named, sites
from lowerfix.passes.masks._uniform import Number, follow, root
from lowerfix.program import Program, Stage
from lowerfix.report import Outcome
from lowerfix.targets import Target

aten = torch.ops.aten

ALL_TRUE = "all-true"
PADDED = "padded"
GUARDS = ("output", "poison")
KEPT = "lowerfix_promises"
EXACT = 1 << 24


@dataclass
class PromisedMasks(Pass):
    """See the module's docstring.

    Attributes:
        promises: what is promised, by site.
        guard: how a broken promise shows on the device: ``"output"``, ``"poison"`` or not at all.
    """

    id: ClassVar[str] = "promised-masks"
    after: ClassVar[tuple[str, ...]] = ("strip-guards",)
    cleans_up: ClassVar[bool] = True
    retire_when: ClassVar[str] = "never: only the user can know that a mask keeps every row"

    promises: Mapping[str, Any] = field(default_factory=dict)
    guard: str | None = None

    def wants_functional(self, in_place: Sequence[Node], target: Target) -> Sequence[Node]:
        marked = any(MARK in node.meta.get("custom", {}) for node in in_place[0].graph.nodes)
        return in_place if marked else ()

    def run(self, program: Program, context: Context) -> bool:
        if self.guard not in (None, *GUARDS):
            raise LowerfixError(f"guard has to be one of {', '.join(map(repr, GUARDS))}, got {self.guard!r}")
        custom = program.graph_module.meta.get("custom", {})
        kept: dict[str, Any] = dict(custom.get(KEPT, {}))
        changed = False
        for site, promise in self.promises.items():
            if site in kept:
                continue
            if not (promise in (ALL_TRUE, PADDED) or (type(promise) is int and promise >= 0)):
                raise LowerfixError(
                    f"the promise for {site!r} has to be {ALL_TRUE!r}, {PADDED!r} or a number of rows, got {promise!r}"
                )
            if program.stage is Stage.QUANTIZED and not sites(program):
                continue  # kept before the program was quantized
            found = named(site, sites(program))
            if program.has_in_place_ops:
                _mark(site, found, program)
                continue
            if found[0].kind == "values":
                raise LowerfixError(f"the promise for {site!r} cannot be kept: {_no_form(found[0])}")
            self._keep(site, promise, found, program, context)
            kept[site] = promise
            changed = True
        if changed:
            program.graph_module.meta["custom"] = {**custom, KEPT: kept}
            program.remove_dead()
            program.accept_outputs()
        for one in sites(program):
            context.find(self.id, one.node, Outcome.DECLINED, _advice(one))
        return changed

    def _keep(self, name: str, promise: Any, found: list[Site], program: Program, context: Context) -> None:
        first = found[0]
        group = [one for one in sites(program) if one.decides is first.decides]
        if first.mask is None and not isinstance(promise, int):
            raise LowerfixError(f"the promise for {name!r} has to be a number: {first.node.name} is no mask")
        if first.mask is None and self.guard == "poison":
            raise LowerfixError(f'guard="poison" marks rows, and {name!r} is a number: take guard="output"')
        try:
            guard: Node | None
            if promise == PADDED:
                guard = _pad(group, program, self.id)
            elif promise == ALL_TRUE:
                guard = first.mask
                for one in group:
                    context.find(self.id, one.node, Outcome.REWRITTEN, _promised(name, "the mask keeps every row"))
                self._all_true(group, program)
            else:
                guard = self._count(group, int(promise), program)
        except Decline as decline:
            raise LowerfixError(f"the promise for {name!r} cannot be kept: {decline.reason}") from decline
        if promise != ALL_TRUE:
            what = "all rows are kept, and the mask is an output" if promise == PADDED else f"there are {promise}"
            context.find(self.id, first.decides, Outcome.REWRITTEN, _promised(name, what))
        if promise == PADDED or self.guard == "output":
            assert guard is not None
            program.add_output(guard)

    def _all_true(self, group: list[Site], program: Program) -> None:
        """Replace selections by what they select from, and the mask, elsewhere, by what is true everywhere."""
        mask = group[0].mask
        assert mask is not None
        known: dict[Node, Number] = {root(mask): (True, ())}
        selections = {one.node: one for one in sites(program) if one.mask is not None}
        changed: set[Node] = set()
        for node in list(program.graph.nodes):
            if node._erased or node.op != "call_function":
                continue
            one = selections.get(node)
            if one is not None and known.get(one.mask) == (True, ()):  # type: ignore[arg-type]
                changed |= depending([node])
                keep_all(one, program, self.id, guard=self.guard == "poison")
                continue
            value = None if node in changed else follow(node, known)
            if value is not None:
                if node.target in NUMBERS:
                    changed |= depending([node])
                    node.replace_all_uses_with(number(value, program, node, node, self.id))
                    program.graph.erase_node(node)
                else:
                    known[node] = value
                continue
            for source in node.all_input_nodes:
                if source in known:
                    node.replace_input_with(source, self._filled(source, known[source], node, program))
            if node in changed or _is_settled(node):
                renew(node, program)

    def _filled(self, source: Node, value: Number, before: Node, program: Program) -> Node:
        factor, sizes = value
        if sizes:
            return source  # a count of a symbolic size, which is computed

        def filled(x: Tensor) -> Tensor:
            return torch.full(x.shape, factor, dtype=x.dtype)

        return insert(program, before, source, self.id, filled, source)

    def _count(self, group: list[Site], count: int, program: Program) -> Node | None:
        """Replace a number by what it is, or select as many rows as the mask has true values."""
        first = group[0]
        guard: Node | None = None
        if first.mask is None:
            node = first.node
            later = depending([node])
            if self.guard == "output":
                guard = insert(program, node, node, self.id, _is, node.args[0], count)
            node.replace_all_uses_with(count)  # type: ignore[arg-type]
            program.graph.erase_node(node)
        else:
            mask = first.mask
            size = mask.meta["val"].shape.numel()
            if not isinstance(size, int):
                raise Decline("the mask has a symbolic size, and its rows cannot be counted")
            if count > size or size >= EXACT:
                raise Decline(
                    f"the mask has {size} values; there cannot be {count} rows"
                    if count > size
                    else f"a mask of {size} values is too long to be counted in float32"
                )
            if self.guard is not None:
                guard = insert(program, first.node, first.node, self.id, _is, mask, count)
            later = depending([one.node for one in group])
            for one in group:
                _select(one, count, guard if self.guard == "poison" else None, program, self.id)
        for node in list(program.graph.nodes):
            if not node._erased and node.op == "call_function" and (node in later or _is_settled(node)):
                renew(node, program)
        return guard


def _is_settled(node: Node) -> bool:
    return is_assertion(node) and isinstance(node.args[0], (bool, int))


def _promised(name: str, what: str) -> str:
    return f"promised by the user ({name!r}): {what}; where this does not hold the result is wrong"


def _mark(site: str, found: list[Site], program: Program) -> None:
    """Remember a site: it is kept when the program has been made functional, where names are others."""
    if not program.is_exported:
        raise LowerfixError(
            f"the promise for {site!r}: ops of the GraphModule work in place. "
            "Next step: apply lowerfix to the ExportedProgram, of which it makes the functional form"
        )
    for one in found:
        one.node.meta["custom"] = {**one.node.meta.get("custom", {}), MARK: site}


def _is(tensor: Tensor, count: int) -> Tensor:
    if tensor.dtype is torch.bool:
        return torch.where(tensor, torch.ones(()), torch.zeros(())).sum() == float(count)
    return tensor.reshape(()) == count


def _select(site: Site, count: int, guard: Node | None, program: Program, pass_id: str) -> None:
    node, mask = site.node, site.mask
    if site.kind == "places":
        if isinstance(node.meta["val"], (tuple, list)):
            for user in list(node.users):
                new = insert(program, node, node, pass_id, _counted_places, mask, count, user.args[1])
                program.replace(user, new)
            program.graph.erase_node(node)
        else:
            program.replace(node, insert(program, node, node, pass_id, _counted_places, mask, count, None))
        return
    indexed = mask_of(node)
    dim = indexed[0] if indexed is not None else None
    program.replace(node, insert(program, node, node, pass_id, _counted_rows, node.args[0], mask, count, dim, guard))


def _numbers(mask: Tensor, count: int) -> Tensor:
    """The place of each true value of a mask: how many places have a running count below its own."""
    flat = mask.reshape(-1)
    running = torch.cumsum(torch.where(flat, torch.ones(()), torch.zeros(())), 0)
    before = running.unsqueeze(0) < torch.arange(1, count + 1, dtype=torch.float32).unsqueeze(1)
    number = torch.where(before, torch.ones(()), torch.zeros(())).sum(1)
    return torch.clamp(number, 0.0, float(flat.shape[0] - 1)).to(torch.int32)


def _counted_rows(x: Tensor, mask: Tensor, count: int, dim: int | None, guard: Tensor | None) -> Tensor:
    if dim is None:
        shape = torch.broadcast_shapes(x.shape, mask.shape)
        x, mask, dim = x.expand(shape), mask.expand(shape), 0
    flat = x.flatten(dim, dim + mask.dim() - 1) if mask.dim() > 1 else x
    rows = torch.index_select(flat, dim, _numbers(mask, count))
    if guard is not None and rows.is_floating_point():
        rows = torch.where(guard, rows, torch.full((), float("nan"), dtype=rows.dtype))
    return rows


def _counted_places(mask: Tensor, count: int, number: int | None) -> Tensor:
    places = _numbers(mask, count).to(torch.int64)
    coordinates: list[Tensor] = []
    for size in reversed(mask.shape):
        coordinates.insert(0, places % size)
        places = places // size
    return torch.stack(coordinates, 1) if number is None else coordinates[number]


def _pad(group: list[Site], program: Program, pass_id: str) -> Node:
    plan = planned(program, group, outputs=True)
    node = group[0].node
    carry_out(plan, program, pass_id)

    def flat(mask: Tensor) -> Tensor:
        return mask.reshape(-1)

    output = program.graph.output_node()
    return plan.mask if plan.mask.meta["val"].dim() == 1 else insert(program, output, node, pass_id, flat, plan.mask)


def _no_form(site: Site) -> str:
    return f"how many {site.node.name} has depends on the values themselves, and there is no constant form of it"


def _advice(site: Site) -> str:
    node = site.node
    blocked = sum(1 for later in depending([node]) if later.op == "call_function" and not is_assertion(later))
    cost = (
        f"the size of its result depends on data, which keeps {blocked} op{'s' * (blocked != 1)} behind it from being "
        "lowered"
    )
    if site.kind == "values":
        return f"{cost}; {_no_form(site)}: compute it outside the program"
    if site.mask is None:
        return f'{cost}; if it is always the same number, promise it: apply(..., promises={{"{node.name}": 7}})'
    return (
        f'{cost}; if the mask is true for every row, promise it: apply(..., promises={{"{node.name}": "{ALL_TRUE}"}}); '
        f'"{PADDED}" keeps all rows and gives you the mask, and a number says how many are true'
    )
