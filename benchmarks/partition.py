"""Measure what partitioning costs: stock ExecuTorch against lowerfix, by the number of blocks in a chain.

Each block has an op beside the main path that the backend refuses, so each costs a delegate: a Linear, SiLU of it, and
atan2 of it, added. The partitioners are the installed ones, for VGF in float32 and for Ethos-U85 in int8. Seconds are
CPU time of ``partition`` alone, stock and lowerfix on the same program in one process; the tags they give are compared.

Long chains, which the stock search would take hours for, are made of copies of the program of a short one, one behind
the other, and are partitioned with lowerfix alone. The exponent is the slope of a least-squares line through the
logarithms.

Before that, random graphs are partitioned by both, with and without partitions of one node: ids, nodes and their order
have to be equal.

Writes docs/partitioning.md and docs/partitioning.svg. With --lower the whole of to_edge_transform_and_lower is measured
too, for --lower-blocks blocks on VGF: stock, with the partitioning of lowerfix alone, and with the rewrites too.

Exits 1 unless all partitions are equal, for 400 blocks on VGF the ratio is at least 300 and the seconds are below 1,
and the exponents are at most 1.1.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import itertools
import math
import multiprocessing
import operator
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from seed import Blocks
from torch import nn
from torch.export.graph_signature import ExportGraphSignature, InputSpec, TensorArgument
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

import lowerfix
from lowerfix import lowering, partitioning, targets
from lowerfix.testing import edge_program

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = "python benchmarks/partition.py"
TARGETS = ("vgf", "ethos-u85")
STOCK_BLOCKS = {"vgf": (50, 100, 200, 400), "ethos-u85": (25, 50, 100)}
LONG_BLOCKS = (400, 800, 1600, 3200)
COPIED_BLOCKS = 25
RANDOM_GRAPHS = 5000
WIDTH = 32
WAYS = {"lowerfix": "rewritten, lowered with `fast()`", "fast": "lowered with `fast()` alone", "stock": "stock"}
LEAST_RATIO, MOST_SECONDS, LARGEST_EXPONENT = 300.0, 1.0, 1.1


def exported(target: str, blocks: int) -> Any:
    torch.manual_seed(0)
    inputs = (torch.randn(1, WIDTH),)
    program = torch.export.export(Blocks(blocks).eval(), inputs)
    return lowering.quantize(program, target, [inputs]) if targets.get(target).quantized else program


def repeated(program: Any, times: int) -> Any:
    """A program that runs ``program``, of one input and one output, several times over."""
    graph = Graph()
    signature = program.graph_signature
    constants = {spec.arg.name: spec for spec in signature.input_specs if spec.target is not None}
    nodes = list(program.graph.nodes)
    specs: list[InputSpec] = []
    copies: list[dict[Node, Node]] = [{} for _ in range(times)]
    for number, mapped in enumerate(copies):
        for node in nodes:
            if node.name in constants:
                mapped[node] = graph.placeholder(f"{node.name}_{number}")
                mapped[node].meta = copy.copy(node.meta)
                spec = constants[node.name]
                specs.append(InputSpec(spec.kind, TensorArgument(mapped[node].name), spec.target, spec.persistent))
    (entry,) = (node for node in nodes if node.op == "placeholder" and node.name not in constants)
    value = graph.node_copy(entry)
    (spec,) = (spec for spec in signature.input_specs if spec.target is None)
    specs.append(spec)
    for mapped in copies:
        mapped[entry] = value
        for node in nodes:
            if node.op == "call_function":
                mapped[node] = graph.node_copy(node, mapped.__getitem__)
        value = mapped[nodes[-1].args[0][0]]
    graph.output((value,))
    result = copy.copy(program)
    result._graph_module = GraphModule(program.graph_module, graph)
    result._graph_signature = ExportGraphSignature(specs, signature.output_specs)
    return result


def partition(program: Any, target: str, fast: bool) -> tuple[float, dict[str, str]]:
    """CPU seconds, and the tag of each node that is taken."""
    for node in program.graph.nodes:
        node.meta.pop("delegation_tag", None)
    partitioner: Any = targets.get(target).partitioner()
    gc.collect()
    with lowering.captured_output():
        start = time.process_time()
        if fast:
            with partitioning.fast():
                partitioner.partition(program)
        else:
            partitioner.partition(program)
        seconds = time.process_time() - start
    return seconds, {n.name: n.meta["delegation_tag"] for n in program.graph.nodes if "delegation_tag" in n.meta}


class Marked(OperatorSupportBase):
    """The backend takes what is marked."""

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        return bool(node.meta.get("supported"))


def random_graph(choice: random.Random) -> GraphModule:
    """Up to 60 ops that read up to three of the last twelve values, three quarters of them supported."""
    graph = Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("y")]
    for _ in range(choice.randint(1, 60)):
        read = [choice.choice(nodes[-12:]) for _ in range(choice.randint(1, 3))]
        if choice.random() < 0.2:
            node = graph.call_function(operator.getitem, (read[0], 0))
        else:
            node = graph.call_function(torch.ops.aten.cat.default, (read,))
        node.meta["supported"] = choice.random() < 0.75
        nodes.append(node)
    graph.output(tuple(node for node in nodes if not node.users))
    return GraphModule(nn.Module(), graph)


def different(count: int) -> int:
    """Of random graphs, how many are partitioned otherwise than by PyTorch."""
    found = 0
    for seed in range(count):
        choice = random.Random(seed)
        module, single = random_graph(choice), choice.random() < 0.5
        answers = [
            [(p.id, list(p.nodes.items())) for p in kind(module, Marked(), single).propose_partitions()]
            for kind in (CapabilityBasedPartitioner, partitioning.LinearPartitioner)
        ]
        found += answers[0] != answers[1]
    return found


def exponent(sizes: list[int], seconds: list[float]) -> float:
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return slope / sum((a - mean_x) ** 2 for a in x)


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def lower(way: str, blocks: int) -> tuple[int, int, float]:
    """Delegates, ops on the CPU and CPU seconds of the whole lowering for VGF, in one of three ways."""
    torch.set_num_threads(1)
    program = exported("vgf", blocks)
    # What is done once in a process, the decisions of the rewrites too, is done before.
    for count in (1, 2):
        lowered_in(way, exported("vgf", count))
    gc.collect()
    start = time.process_time()
    lowered = lowered_in(way, program)
    seconds = time.process_time() - start
    print(way, f"{seconds:.1f}", sep=" | ", file=sys.stderr, flush=True)
    return lowered.delegates, sum(lowered.cpu_ops.values()), seconds


def lowered_in(way: str, program: Any) -> lowering.Lowered:
    if way == "lowerfix":
        program = lowerfix.apply(program, target="vgf")
    with contextlib.nullcontext() if way == "stock" else partitioning.fast():
        return lowering.lower(program, "vgf", compile=False)


def lower_table(blocks: int) -> str:
    """The whole lowering for VGF: rewritten and lowered by lowerfix, lowered only, and stock."""
    # Each in a process of its own, so that none runs in what another has left, and all at a time, for the same
    # conditions.
    with ProcessPoolExecutor(len(WAYS), mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(lower, WAYS, [blocks] * len(WAYS)))
    stock = found[list(WAYS).index("stock")][2]
    head = [f"whole lowering of {blocks} blocks for VGF", "delegates", "ops on the CPU", "s", "ratio"]
    rows = [
        [label, f"{delegates}", f"{left}", f"{seconds:.0f}", f"{stock / seconds:.2f}"]
        for label, (delegates, left, seconds) in zip(WAYS.values(), found, strict=True)
    ]
    return table(head, rows)


def plot(stock: dict[str, dict[int, float]], quick: dict[str, dict[int, float]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lowerfix"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    colours = dict(zip(TARGETS, ("tab:blue", "tab:orange"), strict=True))
    for target in TARGETS:
        axes.plot(
            *zip(*sorted(stock[target].items()), strict=True), "o--", color=colours[target], label=f"{target}, stock"
        )
        axes.plot(
            *zip(*sorted(quick[target].items()), strict=True), "o-", color=colours[target], label=f"{target}, lowerfix"
        )
    axes.set(xscale="log", yscale="log", xlabel="blocks", ylabel="CPU seconds of partition()")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(DOCS / "partitioning.svg", bbox_inches="tight", metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest-stock", type=int, default=400, help="blocks of the longest chain searched by stock")
    parser.add_argument("--lower", action="store_true", help="measure the whole lowering too")
    parser.add_argument("--lower-blocks", type=int, default=400)
    parser.add_argument("--only-lower", action="store_true", help="measure that alone, and replace its table")
    options = parser.parse_args()
    if options.only_lower:
        page = DOCS / "partitioning.md"
        found = lower_table(options.lower_blocks)
        print(found)
        kept = [part for part in page.read_text().split("\n\n") if not part.startswith("| whole lowering")]
        page.write_text("\n\n".join([*kept[:-1], found, kept[-1]]))
        return 0
    wrong = different(RANDOM_GRAPHS)
    compared = f"Of {RANDOM_GRAPHS} random graphs, {wrong} were partitioned otherwise than by PyTorch."
    print(compared, file=sys.stderr, flush=True)
    stock: dict[str, dict[int, float]] = {target: {} for target in TARGETS}
    quick: dict[str, dict[int, float]] = {target: {} for target in TARGETS}
    rows: list[list[str]] = []
    failed = [compared] if wrong else []
    for target in TARGETS:
        short = edge_program(exported(target, COPIED_BLOCKS), target)
        partition(repeated(short, 2), target, fast=True)  # what is done once in a process
        for blocks in STOCK_BLOCKS[target]:
            if blocks > options.largest_stock:
                continue
            program = (
                edge_program(exported(target, blocks), target)
                if blocks <= 100
                else repeated(short, blocks // COPIED_BLOCKS)
            )
            quick[target][blocks], found = partition(program, target, fast=True)
            stock[target][blocks], expected = partition(program, target, fast=False)
            if found != expected:
                failed.append(f"{target}, {blocks} blocks: other tags than stock")
            ratio = stock[target][blocks] / quick[target][blocks]
            rows.append(
                [
                    target,
                    f"{blocks}",
                    f"{len(program.graph.nodes)}",
                    f"{len(set(found.values()))}",
                    f"{stock[target][blocks]:.2f}",
                    f"{quick[target][blocks]:.3f}",
                    f"{ratio:.0f}",
                ]
            )
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
            if target == "vgf" and blocks == 400 and (ratio < LEAST_RATIO or quick[target][blocks] > MOST_SECONDS):
                failed.append(f"400 blocks: {quick[target][blocks]:.2f} s, ratio {ratio:.0f}")
        for blocks in LONG_BLOCKS:
            program = repeated(short, blocks // COPIED_BLOCKS)
            quick[target][blocks], found = partition(program, target, fast=True)
            rows.append([target, f"{blocks}", f"{len(program.graph.nodes)}", f"{len(set(found.values()))}", "",
                         f"{quick[target][blocks]:.3f}", ""])  # fmt: skip
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    growth = {target: exponent(list(LONG_BLOCKS), [quick[target][b] for b in LONG_BLOCKS]) for target in TARGETS}
    failed += [f"{target}: exponent {value:.2f}" for target, value in growth.items() if value > LARGEST_EXPONENT]
    parts = [compared, table(["target", "blocks", "nodes", "delegates", "stock, s", "lowerfix, s", "ratio"], rows)]
    parts.append(
        "\n".join(f"- {target}: grows with the blocks by a power of {growth[target]:.2f}" for target in TARGETS)
    )
    if options.lower:
        parts.append(lower_table(options.lower_blocks))
    print("\n\n".join(parts))
    plot(stock, quick)
    about = "\n\n".join(itertools.islice((__doc__ or "").split("\n\n"), 1, 3))
    head_line = f"<!-- Written by `{COMMAND}`; run it again instead of editing this. -->\n\n# The cost of partitioning"
    versions = f"torch {torch.__version__}, {time.strftime('%Y-%m-%d')}, one thread of this machine."
    picture = "![CPU seconds by blocks](partitioning.svg)"
    (DOCS / "partitioning.md").write_text("\n\n".join([head_line, about, versions, *parts, picture]) + "\n")
    print(*failed, sep="\n", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
