"""What makes the passes of a lowering slow for the number of their ops, removed where the result stays the same.

ExecuTorch's and Arm's passes trace the whole graph anew, some forty times. Each time, for every node,

- the history of where it came from is copied, which grows by one entry with every trace. Nobody changes an entry, so
  here the copies share them.
- the shape and type of its result are worked out on fake tensors. Where the same op had the very same tensors and
  numbers as arguments in the trace before, the fake tensor that came of it then is the result again.
- Python code is made of the graph, and made again after each edit, which nobody runs. Here it is made when it is asked
  for, and at the end for what is left.

:func:`lowerfix.partitioning.fast` puts these in place, for the thread that it is used in, and takes them away.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Interpreter
from torch.fx.graph import _PyTreeCodeGen

BACKEND_MODULE = "executorch.exir.backend.backend_api"
TOSA_MODULE = "executorch.backends.arm.tosa.specification"
LOGS = ("_create_partitions_in_graph_module", "_partition_and_lower_one_graph_module")

__all__ = ["Quick", "quick"]

PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
"""Types of arguments that are the same where they are equal and of one type."""


class Quick(threading.local):
    """What this thread has to remember.

    Attributes:
        depth: how many contexts it is in.
        results: of this trace, what came of an op, and the arguments, which are kept so that no other gets their place.
        before: of the trace before.
        expected: the tensor of the node that is traced.
        pending: the modules whose code was not made since their graph was changed.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.results: dict[Any, tuple[Any, Any]] = {}
        self.before: dict[Any, tuple[Any, Any]] = {}
        self.expected: Any = None
        self.pending: weakref.WeakSet[GraphModule] = weakref.WeakSet()

    def next_trace(self) -> None:
        self.results, self.before = {}, self.results

    @contextlib.contextmanager
    def active(self, compile: Callable[[GraphModule], Any]) -> Iterator[None]:
        """Do it the quick way in this thread.

        Args:
            compile: makes the code of a module, for those that still lack it at the end.
        """
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if not self.depth:
                self.results, self.before, self.expected = {}, {}, None
                gc.collect()  # modules and graphs refer to each other, and most are of use to nobody
                for module in list(self.pending):
                    self.pending.discard(module)
                    with contextlib.suppress(Exception):  # a broken graph has no code: so says whoever asks for it
                        compile(module)


quick = Quick()


def shared(original: Any) -> Callable[[Any, Any], Any]:
    """A ``__deepcopy__`` for what nobody changes."""
    return lambda self, memo: self


def _key(value: Any, tensors: list[torch.Tensor]) -> Any:
    """What is equal for equal arguments, where tensors are equal if they are the same; raises for others."""
    if isinstance(value, torch.Tensor):
        if isinstance(value, FakeTensor) and value._has_symbolic_sizes_strides:
            raise TypeError
        tensors.append(value)
        return id(value)
    if isinstance(value, (list, tuple)):
        return tuple([_key(item, tensors) for item in value])
    if type(value) in PLAIN:
        return type(value), value
    raise TypeError


def _plain(value: Any) -> bool:
    """Whether it is a fake tensor of sizes that are numbers, and nothing else is known of it."""
    return type(value) is FakeTensor and value.constant is None and not value._has_symbolic_sizes_strides


def _alike(one: FakeTensor, other: Any) -> bool:
    """Whether nothing tells two plain tensors from each other."""
    return (
        _plain(other)
        and one.fake_mode is other.fake_mode
        and one.dtype == other.dtype
        and one.shape == other.shape
        and one.layout == other.layout == torch.strided
        and one.stride() == other.stride()
        and one.storage_offset() == other.storage_offset()
        and one.device == other.device
        and one.requires_grad == other.requires_grad
        and one.is_conj() == other.is_conj()
        and one.is_neg() == other.is_neg()
    )


