"""Torch's list of composite operators, made once instead of for every lowering.

``run_decompositions`` asks torch for all its composite operators each time, and a lowering runs it three times; torch
makes the list anew for every namespace of operators, 0.3 s in all. That is a third of what a small probe takes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._export import utils
from torch.export import decomp_utils, exported_program

_NAME = "_collect_all_valid_cia_ops"
_known: tuple[tuple[int, int], set[Any]] | None = None


@contextmanager
def listed_once() -> Iterator[None]:
    """While it is open, torch's list of composite operators is made again only after operators have been registered."""
    original = getattr(utils, _NAME, None)
    importers = [m for m in (decomp_utils, exported_program) if original and getattr(m, _NAME, None) is original]

    def remembered() -> set[Any]:
        global _known
        assert original is not None
        registered = len(torch._C._dispatch_get_all_op_names()), len(torch.ops._dir)
        if _known is None or _known[0] != registered:
            found = original()  # may load operators by itself
            _known = (len(torch._C._dispatch_get_all_op_names()), len(torch.ops._dir)), found
        return _known[1]

    for module in importers:
        setattr(module, _NAME, remembered)
    try:
        yield
    finally:
        for module in importers:
            setattr(module, _NAME, original)
