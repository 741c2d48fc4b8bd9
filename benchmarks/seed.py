"""Run the questions that lowerfix began with: what the Arm backend makes of small models, without and with lowerfix.

Each row is a model of a few ops, as robot policies have them. It is lowered for VGF in float32 and for Ethos-U85 in
int8, once by ExecuTorch alone and once with lowerfix, and executed on the TOSA reference model. A cell tells the
delegates, the ops left on the CPU, and the error: the largest of an element against eager for VGF, the signal-to-noise
ratio against eager in dB for int8. What dies says so.

The last tables are the seconds that partitioning takes where every block has an op that the backend refuses, and what
becomes of a pad whose dtype is refused.

Writes docs/seed.md. With --rows only these rows are run, and nothing is written.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lowerfix
from lowerfix import lowering, targets
from lowerfix.testing import export

PAGE = Path(__file__).parents[1] / "docs" / "seed.md"
COMMAND = "python benchmarks/seed.py"
BLOCKS = (50, 100)


class ConvMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.convolution(x).mean((2, 3))
        return result


class Pick(nn.Module):
    """Channels in another order; the index is a buffer or a plain attribute."""

    def __init__(self, buffer: bool) -> None:
        super().__init__()
        index = torch.tensor([0, 2])
        if buffer:
            self.register_buffer("index", index)
        else:
            self.index = index

    def forward(self, x: Tensor) -> Tensor:
        index = self.get_buffer("index") if "index" in dict(self.named_buffers()) else self.index
        return x[:, index]


class Blocks(nn.Module):
    """A chain in which every block has an op beside the main path that TOSA does not have."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            y = layer(x)
            x = F.silu(y) + torch.atan2(y, y + 2)
        return x


def block(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv1d(16, 16, 3, padding=1), activation, nn.Conv1d(16, 16, 3, padding=1))


def scores(x: Tensor) -> Tensor:
    return x.sum(-1)


SEQUENCE = (1, 16, 32)
SCORES = (64, 16)
Maker = Callable[[], nn.Module | Callable[..., Any]]
ROWS: list[tuple[str, str, Maker, tuple[int, ...]]] = [
    ("2", "x[:, index], a buffer", lambda: Pick(True), (1, 4, 8)),
    ("2", "x[:, index], an attribute", lambda: Pick(False), (1, 4, 8)),
    ("3", "Conv1d, SiLU, Conv1d", lambda: block(nn.SiLU()), SEQUENCE),
    ("3", "Conv1d, ELU, Conv1d", lambda: block(nn.ELU()), SEQUENCE),
    ("3", "Conv1d, Mish, Conv1d", lambda: block(nn.Mish()), SEQUENCE),
    ("4", "ConvTranspose1d", lambda: nn.ConvTranspose1d(16, 8, 4, stride=2, padding=1), SEQUENCE),
    ("4", "argmax, int32", lambda: lambda x: x.argmax(-1).to(torch.int32), SCORES),
    ("4", "argmin, int32", lambda: lambda x: x.argmin(-1).to(torch.int32), SCORES),
    ("4", "topk(4).values", lambda: lambda x: x.topk(4).values, SCORES),
    ("4", "topk(8).values", lambda: lambda x: x.topk(8).values, SCORES),
    ("4", "rows picked by topk(8).indices", lambda: lambda x: x[scores(x).topk(8).indices], SCORES),
    ("4", "argmax % 7, float32", lambda: lambda x: (x.argmax(-1) % 7).to(torch.float32), SCORES),
]


