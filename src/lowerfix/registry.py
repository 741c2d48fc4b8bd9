"""The catalogue of passes: lowerfix's own under ``lowerfix.passes``, and those of other packages.

Another package adds passes by an entry point in the group ``lowerfix.passes`` whose value is a ``Pass`` subclass or a
module with ``@rewrite`` functions.
"""

import difflib
import importlib
import pkgutil
import re
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from lowerfix.base import Pass, kebab, pascal
from lowerfix.errors import LowerfixError
from lowerfix.rewritepass import RewritePass
from lowerfix.rewriting import declared

GROUP = "lowerfix.passes"

_registered: dict[str, type[Pass]] = {}


def register(cls: type[Pass]) -> type[Pass]:
    """Add a pass class to the catalogue.

    Raises:
        LowerfixError: for an id that is taken, that is not kebab-case, or a class imported as ``passes.x``: then
            Python holds two copies of the module, and the catalogue would list its pass twice.
    """
    if cls.__module__ == "passes" or cls.__module__.startswith("passes."):
        raise LowerfixError(f"{cls.__module__} has to be imported as lowerfix.{cls.__module__}")
    identifier = getattr(cls, "id", "")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", identifier):
        raise LowerfixError(f"pass {cls.__qualname__} needs a kebab-case id, got {identifier!r}")
    known = _registered.get(identifier)
    if known is not None and known is not cls:
        raise LowerfixError(f"two passes are called {identifier!r}: {_place(known)} and {_place(cls)}")
    _registered[identifier] = cls
    return cls


def register_module(module: ModuleType) -> None:
    """Add what a module defines: its ``Pass`` subclasses, and one pass for its ``@rewrite`` functions."""
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Pass) and value.__module__ == module.__name__:
            register(value)
    rewrites = declared(module.__name__)
    known = (cls for cls in _registered.values() if issubclass(cls, RewritePass))
    if rewrites and not any(cls.rewrites == rewrites for cls in known):
        name = module.__name__.rpartition(".")[2]
        options: dict[str, Any] = {
            "id": kebab(name),
            "rewrites": rewrites,
            "after": tuple(getattr(module, "AFTER", ("fold-constants",))),
            "retire_when": getattr(module, "RETIRE_WHEN", ""),
            "opt_in": getattr(module, "OPT_IN", ""),
            "__module__": module.__name__,
            "__doc__": module.__doc__,
        }
        register(type(pascal(name), (RewritePass,), options))


def _place(cls: type[Pass]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@lru_cache(maxsize=1)
def _load() -> None:
    """Import the catalogue, once."""
    link = Path(__file__).with_name("passes")
    if not link.is_dir():
        raise ImportError(
            f"{link} is not a folder but a file: this checkout was made without symbolic links. "
            "Run 'git config core.symlinks true', then 'git checkout -- src/lowerfix/passes'"
        )
    package = importlib.import_module("lowerfix.passes")
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.ispkg:
            register_module(importlib.import_module(info.name))
    for entry_point in entry_points(group=GROUP):
        owner = entry_point.dist.name if entry_point.dist else entry_point.value
        try:
            value = entry_point.load()
        except Exception as error:
            raise LowerfixError(
                f"pass {entry_point.name!r} of package {owner!r} cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        if isinstance(value, ModuleType):
            register_module(value)
        elif isinstance(value, type) and issubclass(value, Pass):
            register(value)
        else:
            raise LowerfixError(f"pass {entry_point.name!r} of package {owner!r} is neither a Pass nor a module")


def all_passes() -> dict[str, type[Pass]]:
    """Every known pass by id, sorted."""
    _load()
    return dict(sorted(_registered.items()))


def get(identifier: str) -> type[Pass]:
    """The pass class with an id; raises LowerfixError, with the nearest id, where there is none."""
    passes = all_passes()
    if identifier in passes:
        return passes[identifier]
    near = difflib.get_close_matches(kebab(identifier), passes, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise LowerfixError(f"unknown pass {identifier!r}; {hint}Known passes: {', '.join(passes)}")


@lru_cache(maxsize=1)
def _by_target() -> dict[Any, list[RewritePass]]:
    table: dict[Any, list[RewritePass]] = {}
    for cls in all_passes().values():
        if issubclass(cls, RewritePass):
            instance = cls()
            for target in dict.fromkeys(t for rewrite in cls.rewrites for t in rewrite.targets):
                table.setdefault(target, []).append(instance)
    return table


def serving(target: Any) -> list[RewritePass]:
    """The rewrite passes that serve an op."""
    return _by_target().get(target, [])


# Importing this module is what tells a checkout without symbolic links apart, before anything fails obscurely.
if not Path(__file__).with_name("passes").is_dir():
    _load()
