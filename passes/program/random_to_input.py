"""On request: let the caller draw the random numbers, and pass them as further inputs.

**What it rewrites.** With ``allow="random-to-input"``: each operator that draws random numbers (``rand``, ``randn``,
``randint``, ``randperm``, ``normal``, ``uniform``, ``exponential``, ``bernoulli``, ``multinomial``, dropout in
training) reads them from a new input of the program, behind the user's own. The report says what each is called, its
shape and dtype, and how to draw it.

**The identity.** The results have the same distribution; the numbers are those that the caller passes.
``bernoulli(p)`` is u < p with u uniform, and dropout is built on it. ``multinomial(p, n)`` is by the Gumbel trick: the
index of the largest p / e, with e = -log(u) exponential, falls on each index with its probability, and the n largest
are a sample without replacement.

**Why the backend needs it.** No accelerator here draws random numbers, so each such operator splits the program; most
have no kernel in ExecuTorch's runtime either.

**What it leaves alone.** Draws for which it has no rule, such as ``poisson``; graph modules, whose inputs nobody would
know of; and draws whose size depends on data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.utils._pytree import tree_flatten

from lowerfix.base import Context, Pass
from lowerfix.errors import Decline
from lowerfix.program import Program, draws_random, mutated_arguments
from lowerfix.report import Outcome
from lowerfix.rewriting import Argument, Match, Rewrite, splice, trace
from lowerfix.targets import Target

UNIFORM = "uniform in [0, 1), as torch.rand draws it"
NORMAL = "standard normal, as torch.randn draws it"
TINY = 2.0**-25
"""Stands for the uniform number 0, of which there is no logarithm; half of the smallest that torch.rand draws else."""


class Draw(NamedTuple):
    """What the caller draws in place of one operator, and what is computed of it."""

    distribution: str
    shape: Any
    dtype: torch.dtype
    formula: Callable[[Tensor], Any]


@dataclass
class RandomToInput(Pass):
    """See the module's docstring."""

    id: ClassVar[str] = "random-to-input"
    after: ClassVar[tuple[str, ...]] = ("out-of-place",)
    retire_when: ClassVar[str] = "never: accelerators draw no random numbers"
    opt_in: ClassVar[str] = "the caller has to draw the numbers, and pass them as further inputs"

    def run(self, program: Program, context: Context) -> bool:
        changed = False
        for node in list(filter(draws_random, program.graph.nodes)):
            try:
                self._hoist(node, program, context)
            except Decline as decline:
                context.find(self.id, node, Outcome.DECLINED, f"{_problem(context)}; {decline.reason}")
                continue
            changed = True
        if changed:
            program.remove_dead()
        return changed

    def tell(self, program: Program, context: Context) -> None:
        for node in filter(draws_random, program.graph.nodes):
            self.offer(node, _problem(context), context)

    def wants_functional(self, in_place: Sequence[Node], target: Target) -> Sequence[Node]:
        return [node for node in in_place if draws_random(node)]

    def _hoist(self, node: Node, program: Program, context: Context) -> None:
        if not program.is_exported:
            raise Decline("a graph module's inputs are those of its caller; apply lowerfix to the ExportedProgram")
        match = Match.of(node, program)
        draw = _draw(node)
        if any(getattr(size, "node", None) is not None and not size.node.has_hint() for size in draw.shape):
            raise Decline("the size of what it draws depends on data")
        with program.fake_mode:
            value = torch.empty(draw.shape, dtype=draw.dtype)
        # The program gets its input only once nothing can fail any more.
        stand_in = Graph().placeholder("draw")
        # What the caller passes must not be changed in place, nor handed back.
        apart = program.has_in_place_ops or any(user.op == "output" for user in node.users)

        def formula(u: Tensor, *args: Any, **kwargs: Any) -> Any:
            result = RULES[_name(node)](node.meta["val"], *args, **kwargs).formula(u)
            return u.clone() if result is u and apart else result

        replacement = trace(Rewrite(formula, ()), _with_draw(match, stand_in, value))
        source = program.add_input(f"{node.name}_draw", value, node, self.id)
        dtype = str(draw.dtype).rpartition(".")[2]
        context.find(
            self.id,
            node,
            Outcome.REWRITTEN,
            f"{_problem(context)}: the program has a further input {source.name!r} for it, "
            f"{dtype} of shape {tuple(draw.shape)}, {draw.distribution}",
        )
        splice(program, _with_draw(match, source, value), replacement, self.id)


