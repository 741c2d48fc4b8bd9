"""Lower SmolVLM's vision encoder to XNNPACK as optimum-executorch exports it, by stock ExecuTorch and with lowerfix.

It drops padding images by a mask, so that all behind it has a size that depends on data: most of it stays on the CPU,
and writing the ``.pte`` fails. With the promise that no image is padding the ``.pte`` is one delegate, and is executed.
The model is tiny, made from a configuration, with random weights: nothing is downloaded.

It needs packages that lowerfix does not: ``pip install transformers==5.24.*`` and
``pip install --no-deps optimum optimum-executorch==1.1.0``.

Exits 1 unless with the promise there is one delegate, no op on the CPU, and no error above 1e-5; without it, lowerfix
names the mask and ``to_executorch`` does not fail; and both guards tell a broken promise.
"""

from __future__ import annotations

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

import lowerfix
from lowerfix import lowering

TARGET = "xnnpack"
TOLERANCE = 1e-5
IMAGES = 3


def encoder() -> nn.Module:
    """What optimum-executorch exports of a multimodal model: its vision encoder and the projection behind it."""
    try:
        from optimum.exporters.executorch.integrations import VisionExportableModule
        from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration
    except ImportError as error:
        sys.exit(f"{error}. Next step: see the first lines of {__file__}")
    torch.manual_seed(0)
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {"model_type": "llama", "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 1}
    config = SmolVLMConfig(
        vision_config={**vision, "image_size": 32, "patch_size": 8},
        text_config={**text, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 100, "pad_token_id": 0},
        scale_factor=2,
        image_token_id=50,
    )
    config._attn_implementation = "sdpa"
    model: nn.Module = VisionExportableModule(SmolVLMForConditionalGeneration(config).eval().model)
    return model


def export(model: nn.Module, images: Tensor) -> ExportedProgram:
    with torch.no_grad():
        return torch.export.export(model, (images,))


def describe(name: str, lowered: lowering.Lowered) -> None:
    left = ", ".join(f"{op} {count}" for op, count in lowered.cpu_ops.items())
    print(f"{name}: {lowered.delegates} delegates, {sum(lowered.cpu_ops.values())} ops left: {left or 'none'}")


def main() -> None:
    model, images = encoder(), torch.randn(1, IMAGES, 3, 32, 32)
    padded = images.clone()
    padded[0, 1] = 0
    with torch.no_grad():
        eager = [leaf for leaf in tree_leaves(model(images)) if isinstance(leaf, Tensor)]
    wrong: list[str] = []

    stock = lowering.lower(export(model, images), TARGET, compile=False)
    describe("stock", stock)
    try:
        stock.pte()
    except Exception as error:
        print(f"stock: to_executorch fails: {str(error).splitlines()[0]}")

    report = lowerfix.Report()
    unpromised = lowering.lower(
        lowerfix.apply(export(model, images), target=TARGET, report=report), TARGET, compile=False
    )
    describe("no promise", unpromised)
    unpromised.pte()
    findings = [finding for finding in report.of("declined") if finding.pass_id == "promised-masks"]
    for finding in findings:
        print(f"no promise: {finding.node} at {finding.source}: {finding.reason}")
    if not findings:
        wrong.append("no finding names the mask")

    site = findings[0].node if findings else "index"
    promises = {site: "all-true"}
    lowered = lowering.lower(
        lowerfix.apply(export(model, images), target=TARGET, promises=promises), TARGET, compile=False
    )
    describe("promised", lowered)
    if lowered.delegates != 1 or lowered.cpu_ops:
        wrong.append("with the promise it is not one delegate with nothing left")
    error = lowering.max_abs_error(eager, lowering.execute(lowered, (images,)))
    print(f"promised: largest error {error:.1e}")
    if not error <= TOLERANCE:
        wrong.append(f"the error is {error}, more than {TOLERANCE}")

    for guard in ("output", "poison"):
        guarded = lowerfix.apply(export(model, images), target=TARGET, promises=promises, guard=guard)
        kept, broken = (tree_leaves(guarded.module()(given)) for given in (images, padded))
        last = kept[-1], broken[-1]
        tells = [bool((leaf == 0).any() if guard == "output" else leaf.isnan().any()) for leaf in last]
        print(f"guard={guard!r}: tells a kept promise {tells[0]}, a broken one {tells[1]}")
        if tells != [False, True]:
            wrong.append(f"guard={guard!r} does not tell a broken promise")

    for line in wrong:
        print(f"FAILED: {line}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
