"""Complex numbers as pairs of real ones, and Fourier transforms as matrix products.

**What it rewrites.** Every connected part of a program that computes with complex numbers and begins and ends with real
ones: ``view_as_complex(x) * freqs_cis`` and back (rotary embeddings), ``polar``, ``torch.complex``, ``fft``, ``rfft``,
``irfft``, ``hfft`` and theirs of two and more dimensions, ``stft`` and ``istft``, with what lies between: arithmetic,
``conj``, ``abs``, ``angle``, ``exp``, views, indexing, sums, matrix products, ``where``. Complex weights, buffers and
constants are stored as two tensors.

**The identity.** A complex tensor is its real and its imaginary part, and each op is computed by the formula of
PyTorch's CPU kernel: a product is ``(ac - bd) + (ad + bc)i``, a quotient is Smith's, an absolute value does not
overflow. Adding, multiplying and comparing give the same numbers with infinities and NaN as well.

A discrete Fourier transform of constant length is a product with a matrix of cosines and sines, computed in float64 and
stored in float32 (``scipy.linalg.dft``); long ones take two steps (Cooley and Tukey). ``stft`` is a convolution with
that matrix times the window. The results are within rounding for finite numbers. An infinity or a NaN spreads over the
whole transform here; PyTorch's own libraries leave some values untouched by it.

**Why the backend needs it.** No backend of ExecuTorch has complex numbers, and its runtime has no kernel for
``view_as_complex``, ``polar`` or ``stft``: such a program is lowered and then cannot be run.

**What it leaves alone.** All of a connected part, where one op in it is not served; complex inputs and outputs of the
program; ComplexHalf; transforms of a symbolic length, and of one that needs a matrix of more than 32 MiB.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline, LowerfixError
from lowerfix.passes.complex._fourier import Fourier
from lowerfix.passes.complex._ops import SERVED, On, power
from lowerfix.passes.complex._pair import Pair
from lowerfix.passes.complex._spectra import FOURIER, TRANSFORMS
from lowerfix.program import Program, fake_tensors, inherit_metadata, origin
from lowerfix.report import Outcome
from lowerfix.rewriting import describe_value, record
from lowerfix.source import describe, op_name

aten = torch.ops.aten


@dataclass
class ComplexToReal(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "complex-to-real"
    retire_when: ClassVar[str] = (
        "ExecuTorch lowers complex numbers by itself; in 1.5.1 neither its backends nor its runtime have them"
    )
    after: ClassVar[tuple[str, ...]] = ("strip-guards", "fold-constants")

    def run(self, program: Program, context: Context) -> bool:
        if program.fake_mode is None:
            return False
        changed = False
        stored = _Stored(program, self.id)
        for nodes in _regions(program):
            region = _Region(nodes, program, stored)
            try:
                for node in nodes:
                    region.trace(node)
            except Decline as decline:
                context.find(self.id, node, Outcome.DECLINED, decline.reason)
                continue
            for node in nodes:
                context.find(self.id, node, Outcome.REWRITTEN, "computed on real and imaginary parts")
            region.splice(self.id)
            changed = True
        if changed:
            program.remove_dead()
        return changed


def _regions(program: Program) -> Iterator[list[Node]]:
    """The connected parts of a program that compute with complex numbers, each in the order of the graph.

    A complex constant connects nothing: a table that all layers read is stored once, and each layer is a part.
    """
    position = {node: number for number, node in enumerate(program.graph.nodes)}
    members = [node for node in position if node.op == "call_function" and _is_complex_op(node)]
    leader: dict[Node, Node] = {node: node for node in members}

    def find(node: Node) -> Node:
        while leader[node] is not node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for node in members:
        for source in node.all_input_nodes:
            if source in leader and (_is_complex(source) or source is _squared(node)):
                leader[find(node)] = find(source)
    parts: dict[Node, list[Node]] = {}
    for node in members:
        parts.setdefault(find(node), []).append(node)
    yield from parts.values()


def _is_complex_op(node: Node) -> bool:
    return (
        node.target in FOURIER
        or _is_complex(node)
        or any(map(_is_complex, node.all_input_nodes))
        or _squared(node) is not None
    )


def _squared(node: Node) -> Node | None:
    """The ``abs`` of a spectrum that a node squares: the sum of the squares of its parts has no need of the root.

    Of a spectrum alone, since the two differ where one part is an infinity and the other is NaN.
    """
    if node.target is aten.pow.Tensor_Scalar:
        squares = node.args[1] == 2
    else:
        squares = node.target is aten.square.default or (
            node.target is aten.mul.Tensor and node.args[0] is node.args[1]
        )
    size = node.args[0] if squares else None
    if not isinstance(size, Node) or size.target is not aten.abs.default or not _is_complex(size.all_input_nodes[0]):
        return None
    pending, seen = list(size.all_input_nodes), set()
    while pending:
        read = pending.pop()
        if read.target in TRANSFORMS:
            return size
        if read not in seen:
            seen.add(read)
            pending += filter(_is_complex, read.all_input_nodes)
    return None


def _is_complex(node: Node) -> bool:
    return any(value.dtype.is_complex for value in fake_tensors(node))


class _Constant(NamedTuple):
    """A tensor that the program gets, and the fake one that stands for it in traces."""

    name: str
    tensor: Tensor
    fake: Tensor
    parameter: bool


@dataclass
class _Stored:
    """What the program gets: matrices of transforms, and the parts of complex constants; each once."""

    program: Program
    pass_id: str
    constants: dict[Any, _Constant] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)

    def table(self, name: str, compute: Callable[[], Any], dtype: torch.dtype) -> Tensor:
        """The fake tensor that stands for an array."""
        return self._constant(
            (name, dtype), name, lambda: torch.from_numpy(compute()).to(dtype).contiguous(), False
        ).fake

    def parts(self, node: Node) -> Iterator[_Constant]:
        """The real and the imaginary part of a complex constant. Equal views of one tensor have them in common."""
        tensor = self.program.tensor(node)
        assert tensor is not None
        value, parameter = tensor.detach(), isinstance(tensor, torch.nn.Parameter)
        memory = (value.data_ptr(), value.shape, value.stride(), value.dtype, value.is_conj())
        name = self.program.stored_name(node)
        yield self._constant((memory, "real"), f"{name}_real", lambda: _copied(value.resolve_conj().real), parameter)
        yield self._constant((memory, "imag"), f"{name}_imag", lambda: _copied(value.resolve_conj().imag), parameter)

    def _constant(self, key: Any, name: str, compute: Callable[[], Tensor], parameter: bool) -> _Constant:
        if key not in self.constants:
            with _disable_current_modes():
                tensor = compute()
                fake = self.program.fake_mode.from_tensor(tensor, static_shapes=True)
            self.constants[key] = _Constant(name, tensor, fake, parameter)
        return self.constants[key]

    def standing_for(self, fake: Tensor) -> _Constant:
        return next(constant for constant in self.constants.values() if constant.fake is fake)

    def node(self, constant: _Constant, like: Node) -> Node:
        """The program's node for a tensor, made where it is first needed."""
        key = str(id(constant.fake))
        if key not in self.nodes:
            self.nodes[key] = self.program.add_tensor(
                constant.tensor, constant.name, like, self.pass_id, constant.parameter
            )
        return self.nodes[key]


