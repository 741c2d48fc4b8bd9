"""Compute a part of a program in another floating-point type."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_map

from lowerfix.base import Context
from lowerfix.errors import Decline
from lowerfix.program import CASTS, Program, draws_random, fake_tensors, inherit_metadata, mutated_arguments, origin
from lowerfix.rewritepass import question
from lowerfix.rewriting import Match
from lowerfix.source import op_name

aten = torch.ops.aten

_ALL_CASTS = (*CASTS, "aten.type_as.default", "aten.to.other", "aten.to.dtype_layout", "aten.to.device")


def is_cast(node: Node) -> bool:
    """Whether a node only changes the dtype of its first argument, in any of the ways that PyTorch has for it."""
    return op_name(node.target) in _ALL_CASTS


def produces(node: Node, dtype: torch.dtype) -> bool:
    """Whether a node's value has a tensor of a dtype."""
    return any(value.dtype is dtype for value in fake_tensors(node))


def computes_alike(node: Node) -> bool:
    """Whether a node's op does the same in every floating-point type, but for rounding."""
    target = node.target
    if node.op != "call_function" or "val" not in node.meta:
        return False
    if op_name(target) == "getitem":
        return computes_alike(node.all_input_nodes[0])
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace == "aten"
        and target is not aten.view.dtype
        and not draws_random(node)
        and not mutated_arguments(node)
    )


def first_refusal(nodes: Iterable[Node], program: Program, context: Context) -> tuple[Node, str] | None:
    """The first of some nodes that the backend does not take, with its reason; None where it takes all."""
    questions = {}
    for node in nodes:
        try:
            questions[node] = question(Match.of(node, program), None, program, context)
        except Decline:
            continue
    answers = context.oracle.ask(questions.values())
    return next(((n, a.reason) for n, a in zip(questions, answers, strict=True) if not a.taken), None)


def retype(program: Program, nodes: set[Node], old: torch.dtype, new: torch.dtype, pass_id: str) -> None:
    """Let ``nodes`` compute in ``new`` what they compute in ``old``.

    What they read from elsewhere is cast, stored tensors once and for all; what is read of them elsewhere is cast back.
    """
    made: dict[Node, Node] = {}
    stored: dict[Any, Node] = {}
    name = str(new).rpartition(".")[2]
    for node in [node for node in program.graph.nodes if node in nodes]:
        for source in node.all_input_nodes:
            if source in nodes or not produces(source, old):
                continue
            if source not in made:
                made[source] = _stored(program, source, new, name, stored, pass_id) or cast(
                    program, source, new, node, pass_id
                )
            node.replace_input_with(source, made[source])
        node.args, node.kwargs = map_aggregate((node.args, node.kwargs), lambda a: new if a is old else a)
        elsewhere = [user for user in node.users if user not in nodes]
        makes_old = produces(node, old)
        node.meta["val"] = tree_map(lambda value: _retyped(value, old, new), node.meta["val"])
        node.meta["custom"] = {**node.meta.get("custom", {}), "lowerfix": pass_id}
        if makes_old and elsewhere:
            program.reroute(node, cast(program, node, old, node.next, pass_id), elsewhere)
        source = node.all_input_nodes[0] if node.all_input_nodes else node
        void = is_cast(node) and node.meta["val"].dtype is source.meta["val"].dtype
        if void and all(user.op != "output" for user in node.users):
            nodes.discard(node)
            program.replace(node, source)
    program.remove_dead()


def _retyped(value: Any, old: torch.dtype, new: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype is not old:
        return value
    with value.fake_mode:  # type: ignore[attr-defined]
        return torch.empty_strided(value.shape, value.stride(), dtype=new, device=value.device)


def cast(program: Program, source: Node, dtype: torch.dtype, before: Node, pass_id: str) -> Node:
    """A new node before another one, of a node's value in another dtype."""
    with program.graph.inserting_before(before):
        node = program.graph.call_function(aten.to.dtype, (source, dtype))
    with source.meta["val"].fake_mode:
        node.meta["val"] = source.meta["val"].to(dtype)
    inherit_metadata(node, source if source.op != "placeholder" else before, pass_id, origin(source, pass_id))
    return node


def _stored(
    program: Program, source: Node, dtype: torch.dtype, name: str, known: dict[Any, Node], pass_id: str
) -> Node | None:
    """A parameter, buffer or constant in another dtype; tied ones stay tied. None for what is computed."""
    tensor = program.tensor(source)
    if tensor is None:
        return None
    key = (tensor.data_ptr(), tensor.shape, tensor.stride())
    if key not in known:
        parameter = isinstance(tensor, torch.nn.Parameter)
        stored_name = f"{program.stored_name(source)}_{name}"
        known[key] = program.add_tensor(tensor.detach().to(dtype), stored_name, source, pass_id, parameter)
    return known[key]