def _with_draw(match: Match, source: Node, value: Tensor) -> Match:
    """The match with what was drawn as a first argument."""
    node = match.node
    leaves, spec = tree_flatten(((source, *node.args), node.kwargs), is_leaf=lambda leaf: isinstance(leaf, Node))
    return Match(node, (Argument(source, value, None, "input"), *match.arguments), tuple(leaves), spec)


def _problem(context: Context) -> str:
    return f"it draws random numbers, which {context.target.name} does not"


def _name(node: Node) -> str:
    return str(node.target._schema.name).rpartition("::")[2]  # type: ignore[union-attr]


def _draw(node: Node) -> Draw:
    """What to draw for a node; raises Decline where there is no rule for it."""
    if mutated_arguments(node):
        raise Decline("it works in place; apply lowerfix to program.run_decompositions({})")
    rule = RULES.get(_name(node))
    if rule is None:
        raise Decline(f"there is no rule for {_name(node)}")
    values = [argument.meta["val"] if isinstance(argument, Node) else argument for argument in node.args]
    return rule(node.meta["val"], *values, **node.kwargs)


# The rules: from what an operator returns and its arguments to a Draw -------------------------------------------------


def uniform(result: Tensor, *_: Any, **__: Any) -> Draw:
    """For ``rand`` and ``rand_like``."""
    return Draw(UNIFORM, result.shape, result.dtype, lambda u: u)


def uniform_between(result: Tensor, x: Tensor, low: float = 0.0, high: float = 1.0, **_: Any) -> Draw:
    """For ``uniform``."""
    return Draw(UNIFORM, result.shape, result.dtype, lambda u: u * (high - low) + low)


def standard_normal(result: Tensor, *_: Any, **__: Any) -> Draw:
    """For ``randn`` and ``randn_like``."""
    return Draw(NORMAL, result.shape, result.dtype, lambda z: z)


def normal(result: Tensor, mean: Any = 0.0, std: Any = 1.0, *_: Any, **__: Any) -> Draw:
    """For ``normal`` of numbers and tensors."""
    return Draw(NORMAL, result.shape, result.dtype, lambda z: z * std + mean)


def normal_functional(result: Tensor, x: Tensor, mean: float = 0.0, std: float = 1.0, **_: Any) -> Draw:
    """For ``x.normal_()``."""
    return normal(result, mean, std)


def exponential(result: Tensor, x: Tensor, lambd: float = 1.0, **_: Any) -> Draw:
    """For ``exponential``: a rate only scales it."""
    return Draw("exponential with rate 1", result.shape, result.dtype, lambda e: e / lambd)


def randint(result: Tensor, *args: Any, **_: Any) -> Draw:
    """For ``randint``: the bounds stand before the shape, the lower may be left out."""
    bounds = [bound for bound in args if isinstance(bound, (int, torch.SymInt))]
    return _integers(result, bounds[0] if len(bounds) > 1 else 0, bounds[-1])


def randint_like(result: Tensor, x: Tensor, *bounds: Any, **_: Any) -> Draw:
    """For ``randint_like``."""
    if any(isinstance(bound, Tensor) for bound in bounds):
        raise Decline("its bound is computed")
    return _integers(result, bounds[0] if len(bounds) > 1 else 0, bounds[-1])


def randperm(result: Tensor, n: Any, **_: Any) -> Draw:
    """For ``randperm``: the permutation itself."""
    return _in_int32(result, f"a permutation of 0 to {_before(n)}", n)


