"""The catalogue of passes, one idea a file, grouped by family.

lowerfix.passes.get("mish", target="vgf")       # by id
lowerfix.passes.Mish(target="vgf")              # the same
"""

from typing import Any


def get(identifier: str, **options: Any) -> Any:
    """A pass object by its id, with its options; raises LowerfixError for an unknown id."""
    from lowerfix import registry

    return registry.get(identifier)(**options)


def __getattr__(name: str) -> Any:
    from lowerfix import registry
    from lowerfix.base import pascal

    if name[:1].isupper():
        for identifier, cls in registry.all_passes().items():
            if pascal(identifier) == name:
                return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
