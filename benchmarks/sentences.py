"""Encode real sentences by a real model on XNNPACK: stock ExecuTorch against lowerfix, each as a ``.pte`` that is run.

The model is all-MiniLM-L6-v2 with its own weights and tokenizer, as in ``minilm.py``: BERT, mean pooling over the
tokens that are not padding, L2 normalisation, in float32, each sentence padded to 32 tokens. The ``.pte`` is loaded
once and run by ExecuTorch's runtime with one thread. Seconds are the median of several passes over all sentences; stock
and lowerfix take turns.

Writes docs/sentences.md. Exits 1 unless with lowerfix there is one delegate, nothing is left on the CPU but the token
table and what turns the integer inputs into a mask, of which XNNPACK has no form, and each sentence has a cosine with
eager of at least 0.99999.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from minilm import CAST, LENGTH, SENTENCES, load
from torch import Tensor

import lowerfix
from lowerfix import lowering

TARGET = "xnnpack"
LEAST_COSINE = 0.99999
PASSES = 7
INTEGERS = {CAST, "embedding", "index.Tensor", "bitwise_and.Tensor"}
PAGE = Path(__file__).parents[1] / "docs" / "sentences.md"
COMMAND = "python benchmarks/sentences.py"


def method(pte: bytes) -> Any:
    from executorch.runtime import Runtime

    return Runtime.get().load_program(pte).load_method("forward")


def encoded(run: Any, inputs: list[tuple[Tensor, Tensor]]) -> tuple[list[Tensor], float]:
    """The vector of each sentence, and the seconds a sentence."""
    start = time.perf_counter()
    vectors = [run.execute(list(one))[0].clone() for one in inputs]
    return vectors, (time.perf_counter() - start) / len(inputs)


def main() -> int:
    torch.set_num_threads(1)
    with lowering.captured_output(), torch.no_grad():
        model, inputs = load()
        expected = [model(*one) for one in inputs]
        program = torch.export.export(model, inputs[0])
        start = time.perf_counter()
        fixed_program = lowerfix.apply(program, target=TARGET)
        apply_seconds = time.perf_counter() - start
        stock = lowering.lower(program, TARGET, compile=False)
        fixed = lowering.lower(fixed_program, TARGET, compile=False)
        runs = {"stock": (stock, method(stock.pte())), "lowerfix": (fixed, method(fixed.pte()))}
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        vectors: dict[str, list[Tensor]] = {}
        for _ in range(PASSES):
            for name, (_, run) in runs.items():
                vectors[name], taken = encoded(run, inputs)
                seconds[name].append(taken)
    lines = ["| | stock | lowerfix |", "| --- | --- | --- |"]

    def row(label: str, *cells: str) -> None:
        lines.append("| " + " | ".join([label, *cells]) + " |")

    cosines = {name: [lowering.cosine(*p) for p in zip(expected, vectors[name], strict=True)] for name in runs}
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    row("delegates", *(str(lowered.delegates) for lowered, _ in runs.values()))
    row("ops on the CPU", *(str(sum(lowered.cpu_ops.values())) for lowered, _ in runs.values()))
    row("seconds a sentence", *(f"{medians[name]:.4f}" for name in runs))
    row("smallest cosine with eager", *(f"{min(cosines[name]):.8f}" for name in runs))
    row("seconds of apply", "", f"{apply_seconds:.1f}")
    left = ", ".join(f"{count} {name}" for name, count in fixed.cpu_ops.items()) or "nothing"
    about = (
        f"all-MiniLM-L6-v2 on XNNPACK, {len(SENTENCES)} sentences of {LENGTH} tokens, one thread, torch "
        f"{torch.__version__}, {time.strftime('%Y-%m-%d')}. Left on the CPU with lowerfix: {left}. "
        f"A sentence takes {medians['stock'] / medians['lowerfix']:.2f} times as long without it."
    )
    script = """```python
model = SentenceEncoder(BertModel.from_pretrained(folder, add_pooling_layer=False)).eval()
program = torch.export.export(model, (input_ids, attention_mask))
program = lowerfix.apply(program, target="xnnpack")
edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
Path("sentences.pte").write_bytes(edge.to_executorch().buffer)
```"""
    head = f"<!-- Written by `{COMMAND}`; run it again instead of editing this. -->\n\n# Sentences on XNNPACK"
    PAGE.write_text("\n\n".join([head, about, "\n".join(lines), script]) + "\n")
    print("\n".join(lines), about, sep="\n\n")
    failed = []
    if fixed.delegates != 1 or set(fixed.cpu_ops) - INTEGERS:
        failed.append(f"{fixed.delegates} delegates; on the CPU: {left}")
    if not min(cosines["lowerfix"]) >= LEAST_COSINE:
        failed.append(f"cosine {min(cosines['lowerfix'])}")
    print(*failed, sep="\n", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