def _integers(result: Tensor, low: Any, high: Any) -> Draw:
    return _in_int32(result, f"integers from {low} to {_before(high)}, as torch.randint draws them", low, high)


def _before(bound: Any) -> str:
    return str(bound - 1) if isinstance(bound, int) else f"{bound} - 1"


def _in_int32(result: Tensor, distribution: str, *bounds: Any) -> Draw:
    """Integers are drawn in int32 where that holds them."""
    fits = result.dtype is torch.int64 and all(not isinstance(b, int) or abs(b) < 1 << 31 for b in bounds)
    dtype = torch.int32 if fits else result.dtype
    return Draw(distribution, result.shape, dtype, lambda draw: draw.to(result.dtype) if fits else draw)


def bernoulli(result: Tensor, x: Tensor, p: Any = None, **_: Any) -> Draw:
    """For ``bernoulli``, with the probabilities in ``x`` or one for all."""
    dtype = result.dtype if result.is_floating_point() else torch.float32
    return Draw(UNIFORM, result.shape, dtype, lambda u: (u < (x if p is None else p)).to(result.dtype))


def dropout(result: Tensor, x: Tensor, p: float, train: bool = True) -> Draw:
    """For dropout in training."""
    return Draw(UNIFORM, x.shape, x.dtype, lambda u: _dropped(x, u, p)[0])


def native_dropout(result: Any, x: Tensor, p: float, train: bool | None = True) -> Draw:
    """For ``native_dropout``, which returns what it kept as well."""
    return Draw(UNIFORM, x.shape, x.dtype, lambda u: _dropped(x, u, p))


def feature_dropout(result: Tensor, x: Tensor, p: float, train: bool = True) -> Draw:
    """For dropout of whole channels."""
    shape = [*x.shape[:2], *(1 for _ in x.shape[2:])]
    return Draw(UNIFORM, shape, x.dtype, lambda u: _dropped(x, u, p)[0])


def _dropped(x: Tensor, u: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """As torch multiplies: what is dropped becomes NaN where it was infinite."""
    kept = u < 1.0 - p
    return x * (kept.to(x.dtype) * (1.0 / (1.0 - p) if p < 1 else 1.0)), kept


def multinomial(result: Tensor, p: Tensor, n: Any, replacement: bool = False, **_: Any) -> Draw:
    """The largest p / e for exponential e; each of several with replacement has its own."""
    if not isinstance(n, int):
        raise Decline("the number of samples is symbolic")
    if n > 1 and replacement:
        shape = [*p.shape[:-1], n, p.shape[-1]]
        return Draw(UNIFORM, shape, p.dtype, lambda u: _argmax(p.unsqueeze(-2) / _exponential(u)).to(torch.int64))
    if n > 1:
        return Draw(UNIFORM, p.shape, p.dtype, lambda u: torch.topk(p / _exponential(u), n).indices)
    return Draw(UNIFORM, p.shape, p.dtype, lambda u: _argmax(p / _exponential(u)).unsqueeze(-1).to(torch.int64))


def _exponential(u: Tensor) -> Tensor:
    return -torch.log(torch.clamp(u, min=TINY))


def _argmax(x: Tensor) -> Tensor:
    """In int32, as Arm takes it."""
    return torch.argmax(x, -1).to(torch.int32)


RULES: dict[str, Callable[..., Draw]] = {
    "bernoulli": bernoulli,
    "dropout": dropout,
    "exponential": exponential,
    "feature_dropout": feature_dropout,
    "multinomial": multinomial,
    "native_dropout": native_dropout,
    "normal": normal,
    "normal_functional": normal_functional,
    "rand": uniform,
    "rand_like": uniform,
    "randint": randint,
    "randint_like": randint_like,
    "randn": standard_normal,
    "randn_like": standard_normal,
    "randperm": randperm,
    "uniform": uniform_between,
}
