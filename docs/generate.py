"""Write docs/passes/: one page a pass, from its docstring, and the index. --check only says whether they are stale.

Usage: python docs/generate.py [--check]
"""

import sys
from pathlib import Path

from lowerfix import registry
from lowerfix.rewritepass import RewritePass
from lowerfix.source import op_name

FOLDER = Path(__file__).parent / "passes"


def page(identifier: str) -> str:
    """The page of one pass, in Markdown."""
    cls = registry.get(identifier)
    module = sys.modules[cls.__module__]
    text = (module.__doc__ or "").replace("``", "`")
    title, _, body = text.partition("\n\n")
    facts = [f"Source: `{'/'.join(cls.__module__.split('.')[1:])}.py`"]
    if issubclass(cls, RewritePass):
        ops = dict.fromkeys(op_name(target) for rewrite in cls.rewrites for target in rewrite.targets)
        facts.append(f"Ops: {', '.join(f'`{op}`' for op in ops)}")
        facts.append(f"Alternatives, the cheapest first: {', '.join(f'`{rewrite.name}`' for rewrite in cls.rewrites)}")
    if cls.after:
        facts.append(f"Runs after: {', '.join(f'[{earlier}]({earlier}.md)' for earlier in cls.after)}")
    if cls.retire_when:
        facts.append(f"Can be retired when: {cls.retire_when}")
    lines = "\n".join(f"- {fact}" for fact in facts)
    return f"# {identifier}\n\n{title.strip()}\n\n{body.strip()}\n\n{lines}\n"


def pages() -> dict[Path, str]:
    """Every page by its path."""
    written = {FOLDER / f"{identifier}.md": page(identifier) for identifier in registry.all_passes()}
    rows = []
    for identifier, cls in registry.all_passes().items():
        first = (sys.modules[cls.__module__].__doc__ or "").partition("\n")[0].replace("``", "`")
        rows.append(f"| [{identifier}]({identifier}.md) | {first} |")
    written[FOLDER / "index.md"] = "# Passes\n\n| pass | |\n|---|---|\n" + "\n".join(rows) + "\n"
    return written


def main() -> int:
    """Write the pages, or tell which are stale; returns the exit code."""
    wanted = pages()
    there = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")} if FOLDER.is_dir() else {}
    stale = sorted(path for path in {*wanted, *there} if wanted.get(path) != there.get(path))
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(FOLDER.parent.parent)} is stale; run: python docs/generate.py", file=sys.stderr)
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
