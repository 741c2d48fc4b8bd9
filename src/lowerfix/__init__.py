"""Rewrite a PyTorch program so that ExecuTorch lowers it in one piece, with the same numbers.

    program = torch.export.export(model, inputs)
    program = lowerfix.apply(program, target="ethos-u85")
    edge = to_edge_transform_and_lower(program, partitioner=[...])

Names are loaded when they are first used: ``import lowerfix`` imports neither torch nor executorch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowerfix.api import apply, compile_spec
    from lowerfix.dry_run import explain
    from lowerfix.errors import Decline, LowerfixError
    from lowerfix.pipeline import Pipeline
    from lowerfix.report import Finding, NotWhole, Outcome, Report
    from lowerfix.wrappers import wrap_partitioner, wrap_quantizer

__version__ = "0.1.0"

_HOMES = {
    "apply": "api",
    "compile_spec": "api",
    "explain": "dry_run",
    "Decline": "errors",
    "LowerfixError": "errors",
    "NotWhole": "report",
    "Pipeline": "pipeline",
    "Finding": "report",
    "Outcome": "report",
    "Report": "report",
    "wrap_partitioner": "wrappers",
    "wrap_quantizer": "wrappers",
}

__all__ = [
    "Decline",
    "Finding",
    "LowerfixError",
    "NotWhole",
    "Outcome",
    "Pipeline",
    "Report",
    "apply",
    "compile_spec",
    "explain",
    "wrap_partitioner",
    "wrap_quantizer",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"lowerfix.{_HOMES[name]}"), name)
    if name in ("passes", "targets", "testing"):
        return importlib.import_module(f"lowerfix.{name}")
    raise AttributeError(f"module 'lowerfix' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "passes", "targets", "testing"})