def made(maker: Maker, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> tuple[Any, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    model = maker()
    if isinstance(model, nn.Module):
        model = model.eval().to(dtype)
    return model, (torch.randn(shape, dtype=dtype),)


def lowered(model: Any, inputs: tuple[Any, ...], target: str, fixed: bool) -> lowering.Lowered:
    program = export(model, inputs)
    if fixed:
        program = lowerfix.apply(program, target=target)
    if targets.get(target).quantized:
        program = lowering.quantize(program, target, [inputs])
        if fixed:
            program = lowerfix.apply(program, target=target)
    return lowering.lower(program, target, compile=False)


def cell(model: Any, inputs: tuple[Any, ...], target: str, fixed: bool) -> str:
    """What became of a model, in a few words."""
    try:
        result = lowered(model, inputs, target, fixed)
    except Exception as error:
        return f"dies: {first_line(error)}"
    left = ", ".join(f"{count} {name}" if count > 1 else name for name, count in result.cpu_ops.items()) or "whole"
    text = f"{result.delegates}: {left}"
    try:
        outputs = lowering.execute(result, inputs)
        expected = model(*inputs)
        if targets.get(target).quantized:
            ratio = lowering.signal_to_noise(expected, outputs)
            return f"{text}; {'exact' if math.isinf(ratio) and ratio > 0 else f'{ratio:.0f} dB'}"
        return f"{text}; {lowering.max_abs_error(expected, outputs):.0e}"
    except Exception as error:
        return f"{text}; not executed: {first_line(error)}"


def first_line(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')[:100]}"


def quantizer_cell(check_guards: bool, fixed: bool) -> str:
    """Whether the quantizer takes the module that ``ExportedProgram.module()`` returns."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    model, inputs = made(ConvMean, (1, 3, 16, 16))
    quantizer: Any = targets.get("ethos-u85").quantizer()
    if fixed:
        quantizer = lowerfix.wrap_quantizer(quantizer, target="ethos-u85")
    try:
        with lowering.captured_output():
            prepared = prepare_pt2e(export(model, inputs).module(check_guards=check_guards), quantizer)
            prepared(*inputs)
            program = torch.export.export(convert_pt2e(prepared), inputs)
        result = lowering.lower(program, "ethos-u85", compile=False)
        ratio = lowering.signal_to_noise(model(*inputs), lowering.execute(result, inputs))
        return f"{result.delegates}: {', '.join(result.cpu_ops) or 'whole'}; {ratio:.0f} dB"
    except Exception as error:
        return f"dies: {first_line(error)}"


def partition_cell(count: int, fixed: bool) -> str:
    model, inputs = made(lambda: Blocks(count), (1, 32))
    try:
        result = lowered(model, inputs, "vgf", fixed)
    except Exception as error:
        return f"dies: {first_line(error)}"
    return f"{result.delegates}: {sum(result.cpu_ops.values())} on the CPU; {result.partition_seconds:.1f} s"


def file_cell(dtype: torch.dtype, target: str, fixed: bool) -> str:
    """Whether a ``.pte`` can be written of a model with a pad."""
    model, inputs = made(lambda: lambda x: F.pad(x, (1, 1)) * 2, (1, 4, 8), dtype)
    try:
        result = lowered(model, inputs, target, fixed)
        left = ", ".join(result.cpu_ops) or "whole"
        return f"{result.delegates}: {left}; {len(result.pte())} bytes"
    except Exception as error:
        return f"dies: {first_line(error)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def tables(wanted: set[str]) -> list[str]:
    def chosen(row: str) -> bool:
        return not wanted or row in wanted

    both = (False, True)
    parts = []
    if chosen("1"):
        rows = [
            ["1", f"module(check_guards={guards})", *(quantizer_cell(guards, fixed) for fixed in both)]
            for guards in (True, False)
        ]
        parts.append(table(["", "Conv2d and mean, to prepare_pt2e", "U85", "U85, lowerfix"], rows))
    cases = []
    for row, label, maker, shape in ROWS:
        if chosen(row):
            ways = [(target, fixed) for target in ("vgf", "ethos-u85") for fixed in both]
            cases.append([row, label, *(cell(*made(maker, shape), target, fixed) for target, fixed in ways)])
            print(*cases[-1], sep=" | ", file=sys.stderr, flush=True)
    if cases:
        parts.append(table(["", "model", "VGF", "VGF, lowerfix", "U85", "U85, lowerfix"], cases))
    if chosen("5"):
        model, inputs = made(lambda: nn.Linear(64, 64), (4, 64), torch.bfloat16)
        rows = [
            ["5", f"bfloat16 Linear, target {target}", *(cell(model, inputs, target, fixed) for fixed in both)]
            for target in ("vgf", "vgf+bf16")
        ]
        parts.append(table(["", "model", "stock", "lowerfix"], rows))
    if chosen("6"):
        rows = [["6", f"{count} blocks", *(partition_cell(count, fixed) for fixed in both)] for count in BLOCKS]
        parts.append(table(["", "partitioning for VGF, each block with an atan2", "stock", "lowerfix"], rows))
    if chosen("7"):
        rows = [
            ["7", f"{str(dtype).removeprefix('torch.')}, target {target}", *(file_cell(dtype, target, f) for f in both)]
            for dtype, target in (
                (torch.float32, "vgf"),
                (torch.bfloat16, "vgf"),
                (torch.bfloat16, "vgf+bf16"),
            )
        ]
        parts.append(table(["", "pad, to a .pte", "stock", "lowerfix"], rows))
    return parts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[], help="of 1 to 7")
    wanted = set(parser.parse_args().rows)
    parts = []
    with torch.no_grad():
        parts = tables(wanted)
    print("\n\n".join(parts))
    if not wanted:
        about = "\n\n".join((__doc__ or "").split("\n\n")[1:-1])
        head = f"<!-- Written by `{COMMAND}`; run it again instead of editing this. -->\n\n# Where it began"
        PAGE.write_text("\n\n".join([head, about, *parts]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