def remembered_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """The call of an op in a trace, which remembers its result.

    Not for ops that write to an argument, for what depends on data, and for sizes that are symbols.
    """

    def call_function(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
        if not quick.depth or type(self) is not Interpreter or not hasattr(target, "_schema"):
            return original(self, target, args, kwargs)
        expected, quick.expected = quick.expected, None
        context = sys.modules.get(TOSA_MODULE)
        tosa = context.TosaLoweringContext.tosa_spec_var.get(None) if context is not None else None
        tensors: list[Any] = [tosa]
        try:
            key = (
                target,
                id(tosa),
                _key(args, tensors),
                tuple([(name, _key(value, tensors)) for name, value in kwargs.items()]),
            )
        except TypeError:
            return original(self, target, args, kwargs)
        found = quick.results.get(key) or quick.before.get(key)
        if found is None:
            result = original(self, target, args, kwargs)
            if len(tensors) == 1 or not _plain(result) or target._schema.is_mutable:
                return result
            # Where a node's tensor is as it was, what comes after it has the same arguments as before.
            found = tensors, expected if _alike(result, expected) else result
        quick.results[key] = found
        return found[1]

    return call_function


def expecting(original: Callable[..., Any]) -> Callable[..., Any]:
    """The making of a node in a trace; that it came from has a tensor already."""

    def make(self: Any, kind: str, target: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        quick.expected = meta.data.get("val") if quick.depth else None
        return original(self, kind, target, args, kwargs, meta)

    return make


def next_trace_first(original: Callable[..., Any]) -> Callable[..., Any]:
    """A pass that traces a graph anew: what the trace before the last had come to is forgotten."""

    def call(self: Any, graph_module: GraphModule) -> Any:
        if quick.depth:
            quick.next_trace()
        return original(self, graph_module)

    return call


class _Code:
    """Stands for the code of a module until a part of it is wanted."""

    def __init__(self, module: GraphModule, compile: Callable[[GraphModule], Any]) -> None:
        self._module, self._compile = module, compile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compile(self._module), name)


class _Later:
    """Stands for what comes of compiling a module until it is wanted."""

    def __init__(self, module: GraphModule, name: str, compile: Callable[[GraphModule], Any]) -> None:
        self._module, self._name, self._compile = weakref.ref(module), name, compile

    def __get__(self, instance: Any, owner: type) -> Any:
        module = self._module()
        if module is None:
            raise AttributeError(self._name)
        self._compile(module)  # puts the result where it is found before this
        return getattr(owner if instance is None else instance, self._name)


COMPILED = ("_code", "_lineno_map", "_prologue_start")


def compiled_later(original: Callable[[GraphModule], Any]) -> Callable[[GraphModule], Any]:
    """A ``GraphModule.recompile`` that makes the code when it is wanted."""

    def compile(module: GraphModule) -> Any:
        quick.pending.discard(module)
        return original(module)

    def recompile(self: GraphModule) -> Any:
        cls = type(self)
        # Each module has a class of its own, which holds its forward. Other subclasses have ways of their own.
        if not quick.depth or cls.__bases__ != (GraphModule,):
            return compile(self)
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        if self not in quick.pending:
            quick.pending.add(self)
            for name in COMPILED:
                self.__dict__.pop(name, None)
                setattr(cls, name, _Later(self, name, compile))
            cls.forward = _Later(self, "forward", compile)  # type: ignore[assignment]
        self._recompile_submodules()
        return _Code(self, compile)

    return recompile


def printed_if_read(original: Callable[[GraphModule], str]) -> Callable[[GraphModule], str]:
    """A ``GraphModule.__str__`` that does not print the graph to a log that drops it, once for each delegate."""

    def text(self: GraphModule) -> str:
        caller = sys._getframe(1)
        logs = caller.f_code.co_name in LOGS and caller.f_globals.get("__name__") == BACKEND_MODULE
        if quick.depth and logs and not logging.getLogger().isEnabledFor(logging.DEBUG):
            return ""
        return original(self)

    return text
