"""Extensions of the TOSA specification: named in a target, or found from what a program computes in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import lowerfix
from lowerfix import lowering, targets
from lowerfix.errors import LowerfixError


def program(dtype: torch.dtype) -> torch.export.ExportedProgram:
    return torch.export.export(nn.Linear(8, 8).to(dtype), (torch.ones(4, 8, dtype=dtype),))


def specification(target: str, *of: Any) -> str:
    return str(lowerfix.compile_spec(target, *of).tosa_spec)


@pytest.mark.parametrize(
    ("target", "dtype", "expected"),
    [
        ("vgf", torch.float32, "TOSA-1.0+FP+INT+int4+int16"),
        ("vgf", torch.float16, "TOSA-1.0+FP+INT+int4+int16"),
        ("vgf", torch.bfloat16, "TOSA-1.0+FP+INT+int4+int16+bf16"),
        ("tosa-fp", torch.bfloat16, "TOSA-1.0+FP+bf16"),
        ("tosa-int", torch.bfloat16, "TOSA-1.0+INT"),
        ("ethos-u85", torch.bfloat16, "TOSA-1.0+INT+int16+int4+cf"),
    ],
)
def test_a_program_gets_the_extensions_that_its_dtypes_need(target: str, dtype: torch.dtype, expected: str) -> None:
    assert specification(target, program(dtype)) == expected


def test_methods_share_one_compile_spec() -> None:
    programs = {"a": program(torch.float32), "b": program(torch.bfloat16)}
    assert specification("vgf", programs) == "TOSA-1.0+FP+INT+int4+int16+bf16"


def test_a_target_can_be_named_with_extensions() -> None:
    assert specification("vgf") == "TOSA-1.0+FP+INT+int4+int16"
    assert specification("vgf+bf16") == "TOSA-1.0+FP+INT+int4+int16+bf16"
    assert specification("tosa-int+int16") == "TOSA-1.0+INT+int16"
    assert targets.get("vgf+bf16").name == "vgf+bf16"
    assert targets.get("vgf+int16") == targets.get("vgf")  # which has it


def test_the_form_that_runs_here_has_them_too() -> None:
    partitioner = targets.get("vgf+bf16").executable_partitioner()
    assert "bf16" in str(partitioner.tosa_spec)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("vgf+bf17", "cannot be extended by bf17; the extensions that it can have are bf16, "),
        ("vgf+u55", "cannot be extended by u55"),
        ("tosa-int+bf16", "cannot be extended by bf16"),
        ("ethos-u85+bf16", "the extensions that it can have are none"),
        ("xnnpack+bf16", "'xnnpack' cannot be extended by bf16"),
        ("vgff+bf16", "Did you mean 'vgf'"),
    ],
)
def test_an_extension_that_a_target_cannot_have_is_refused(name: str, reason: str) -> None:
    with pytest.raises(LowerfixError, match=reason):
        targets.get(name)


def test_a_target_without_a_compile_spec_says_so() -> None:
    with pytest.raises(LowerfixError, match="'xnnpack' has no compile spec"):
        lowerfix.compile_spec("xnnpack")


@pytest.mark.slow
def test_with_it_the_backend_takes_what_it_leaves_without() -> None:
    bfloat16 = program(torch.bfloat16)
    inputs = (torch.randn(4, 8, dtype=torch.bfloat16),)
    assert lowering.lower(bfloat16, "vgf", compile=False).cpu_ops == {"linear": 1}
    report = lowerfix.Report()
    lowered = lowering.lower(lowerfix.apply(bfloat16, target="vgf+bf16", report=report), "vgf+bf16", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (1, {})
    expected = bfloat16.module()(*inputs)
    torch.testing.assert_close(lowering.execute(lowered, inputs)[0], expected, rtol=2**-7, atol=2**-7)