def _copied(part: Tensor) -> Tensor:
    return part.clone(memory_format=torch.contiguous_format)


@dataclass
class _Region:
    """One connected part, and what replaces it: first traced as a whole, then put into the program."""

    nodes: list[Node]
    program: Program
    stored: _Stored
    graph: Graph = field(default_factory=Graph)
    values: dict[Node, Any] = field(default_factory=dict)
    outside: dict[Node, Node | _Constant] = field(default_factory=dict)
    made_for: dict[Node, Node] = field(default_factory=dict)

    def trace(self, node: Node) -> None:
        """Compute on pairs what the next op computes.

        Raises:
            Decline: where it is not served; then nothing of the part is replaced.
        """
        self._check(node)
        self.values[node] = self._traced(node)

    def splice(self, pass_id: str) -> None:
        """Put the traced ops into the program, each before the op that it serves."""
        graph = self.program.graph
        mapping = {
            stand_in: place if isinstance(place, Node) else self.stored.node(place, self.nodes[0])
            for stand_in, place in self.outside.items()
        }
        sources = {node: origin(node, pass_id) for node in self.nodes}
        for traced, node in self.made_for.items():
            with graph.inserting_before(node):
                new = graph.node_copy(traced, lambda old: mapping[old])
            new.meta = {"val": traced.meta["val"]}
            inherit_metadata(new, node, pass_id, sources[node])
            mapping[traced] = new
        inside = set(self.nodes)
        for node in reversed(self.nodes):
            if any(user not in inside for user in node.users):
                self.program.replace(node, mapping[self.values[node]])
            else:
                graph.erase_node(node)
            inside.discard(node)

    def _check(self, node: Node) -> None:
        if node.target not in SERVED:
            raise Decline(f"{op_name(node.target)} is not served for complex numbers")
        if node.name in self.program.mutable or any(i.name in self.program.mutable for i in node.all_input_nodes):
            raise Decline("it shares memory with what the program changes in place")
        for read in (node, *node.all_input_nodes):
            if any(value.dtype == torch.complex32 for value in fake_tensors(read)):
                raise Decline("ComplexHalf is not served")
            if _is_complex(read) and read.op in ("placeholder", "get_attr") and self.program.tensor(read) is None:
                raise Decline(f"the program's input {read.name!r} is complex; pass its parts as two inputs")
        if _is_complex(node) and any(user.op == "output" for user in node.users):
            raise Decline("it is a result of the program, which would be complex; return its view_as_real")

    def _traced(self, node: Node) -> Any:
        """What the op returns, as nodes of the traced graph."""
        size = _squared(node)
        served = SERVED[node.target] if size is None else power
        arguments = tree_map(
            lambda leaf: self._value(leaf) if isinstance(leaf, Node) else leaf,
            (tuple(node.args), dict(node.kwargs)) if size is None else (tuple(size.args), {}),
            is_leaf=lambda leaf: isinstance(leaf, Node),
        )
        leaves, spec = tree_flatten(arguments)
        inputs = list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, Node)))
        expected, dtype = node.meta["val"], _part_dtype(node)
        structure: list[Any] = []

        def run(*fakes: Any) -> list[Any]:
            known = dict(zip(inputs, fakes, strict=True))
            args, kwargs = tree_unflatten(
                [known.get(leaf, leaf) if isinstance(leaf, Node) else leaf for leaf in leaves], spec
            )
            result = served(On(dtype, Fourier(self.stored.table)), *args, **kwargs)
            flat, form = tree_flatten(_as_expected(result, expected, dtype, node))
            structure.append(form)
            return flat

        fakes = [leaf.meta["val"] for leaf in inputs]
        module = record(run, fakes, self.program.fake_mode, node, self.__class__.__name__)
        mapping: dict[Node, Node] = {}
        given = iter(inputs)
        for traced in module.graph.nodes:
            if traced.op == "placeholder":
                mapping[traced] = next(given)
            elif traced.op == "get_attr":
                mapping[traced] = self._stand_in(self.stored.standing_for(getattr(module, str(traced.target))))
            elif traced.op == "call_function":
                new = self.graph.node_copy(traced, lambda old: mapping[old])
                self.made_for[new] = node
                mapping[traced] = new
        output: Any = module.graph.output_node().args[0]
        return tree_unflatten([mapping[leaf] for leaf in output], structure[-1])

    def _value(self, node: Node) -> Any:
        """A node's value in the traced graph; what comes from outside becomes a placeholder there."""
        if node not in self.values:
            if _is_complex(node):
                self.values[node] = Pair(*map(self._stand_in, self.stored.parts(node)))  # type: ignore[arg-type]
            else:
                self.values[node] = self._stand_in(node)
        return self.values[node]

    def _stand_in(self, place: Node | _Constant) -> Node:
        known = next((stand_in for stand_in, other in self.outside.items() if other is place), None)
        if known is None:
            known = self.graph.placeholder(f"outside_{len(self.outside)}")
            known.meta = {"val": place.meta["val"] if isinstance(place, Node) else place.fake}
            self.outside[known] = place
        return known


