"""What lowerfix has to know of a backend: a `Target` is the record that the engine asks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from lowerfix.errors import LowerfixError

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node
    from torchao.quantization.pt2e.quantizer import Quantizer


@dataclass(frozen=True)
class Requirement:
    """A package that a target cannot do without.

    `module` is what is imported and `distribution` what pip installs. `decides` says that its version has a part in
    which ops the backend accepts; `compile_only` that it is needed only to make the file for the device.
    """

    module: str
    distribution: str
    decides: bool = True
    compile_only: bool = False


TORCH = (
    Requirement("torch", "torch"),
    Requirement("executorch", "executorch"),
    Requirement("torchao", "torchao"),
)

# Reasons are caught in executorch's own helper classes, which are shared by the whole process.
_REASONS = threading.RLock()


@dataclass(frozen=True)
class Target(ABC):
    """A backend as lowerfix sees it; subclass it to add one (entry point group `lowerfix.targets`).

    Making a target, comparing it and reading its fields imports neither torch nor executorch: only the methods that
    build something do. Targets compare by value and can be keys of a cache.

    `name` is the canonical name (`ethos-u85-256`). `quantized` says that the backend computes in int8 only, so that
    what it accepts can be asked only of a quantized program. `unexplained` is the reason to show for a node that the
    partitioner left without saying why; `artefact` is a part of the reason for which it leaves ops that it takes in the
    company of others. `runs_here` says that ExecuTorch's runtime on this machine executes its delegates.
    """

    name: str
    quantized: bool = False

    requirements: ClassVar[tuple[Requirement, ...]] = TORCH
    artefact: ClassVar[str] = ""
    runs_here: ClassVar[bool] = False
    unexplained: ClassVar[str] = "the backend's partitioner gives no reason"

    @abstractmethod
    def partitioner(self) -> Partitioner:
        """A new partitioner for the device itself; lowering with it runs the target's compiler, where it has one."""

    @abstractmethod
    def executable_partitioner(self) -> Partitioner:
        """A new partitioner that takes the same nodes, and whose delegates can be executed on this machine."""

    @abstractmethod
    def quantizer(self) -> Quantizer:
        """A new PT2E quantizer: symmetric int8, per-channel weights, for the whole model."""

    def compile_spec(self) -> Any:
        """ExecuTorch's compile spec of the backend; raises `LowerfixError` for a backend that has none."""
        raise LowerfixError(f"target {self.name!r} has no compile spec: its partitioner takes none")

    def with_extensions(self, *extensions: str) -> Target:
        """This target with extensions of its instruction set that it does not have by default: `vgf+bf16`.

        Raises `LowerfixError` for those that it cannot have.
        """
        if extensions:
            raise LowerfixError(f"target {self.name!r} cannot be extended by {', '.join(extensions)}; it takes none")
        return self

    def suited_to(self, dtypes: Iterable[Any]) -> Target:
        """This target with the extensions that tensors of some dtypes need, where there are any."""
        return self

    def check_installed(self, *, compile: bool = False) -> None:
        """Make sure that what the target needs can be found, without importing it.

        `compile` asks also for what is needed only to make the file for the device (Vela, the model converter).
        Raises `LowerfixError`, with the pip command, when something is missing.
        """
        needed = [r for r in self.requirements if compile or not r.compile_only]
        missing = [r.distribution for r in needed if find_spec(r.module) is None]
        if missing:
            verb = "be compiled for" if all(r.compile_only for r in needed if r.distribution in missing) else "be used"
            raise LowerfixError(
                f"target {self.name!r} cannot {verb}: {', '.join(missing)} not installed. "
                f"Next step: pip install {' '.join(missing)}"
            )

    def versions(self) -> dict[str, str]:
        """Distribution name -> installed version, of everything that decides which ops the backend accepts.

        Distributions that are not installed are left out. Reads the package metadata; imports nothing.
        """
        found = {}
        for requirement in self.requirements:
            if requirement.decides:
                try:
                    found[requirement.distribution] = version(requirement.distribution)
                except PackageNotFoundError:
                    continue
        return found

    @contextmanager
    def rejections(self) -> Iterator[dict[str, str]]:
        """Record why nodes are refused: yields a dict, node name -> the partitioner's reason, that fills on the way.

        Only what this thread partitions is recorded, and the first reason for a node is kept. A node that has a
        reason may still have been taken: Arm asks several checks and one yes is enough, so look at its tag first. A
        refused node that is not in the dict has `unexplained` for a reason.

        ExecuTorch has two helpers for reasons, `WhyNoPartitionReporter` (Arm) and `WhyNoPartition` (XNNPACK), and
        neither hands them out, so a method of each is replaced while the context is active. Other threads that want
        to record wait.
        """
        from executorch.exir.backend.utils import WhyNoPartition, WhyNoPartitionReporter

        found: dict[str, str] = {}
        owner = threading.get_ident()

        def recording(original: Any) -> Any:
            def record(helper: Any, node: Node, *args: Any, **kwargs: Any) -> None:
                original(helper, node, *args, **kwargs)
                if threading.get_ident() == owner:
                    reason = args[0] if args else kwargs.get("reason", "")
                    # Arm reports placeholders too; XNNPACK has calls that pass the reason where the node belongs.
                    if getattr(node, "op", None) == "call_function":
                        found.setdefault(node.name, " ".join(str(reason).split()))

            return record

        with _REASONS:
            places = [(WhyNoPartitionReporter, "report_reject"), (WhyNoPartition, "__call__")]
            originals = [getattr(helper, method) for helper, method in places]
            try:
                for (helper, method), original in zip(places, originals, strict=True):
                    setattr(helper, method, recording(original))
                yield found
            finally:
                for (helper, method), original in zip(places, originals, strict=True):
                    setattr(helper, method, original)
