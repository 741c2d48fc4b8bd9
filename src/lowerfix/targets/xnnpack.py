"""XNNPACK: float and int8 on the CPU, the one target whose `.pte` files run on this machine as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lowerfix.targets.base import Target

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner
    from torchao.quantization.pt2e.quantizer import Quantizer


@dataclass(frozen=True)
class Xnnpack(Target):
    """The XNNPACK delegate of ExecuTorch; takes float and int8 programs alike."""

    runs_here: ClassVar[bool] = True
    unexplained: ClassVar[str] = "XNNPACK's partitioner does not take this op, or not with these arguments"

    def partitioner(self) -> Partitioner:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return XnnpackPartitioner()

    def executable_partitioner(self) -> Partitioner:
        return self.partitioner()

    def quantizer(self) -> Quantizer:
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )

        quantizer: Any = XNNPACKQuantizer()
        return quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))


TARGETS: tuple[Target, ...] = (Xnnpack("xnnpack"),)
