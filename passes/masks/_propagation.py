"""Working out anew what follows a changed node, under the program's own fake tensor mode."""

import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import (
    compute_unbacked_bindings,
    free_unbacked_symbols,
    rebind_unbacked,
    statically_known_true,
)
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from lowerfix.errors import LowerfixError
from lowerfix.program import Program, inherit_metadata, origin
from lowerfix.rewriting import record
from lowerfix.source import describe, op_name

aten = torch.ops.aten

ASSERTIONS = (
    "aten._assert_scalar.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
    "aten._assert_async.msg",
    "_check",
)


def is_assertion(node: Node) -> bool:
    """Whether a node only checks something about sizes or numbers."""
    return node.op == "call_function" and op_name(node.target) in ASSERTIONS


def propagate(nodes: Iterable[Node], program: Program) -> None:
    """Work out the values of nodes anew, in the order given; sizes that have become numbers are put in place.

    An assertion that holds by construction now goes; others stay.

    Raises:
        LowerfixError: where an assertion of the program does not hold any more, or an op cannot take what it gets.
    """
    for node in nodes:
        if node.op == "call_function":
            renew(node, program)


def renew(node: Node, program: Program) -> None:
    """Work out one node anew: its value, or whether what it asserts holds."""
    if is_assertion(node):
        _check_assertion(node, program)
        return
    value = evaluated(node, program)
    if isinstance(value, (bool, int, float)):
        node.replace_all_uses_with(value)  # type: ignore[arg-type]
        program.graph.erase_node(node)
        return
    node.meta["val"] = value


def _check_assertion(node: Node, program: Program) -> None:
    asserted = node.args[0]
    if isinstance(asserted, Node):
        value = asserted.meta.get("val")
        if isinstance(value, torch.SymInt) and not free_unbacked_symbols(value):
            program.graph.erase_node(node)  # a range of what is a size of the input now: export checks those
            return
        if not isinstance(value, torch.SymBool):
            return
        if statically_known_true(value):
            asserted = True
        elif statically_known_true(torch.sym_not(value)):
            asserted = False
        else:
            return
    elif not isinstance(asserted, bool):
        low, high = node.kwargs.get("min"), node.kwargs.get("max")
        asserted = (low is None or low <= asserted) and (high is None or asserted <= high)  # type: ignore[operator]
    if not asserted:
        text = node.args[-1] if isinstance(node.args[-1], str) else f"{node.args} {node.kwargs}"
        raise LowerfixError(f"{describe(node)}: the promise contradicts an assertion of the program: {text!r}")
    program.graph.erase_node(node)


def evaluated(node: Node, program: Program) -> Any:
    """What a node returns, on the fake values of its arguments.

    Raises:
        LowerfixError: where it cannot take them.
    """
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        raise LowerfixError(f"{describe(node)}: a control-flow op follows, whose body is not worked out anew")
    args, kwargs = map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
    call: Callable[..., Any] = node.target  # type: ignore[assignment]
    if not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs))) and not _makes_tensor(node):
        return call(*args, **kwargs)
    mode = program.fake_mode
    with mode, torch.no_grad():
        try:
            value = call(*args, **kwargs)
        except Exception as error:
            if node.target is not aten.view.default:
                raise LowerfixError(f"{describe(node)}: it does not fit what comes before it now: {error}") from error
            node.target = aten.reshape.default  # the view was of strides that are others now
            return evaluated(node, program)
    if mode.shape_env is not None and "unbacked_bindings" in node.meta:
        rebind_unbacked(mode.shape_env, node, value)
        bindings = compute_unbacked_bindings(mode.shape_env, value, node.meta.get("val"))
        node.meta.pop("unbacked_bindings")
        if bindings:
            node.meta["unbacked_bindings"] = bindings
    return value


def _makes_tensor(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and any(
        str(result.type) == "Tensor" for result in node.target._schema.returns
    )


def insert(
    program: Program, before: Node, like: Node, pass_id: str, function: Callable[..., Any], *sources: Any
) -> Node:
    """Put what a function does to some nodes into the program; the node of its result.

    Args:
        program: the program.
        before: where to put it.
        like: the node whose origin the new ones get.
        pass_id: the pass that makes them.
        function: takes tensors, returns one.
        sources: nodes of the program, and constants.
    """
    nodes = [source for source in sources if isinstance(source, Node)]
    mode = program.fake_mode

    def run(*values: Any) -> Any:
        given = iter(values)
        return function(*(next(given) if isinstance(source, Node) else source for source in sources))

    module = record(run, [node.meta["val"] for node in nodes], mode, like, getattr(function, "__name__", "function"))
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    mapping: dict[Node, Node] = dict(zip(placeholders, nodes, strict=True))
    source = origin(like, pass_id)
    with program.graph.inserting_before(before):
        for traced in module.graph.nodes:
            if traced.op == "get_attr":
                tensor = getattr(module, str(traced.target))
                mapping[traced] = program.add_tensor(tensor, f"{like.name}_constant", like=like, pass_id=pass_id)
            elif traced.op == "call_function":
                new = program.graph.node_copy(traced, lambda old: mapping[old])
                new.meta = {"val": traced.meta["val"]}
                inherit_metadata(new, like, pass_id, source)
                mapping[traced] = new
    result: Any = module.graph.output_node().args[0]
    return mapping[result]


def number(value: Any, program: Program, before: Node, like: Node, pass_id: str) -> Any:
    """A number times sizes of tensors, ``(3, ((x, 0),))``, as a literal or as nodes before another."""
    factor, sizes = value
    result: Any = factor
    for node, dim in sizes:
        with program.graph.inserting_before(before):
            size = program.graph.call_function(aten.sym_size.int, (node, dim))
            size.meta["val"] = node.meta["val"].shape[dim]
            inherit_metadata(size, like, pass_id, origin(like, pass_id))
            if result == 1 and not isinstance(result, Node):
                result = size
                continue
            product = program.graph.call_function(operator.mul, (size, result))
            product.meta["val"] = size.meta["val"] * (result.meta["val"] if isinstance(result, Node) else result)
            inherit_metadata(product, like, pass_id, origin(like, pass_id))
            result = product
    return result
