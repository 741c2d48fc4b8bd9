"""Row selection by a mask, dropped where the user promises that it keeps every row.

**What it rewrites.** ``x[mask]`` with a Boolean mask becomes ``x`` where ``promises={site: "all-true"}`` says so. Sizes
that came from counting the mask become numbers, and all that depends on them is worked out anew.

**The identity.** A mask that is true everywhere selects every element, in order. Only the user can know that it is, so
this is done for a site that is named, and for no other. With a mask that does drop rows the result is wrong, and
nothing on the device can notice: ExecuTorch strips assertions.

A site is the name of a node, ``file.py:line``, or a piece of that line's text, and has to fit exactly one mask.

**Why the backend needs it.** The number of rows depends on data; no backend takes a tensor of such a size, so nothing
behind the mask is lowered, and Arm's lowering dies on it.

**What it leaves alone.** Every mask that nobody made a promise about: the finding says which line it is and how many
ops it keeps from being lowered. A promise that an assertion of the program contradicts is an error.
"""

import linecache
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, ClassVar

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from lowerfix.base import Context, Pass
from lowerfix.errors import LowerfixError
from lowerfix.program import Program, Stage, inherit_metadata, origin
from lowerfix.report import Outcome
from lowerfix.source import describe, op_name, source_line

aten = torch.ops.aten

ALL_TRUE = "all-true"
ASSERTIONS = ("aten._assert_scalar.default", "aten.sym_constrain_range.default", "aten._assert_async.msg",
              "aten.sym_constrain_range_for_size.default")  # fmt: skip


