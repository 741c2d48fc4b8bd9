"""What a command works on: a model from a factory of yours, or a program from a ``.pt2`` file."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from lowerfix.advice import leads
from lowerfix.errors import LowerfixError, first_line
from lowerfix.lowering import captured_output
from lowerfix.program import fits, user_inputs

FORMS = (
    "(model, example_inputs) or (model, example_inputs, calibration_inputs): an nn.Module, a tuple of its arguments, "
    "and a list of such tuples"
)


@dataclass(frozen=True)
class Subject:
    """What is lowered.

    Attributes:
        name: for the files that come of it.
        model: a model in eval mode, or a program.
        inputs: one tuple of its arguments; None for a program that does not know any.
        calibration: more of them, to quantize with; empty where none were given.
    """

    name: str
    model: nn.Module | ExportedProgram
    inputs: tuple[Any, ...] | None
    calibration: Sequence[tuple[Any, ...]] = ()

    @property
    def representative(self) -> Sequence[tuple[Any, ...]]:
        """The calibration inputs, or the one example."""
        return self.calibration or ([self.inputs] if self.inputs is not None else [])

    @cached_property
    def program(self) -> ExportedProgram:
        """The exported program.

        Raises:
            LowerfixError: where PyTorch cannot export the model.
        """
        if isinstance(self.model, ExportedProgram):
            return self.model
        assert self.inputs is not None
        try:
            with captured_output(), torch.no_grad():
                return torch.export.export(self.model, self.inputs)
        except Exception as error:
            reason = first_line(error)
            raise LowerfixError(f"{self.name!r} cannot be exported: {reason}{leads(reason)}") from error


def load(spec: str | Path | None) -> Subject:
    """The subject named by ``module:factory`` or a ``.pt2`` file, or the demo's own for ``None``.

    The module is looked for in the current directory too.

    Raises:
        LowerfixError: where it cannot be loaded; it says what the factory has to be like.
    """
    if spec is None:
        from lowerfix import demo_model

        return Subject("robot-policy", *demo_model.make())
    path = Path(spec)
    if path.suffix == ".pt2" or os.path.isfile(path):
        return _from_file(path)
    return _from_factory(str(spec))


def load_calibration(path: Path) -> list[tuple[Any, ...]]:
    """The tuples of inputs in a file that ``torch.save`` wrote: a list of them.

    Raises:
        LowerfixError: where it cannot be read, or holds something else; only tensors and plain containers are loaded.
    """
    try:
        content = torch.load(path, weights_only=True)
    except OSError as error:
        raise LowerfixError(f"calibration data {str(path)!r} cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise LowerfixError(
            f"calibration data {str(path)!r} is not what torch.save wrote of tensors: {first_line(error)}"
        ) from error
    if not isinstance(content, list) or not content or not all(isinstance(one, (tuple, list)) for one in content):
        raise LowerfixError(f"calibration data {str(path)!r} has to be a list of tuples of a model's arguments")
    return [tuple(one) for one in content]


def check_inputs(program: ExportedProgram, calibration: Sequence[tuple[Any, ...]]) -> None:
    """Make sure that inputs fit a program.

    Raises:
        LowerfixError: for another number of them, another dtype or another shape.
    """
    wanted = user_inputs(program)
    for number, inputs in enumerate(calibration):
        given = tree_leaves(inputs)
        if len(given) != len(wanted):
            raise LowerfixError(
                f"calibration input {number} has {len(given)} values, and the program takes {len(wanted)}"
            )
        for node, value in zip(wanted, given, strict=True):
            expected = node.meta["val"]
            if not isinstance(expected, torch.Tensor):
                continue
            if not isinstance(value, torch.Tensor) or value.dtype != expected.dtype or not fits(value, expected):
                got = f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
                raise LowerfixError(
                    f"calibration input {number} does not fit: {node.name!r} is {expected.dtype}"
                    f"{list(expected.shape)}, got {got}"
                )


def _from_file(path: Path) -> Subject:
    import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401  (registers the ops of quantized programs)

    from lowerfix.pt2 import load_program

    with captured_output():
        program = load_program(path)
    arguments, keywords = program.example_inputs or (None, {})
    return Subject(path.stem, program, None if keywords or arguments is None else tuple(arguments))


def _from_factory(spec: str) -> Subject:
    module_name, _, factory_name = spec.partition(":")
    if not module_name or not factory_name:
        raise LowerfixError(
            f"{spec!r} is neither a .pt2 file nor of the form module:factory, as in my_package.model:make"
        )
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        made = getattr(importlib.import_module(module_name), factory_name)()
    except Exception as error:
        raise LowerfixError(f"{spec!r} cannot be made: {type(error).__name__}: {error}") from error
    finally:
        if here in sys.path:
            sys.path.remove(here)
    if not (
        isinstance(made, tuple)
        and len(made) in (2, 3)
        and isinstance(made[0], nn.Module)
        and (len(made) == 2 or isinstance(made[2], (list, tuple)))
        and all(isinstance(inputs, tuple) for inputs in (made[1], *(made[2] if len(made) == 3 else ())))
    ):
        raise LowerfixError(f"{spec!r}: the factory has to return {FORMS}")
    return Subject(factory_name, made[0].eval(), made[1], list(made[2]) if len(made) == 3 else ())
