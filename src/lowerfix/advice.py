"""What a user can do about a finding: the table behind ``Finding.fix``, and the pages that it leads to.

Reasons are what the backend, PyTorch or a pass says; each entry knows some of their words. An entry's ``help`` is the
anchor of a section of ``docs/troubleshooting.md``.
"""

import re
from dataclasses import dataclass

PAGE = "docs/troubleshooting.md"


@dataclass(frozen=True)
class Advice:
    """One thing to do.

    Attributes:
        words: a regular expression that the reason has to contain.
        help: the anchor of the section of the troubleshooting page.
        fix: what to do; may refer to groups of ``words``. Empty where the reason says it itself.
    """

    words: str
    help: str
    fix: str = ""


# What a pass offers by name. All that are found count.
OFFERS = (
    Advice(
        r'target="([\w+-]+)", that is (\w+\("[^"]+"\))',
        "bfloat16-stays-on-the-cpu",
        'lower for target="{1}": pass {2}, or lowerfix.compile_spec("{1}"), to the partitioner',
    ),
    Advice(
        r"promises=(\{.*?\})",
        "could-not-guard-on-data-dependent-expression",
        "promises={1}, if that is so",
    ),
    Advice(r'allow="([\w-]+)"', "what-has-to-be-allowed", 'allow="{1}"'),
)

# What else there is to do. The first that is found counts.
ENTRIES = (
    Advice(r"is not quantized|apply lowerfix before prepare_pt2e", "the-program-is-not-quantized"),
    Advice(
        r"not marked as quantized",
        "the-program-is-not-quantized",
        "apply lowerfix before the quantizer; what is left then, compute by ops that the quantizer knows",
    ),
    Advice(r"in Edge dialect", "the-program-is-in-edge-dialect", "apply lowerfix before to_edge"),
    Advice(r"call_module", "call_module-is-not-supported", "program.module(check_guards=False)"),
    Advice(
        r"data-dependent|depends on data",
        "could-not-guard-on-data-dependent-expression",
        "make the size static, or promise it: apply(..., promises={{...}})",
    ),
    Advice(
        r"index dtype must be|Indices dtype|Non-constant int64|Output dtype torch.int64|torch.int64 input",
        "indextensor-requires-index-dtype-must-be-int32",
        "compute in int32: cast the int64 input where it enters the program",
    ),
    Advice(
        r"no kernel|Missing out variants|no out variant",
        "missing-out-variants",
        "compute it otherwise, or link a kernel for it into your runtime: the .pte would not load",
    ),
    Advice(r"draws random|random number", "random-numbers", 'allow="random-to-input"'),
    Advice(r"control-flow", "control-flow", "take the branch or unroll the loop in Python, where that can be decided"),
    Advice(r"Core ATen opset", "is-not-in-core-aten-opset", "EdgeCompileConfig(_check_ir_validity=False)"),
    Advice(
        r"float64|complex128",
        "float64-stays-on-the-cpu",
        "compute in float32: cast where the float64 begins",
    ),
    Advice(
        r"bfloat16",
        "bfloat16-stays-on-the-cpu",
        "a compile spec with bfloat16, by lowerfix.compile_spec(target, program), or a model.float()",
    ),
    Advice(r"complex64|complex32", "complex-numbers", "compute with real and imaginary parts"),
    Advice(
        r"invalid dtype",
        "invalid-dtype",
        "compute it in float32, or where no input is needed: lowerfix folds it then",
    ),
    Advice(r"dies on it", "the-lowering-dies-on-it", "compute it otherwise, or keep it on the CPU"),
    Advice(
        r"empty partition|partition only contains|artition was rejected",
        "leading-to-an-empty-partition",
        "nothing, if the ops around it only move data",
    ),
    Advice(
        r"does not take this op.*here (int|uint|bool)",
        "invalid-dtype",
        "compute it in float32, or before the model runs: XNNPACK has no integers",
    ),
    Advice(
        r"Not included in BaseTOSASupportList|does not take this op",
        "not-included-in-basetosasupportlist",
        "compute it by other ops, or add a rewrite (CONTRIBUTING.md)",
    ),
    Advice(
        r"not supported|unsupported|does not take it whole|gives no reason|should|must|expect",
        "other-reasons",
        "compute it with arguments that the backend takes, or add a rewrite (CONTRIBUTING.md)",
    ),
)


def leads(reason: str) -> str:
    """The sentences that lead from an error to what can be done about it; empty where nothing is known."""
    fix, anchor = advise(reason)
    return (f". Next step: {fix}" if fix else "") + (f". See {PAGE}#{anchor}" if anchor else "")


# What backends say, in plain words.
MEANINGS = (
    ("Not included in BaseTOSASupportList", "Arm's backend has no form of this op in TOSA"),
    ("not marked as quantized", "the quantizer left it in float, and the target computes in integers"),
    ("None (from slice", "a slice stands before the index, as in x[:, index]"),
    ("leading to an empty partition", "alone it is not worth a delegate"),
    ("invalid dtype", "XNNPACK computes in float32, float16 and quantized int8, with sizes that are known"),
)


def in_plain_words(reason: str) -> str:
    """A backend's reason, with what it means before it where that is known."""
    for words, meaning in MEANINGS:
        if words in reason:
            return f"{meaning} ({reason.rstrip('.')})"
    return reason


def advise(reason: str) -> tuple[str, str]:
    """What to do about a reason, and the anchor to read more; both empty where nothing is known."""
    offers = []
    anchor = ""
    for offer in OFFERS:
        for match in re.finditer(offer.words, reason):
            offers.append(offer.fix.format(match[0], *match.groups()))
            anchor = anchor or offer.help
    if offers:
        return " or ".join(dict.fromkeys(offers)), anchor
    for entry in ENTRIES:
        if found := re.search(entry.words, reason, re.IGNORECASE):
            return entry.fix.format(found[0]), entry.help
    return "", ""