@dataclass
class PromisedMasks(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "promised-masks"
    after: ClassVar[tuple[str, ...]] = ("strip-guards",)
    cleans_up: ClassVar[bool] = True
    retire_when: ClassVar[str] = "never: only the user can know that a mask keeps every row"

    promises: Mapping[str, Any] = field(default_factory=dict)

    def run(self, program: Program, context: Context) -> bool:
        sites = [node for node in program.graph.nodes if _mask(node) is not None]
        kept: dict[str, str] = dict(program.graph_module.meta.get("lowerfix_promises", {}))
        chosen: dict[Node, str] = {}
        for site, promise in self.promises.items():
            if site in kept:
                continue
            if promise != ALL_TRUE:
                raise LowerfixError(f"the promise for {site!r} has to be {ALL_TRUE!r}, got {promise!r}")
            if not sites and program.stage is Stage.QUANTIZED:
                continue  # kept before the program was quantized
            chosen[_find(site, sites)] = site
        for node, site in chosen.items():
            reason = f"promised by the user ({site!r}): the mask keeps every row; with one that does not this is wrong"
            context.find(self.id, node, Outcome.REWRITTEN, reason)
            _keep_all(node, program, self.id)
            kept[site] = ALL_TRUE
        program.graph_module.meta["lowerfix_promises"] = kept
        if chosen:
            program.remove_dead()
            program.accept_outputs()
        for node in sites:
            if node not in chosen:
                context.find(self.id, node, Outcome.DECLINED, _advice(node))
        return bool(chosen)


def _mask(node: Node) -> int | None:
    """The dimension that a node selects along with a single Boolean mask; None for other nodes."""
    if node.target is not aten.index.Tensor:
        return None
    given = [(dim, index) for dim, index in enumerate(node.args[1]) if index is not None]  # type: ignore[arg-type]
    masks = [dim for dim, index in given if getattr(index.meta.get("val"), "dtype", None) is torch.bool]
    return masks[0] if len(masks) == len(given) == 1 else None


def _find(site: str, sites: list[Node]) -> Node:
    """The one mask that a site names.

    Raises:
        LowerfixError: where it names none or several; lists the masks that there are.
    """
    found = [node for node in sites if site == node.name] or [node for node in sites if site in _names(node)]
    if len(found) == 1:
        return found[0]
    known = "; ".join(f"{node.name} at {source_line(node)}: {_text(node)}" for node in (found or sites))
    what = f"fits {len(found)} masks" if found else "fits no mask"
    raise LowerfixError(f"the promise for {site!r} {what}. Name one of these: {known or 'the program has none'}")


def _names(node: Node) -> str:
    """What a site may be a piece of: the place, with its folder and without, and the text of the line."""
    file, _, line = source_line(node).rpartition(":")
    return "\n".join([f"{PurePath(file).name}:{line}", f"{file}:{line}", _text(node)])


def _text(node: Node) -> str:
    file, _, line = source_line(node).rpartition(":")
    return linecache.getline(file, int(line)).strip() if line.isdigit() else ""


def _advice(node: Node) -> str:
    blocked = sum(1 for later in _depending(node) if later.op == "call_function")
    return (
        f"the size of its result depends on data, which keeps {blocked} op{'s' * (blocked != 1)} behind it from being "
        f'lowered; if the mask is true for every row, promise it: apply(..., promises={{"{node.name}": "{ALL_TRUE}"}})'
    )


def _depending(node: Node) -> set[Node]:
    """All that reads a node, directly or not."""
    seen: set[Node] = set()
    pending = [node]
    while pending:
        for user in pending.pop().users:
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return seen


def _keep_all(node: Node, program: Program, pass_id: str) -> None:
    """Replace a selection by what it selects from, and work out anew what follows."""
    dim = _mask(node)
    source, indices = node.args[0], node.args[1]
    assert dim is not None
    assert isinstance(source, Node)
    rank = indices[dim].meta["val"].dim()  # type: ignore[index, union-attr]
    shape = list(source.meta["val"].shape)
    if rank == 1 and source.op != "placeholder" and not program.has_in_place_ops:
        new = source
    else:
        with program.graph.inserting_before(node):
            if rank == 1:
                new = program.graph.call_function(aten.clone.default, (source,))
            else:
                count = torch.Size(shape[dim : dim + rank]).numel()
                new = program.graph.call_function(
                    aten.reshape.default, (source, [*shape[:dim], count, *shape[dim + rank :]])
                )
        inherit_metadata(new, node, pass_id, origin(node, pass_id))
        new.meta["val"] = _value(new, program)
    users = _depending(node)
    program.replace(node, new)
    _propagate([later for later in program.graph.nodes if later in users], program)


def _propagate(nodes: list[Node], program: Program) -> None:
    """Work out the values of nodes anew, in the order of the graph; sizes that have become numbers are put in place.

    Raises:
        LowerfixError: where an assertion of the program does not hold any more.
    """
    for node in nodes:
        if node.op != "call_function":
            continue
        if op_name(node.target) in ASSERTIONS or node.target is torch._check:
            _check_assertion(node, program)
            continue
        value = _value(node, program)
        if isinstance(value, (bool, int, float)):
            node.replace_all_uses_with(value)  # type: ignore[arg-type]
            program.graph.erase_node(node)
            continue
        node.meta["val"] = value
        node.meta.pop("unbacked_bindings", None)


def _check_assertion(node: Node, program: Program) -> None:
    asserted = node.args[0]
    if isinstance(asserted, Node):
        return  # about something else that is not known yet
    holds = asserted if node.target is not aten.sym_constrain_range.default else True
    if isinstance(holds, bool) and not holds:
        raise LowerfixError(
            f"{describe(node)}: the promise contradicts an assertion of the program: {node.args[-1]!r} does not hold"
        )
    program.graph.erase_node(node)


def _value(node: Node, program: Program) -> Any:
    """What a node returns, on the fake values of its arguments."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
    fakes = any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs)))
    if not fakes:
        return node.target(*args, **kwargs)  # type: ignore[operator]
    mode = program.fake_mode
    try:
        with mode, torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator]
    except Exception as error:
        raise LowerfixError(f"{describe(node)}: the promise does not fit what follows: {error}") from error
