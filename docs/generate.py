"""Write docs/passes/, one page a pass and the index, and docs/limits.md, all of it from the passes' docstrings.

--check only says whether they are stale.

Usage: python docs/generate.py [--check]
"""

import sys
from pathlib import Path

from lowerfix import registry
from lowerfix.rewritepass import RewritePass
from lowerfix.source import op_name

DOCS = Path(__file__).parent
FOLDER = DOCS / "passes"

LEAVES = "**What it leaves alone.**"

LIMITS = """# Limits

What lowerfix does not do. In a report each of these has its reason and your source line.

## In general

- The dtypes of a program's inputs and outputs stay. An int64 input or output is cast on the CPU, since no Arm target
  has int64: that one cast stays there (`allow="int32-inputs"` and `allow="int32-outputs"` change the interface).
- A program that only moves data (`x.view(...)`, `x.clone()`) has nothing to delegate, and stays on the CPU.
- Sizes that depend on data (`x[mask]`, `nonzero`): what has a static form of the same numbers gets it; the rest is
  left as it is, unless you promise how many rows there are: `promises={"x[mask]": "all-true"}`. `unique` has no such
  form.
- XNNPACK computes in floats alone: comparisons, `where`, masks that are computed, and integers stay on the CPU there.
  It has no op that makes a number of NaN on every processor (its maximum and exp lose NaN on x86 and keep it on Arm),
  so what has to ignore a NaN stays there too: `sign`, `nan_to_num`, `fmax`, `nansum`, `hypot`, `copysign`.
- A delegate computes what its backend does. On x86, XNNPACK's max pooling and maximum lose a NaN, its `exp` makes 0 of
  it, `sigmoid` is NaN from 1e30 on, and `sqrt` of infinity is NaN; so where a rewrite brings an op into the delegate
  that was on the CPU (max_pool1d, Mish), that holds for it too.
- For VGF in int8 wrap the quantizer: `apply` alone cannot know that a float program is going to be quantized.
- The bodies of control-flow ops (`torch.cond`, `while_loop`, `scan`) are left as they are.
- Complex inputs and outputs, sparse tensors, random numbers (`allow="random-to-input"`), factorisations and solvers.
- What is in the Edge dialect already: ops are decomposed by then, and most rewrites come too late.

## By pass

"""


def page(identifier: str) -> str:
    """The page of one pass, in Markdown."""
    cls = registry.get(identifier)
    title, _, body = documentation(identifier).partition("\n\n")
    facts = [f"Source: `{'/'.join(cls.__module__.split('.')[1:])}.py`"]
    if issubclass(cls, RewritePass) and cls.rewrites:
        ops = dict.fromkeys(op_name(target) for rewrite in cls.rewrites for target in rewrite.targets)
        facts.append(f"Ops: {', '.join(f'`{op}`' for op in ops)}")
        facts.append(f"Alternatives, the cheapest first: {', '.join(f'`{rewrite.name}`' for rewrite in cls.rewrites)}")
    if "*" in cls.after:
        facts.append("Runs after all others")
    elif cls.after:
        facts.append(f"Runs after: {', '.join(f'[{earlier}]({earlier}.md)' for earlier in cls.after)}")
    if cls.retire_when:
        facts.append(f"Can be retired when: {cls.retire_when}")
    lines = "\n".join(f"- {fact}" for fact in facts)
    return f"# {identifier}\n\n{title.strip()}\n\n{body.strip()}\n\n{lines}\n"


def documentation(identifier: str) -> str:
    """The docstring of a pass's module, in Markdown."""
    return (sys.modules[registry.get(identifier).__module__].__doc__ or "").replace("``", "`")


def family(identifier: str) -> str:
    """The folder that a pass is in."""
    return registry.get(identifier).__module__.split(".")[-2].replace("_", " ")


def index() -> str:
    """All passes by family, each with the first line of its docstring."""
    text = "# Passes\n"
    names = list(registry.all_passes())
    for group in sorted(set(map(family, names))):
        rows = [
            f"| [{name}]({name}.md) | {documentation(name).partition(chr(10))[0]} |"
            for name in names
            if family(name) == group
        ]
        text += f"\n## {group.capitalize()}\n\n| pass | |\n|---|---|\n" + "\n".join(rows) + "\n"
    return text


def limits() -> str:
    """What each pass leaves alone, in its own words."""
    parts = []
    for name in registry.all_passes():
        _, found, left = documentation(name).partition(LEAVES)
        if found:
            parts.append(f"**[{name}](passes/{name}.md)**: {' '.join(left.partition(chr(10) * 2)[0].split())}\n")
    return LIMITS + "\n".join(parts)


def pages() -> dict[Path, str]:
    """Every page by its path."""
    written = {FOLDER / f"{identifier}.md": page(identifier) for identifier in registry.all_passes()}
    return {**written, FOLDER / "index.md": index(), DOCS / "limits.md": limits()}


def main() -> int:
    """Write the pages, or tell which are stale; returns the exit code."""
    wanted = pages()
    found = [*FOLDER.glob("*.md"), *DOCS.glob("limits.md")]
    there = {path: path.read_text(encoding="utf-8") for path in found}
    stale = sorted(path for path in {*wanted, *there} if wanted.get(path) != there.get(path))
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is stale; run: python docs/generate.py", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for path in stale:
        if path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
