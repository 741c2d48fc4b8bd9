"""The targets lowerfix knows, by name.

    from lowerfix import targets

    target = targets.get("ethos-u85")     # ethos-u85-256
    with target.rejections() as reasons:
        target.partitioner().partition(edge_program)

Another package adds a target with an entry point in the group `lowerfix.targets`; the entry point's name is the
target's, and its value is a `Target` or a function without arguments that returns one:

    [project.entry-points."lowerfix.targets"]
    my-npu = "my_package.lowerfix_target:TARGET"

It is loaded only when it is asked for, so a broken one harms nobody else. The names of lowerfix's own targets are
taken. Importing this package imports neither torch nor executorch.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points

from lowerfix.errors import LowerfixError
from lowerfix.targets import arm, xnnpack
from lowerfix.targets.base import Requirement, Target

__all__ = ["Requirement", "Target", "get", "names"]

GROUP = "lowerfix.targets"

_BUILT_IN = {target.name: target for target in (*arm.TARGETS, *xnnpack.TARGETS)}
_BUILT_IN.update({alias: _BUILT_IN[name] for alias, name in arm.ALIASES.items()})


def names() -> list[str]:
    """All names that `get` takes, sorted: lowerfix's own, with the bare Ethos-U names, and those of other packages."""
    known = {*_BUILT_IN, *entry_points(group=GROUP).names}
    # ethos-u85-256 before ethos-u85-1024
    return sorted(known, key=lambda name: [part.zfill(9) if part.isdigit() else part for part in name.split("-")])


def get(name: str | Target) -> Target:
    """The target called `name`; a `Target` is returned as it is.

    The bare names of the Ethos-U cores stand for `ethos-u55-128`, `ethos-u65-256` and `ethos-u85-256`. A plus sign adds
    an extension of the TOSA specification, as in `vgf+bf16`.

    Raises `LowerfixError` for a name nobody defines, with the known ones and the nearest, and for a target of
    another package that cannot be loaded.
    """
    if isinstance(name, Target):
        return name
    if not isinstance(name, str):
        raise LowerfixError(
            f"a target is a name or a lowerfix Target, got {name!r}. Known targets: {', '.join(names())}"
        )
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    for entry_point in entry_points(group=GROUP, name=name):
        return _load(entry_point)
    base, *extensions = name.split("+")
    if extensions:
        return get(base).with_extensions(*extensions)
    near = get_close_matches(name.lower(), names(), n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise LowerfixError(f"unknown target {name!r}. {hint}Known targets: {', '.join(names())}")


def _load(entry_point: EntryPoint) -> Target:
    owner = entry_point.dist.name if entry_point.dist else entry_point.value
    try:
        target = entry_point.load()
        if not isinstance(target, Target):
            target = target()
    except Exception as error:
        raise LowerfixError(
            f"target {entry_point.name!r} of package {owner!r} cannot be loaded from {entry_point.value}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(target, Target):
        raise LowerfixError(
            f"target {entry_point.name!r} of package {owner!r} is a {type(target).__name__}; "
            f"{entry_point.value} has to be a lowerfix Target or a function without arguments that returns one"
        )
    return target