def _part_dtype(node: Node) -> torch.dtype:
    """The dtype of the parts: that of the result's, or of the argument's where the result is real."""
    tensors = [*fake_tensors(node), *(value for read in node.all_input_nodes for value in fake_tensors(read))]
    return next((value.dtype.to_real() for value in tensors if value.dtype.is_complex), tensors[0].dtype)


def _as_expected(result: Any, expected: Any, dtype: torch.dtype, node: Node) -> Any:
    """The result in the dtypes that the op returns; real ones, which others read, in its layout too."""
    if isinstance(expected, (list, tuple)):
        return [_as_expected(*both, dtype, node) for both in zip(result, expected, strict=True)]
    if not isinstance(expected, Tensor):
        return result
    if isinstance(result, Pair) == expected.dtype.is_complex:
        wanted = expected.dtype.to_real() if expected.dtype.is_complex else expected.dtype
        tensors = [x if x.dtype == wanted else x.to(wanted) for x in tree_leaves(result)]
        if all(tuple(x.shape) == tuple(expected.shape) for x in tensors):
            return Pair(*tensors) if isinstance(result, Pair) else _laid_out(tensors[0], expected)
    raise LowerfixError(
        f"{describe(node)} returns {describe_value(expected)}, and on parts it would be {describe_value(result)}"
    )


def _laid_out(x: Tensor, expected: Tensor) -> Tensor:
    """Lay a tensor out in the order of dimensions that it is expected in, so that later views of it stay valid."""
    if expected.is_contiguous():
        return x if x.is_contiguous() else x.contiguous()
    order = sorted(range(x.dim()), key=expected.stride, reverse=True)
    ordered = x.permute(order)
    if ordered.is_contiguous():
        return x
    return ordered.contiguous().permute([order.index(dim) for dim in range(x.dim())])
