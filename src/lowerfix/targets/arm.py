"""Arm's targets: VGF, the Ethos-U NPUs, and the two plain TOSA profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lowerfix.targets.base import TORCH, Requirement, Target

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner
    from torchao.quantization.pt2e.quantizer import Quantizer

# Lowering to TOSA needs the serializer; tosa-tools brings the reference model along with it.
TOSA = (*TORCH, Requirement("tosa_serializer", "tosa-tools"))

# Vela's accelerator configurations, in multiply-accumulates per cycle. The first is what the bare name stands for: the
# configuration that ExecuTorch's own examples and tests use.
ETHOS_U_MACS = {
    "ethos-u55": (128, 32, 64, 256),
    "ethos-u65": (256, 512),
    "ethos-u85": (256, 128, 512, 1024, 2048),
}


class ArmTarget(Target):
    """What the Arm targets share: one quantizer configuration, and TOSA as the form that can be executed here."""

    requirements: ClassVar[tuple[Requirement, ...]] = TOSA
    artefact: ClassVar[str] = "leading to an empty partition"

    def _compile_spec(self) -> Any:
        """ExecuTorch's compile spec of the device; it holds the TOSA specification that decides what is supported."""
        raise NotImplementedError

    def _quantizer(self, compile_spec: Any) -> Any:
        raise NotImplementedError

    def quantizer(self) -> Quantizer:
        from executorch.backends.arm.quantizer import get_symmetric_quantization_config

        quantizer = self._quantizer(self._compile_spec())
        quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
        return quantizer

    def executable_partitioner(self) -> Partitioner:
        from executorch.backends.arm.tosa.backend import TOSABackend
        from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

        # The same specification and pass settings as the device's, less what only its compiler reads.
        return TOSAPartitioner(TOSABackend.filter_tosa_compile_specs(self._compile_spec()))


@dataclass(frozen=True)
class Vgf(ArmTarget):
    """Vulkan ML extensions, through the VGF file format; takes float and int8 programs alike."""

    requirements: ClassVar[tuple[Requirement, ...]] = (
        *TOSA,
        Requirement("model_converter", "ai_ml_sdk_model_converter", decides=False, compile_only=True),
    )

    def _compile_spec(self) -> Any:
        from executorch.backends.arm.vgf import VgfCompileSpec

        return VgfCompileSpec()

    def _quantizer(self, compile_spec: Any) -> Any:
        from executorch.backends.arm.quantizer import VgfQuantizer

        return VgfQuantizer(compile_spec)

    def partitioner(self) -> Partitioner:
        from executorch.backends.arm.vgf import VgfPartitioner

        return VgfPartitioner(self._compile_spec())


@dataclass(frozen=True)
class EthosU(ArmTarget):
    """An Ethos-U NPU; `name` is also Vela's accelerator configuration. Integer programs only."""

    quantized: bool = True

    requirements: ClassVar[tuple[Requirement, ...]] = (
        *TOSA,
        Requirement("ethosu", "ethos-u-vela", decides=False, compile_only=True),
    )

    def _compile_spec(self) -> Any:
        from executorch.backends.arm.ethosu import EthosUCompileSpec

        return EthosUCompileSpec(self.name)

    def _quantizer(self, compile_spec: Any) -> Any:
        from executorch.backends.arm.quantizer import EthosUQuantizer

        return EthosUQuantizer(compile_spec)

    def partitioner(self) -> Partitioner:
        from executorch.backends.arm.ethosu import EthosUPartitioner

        return EthosUPartitioner(self._compile_spec())

    def executable_partitioner(self) -> Partitioner:
        # Ethos-U's partitioner refuses symbolic shapes on top of what TOSA's does, so it is kept, and only what it
        # tags is handed to the TOSA backend instead of Vela.
        partitioner = self.partitioner()
        partitioner.delegation_spec = super().executable_partitioner().delegation_spec
        return partitioner


@dataclass(frozen=True)
class Tosa(ArmTarget):
    """A plain TOSA 1.0 profile, `FP` or `INT`, with no device behind it: the smallest thing to ask and to execute."""

    profile: str = "FP"

    def _compile_spec(self) -> Any:
        from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

        return TosaCompileSpec(f"TOSA-1.0+{self.profile}")

    def _quantizer(self, compile_spec: Any) -> Any:
        from executorch.backends.arm.quantizer import TOSAQuantizer

        return TOSAQuantizer(compile_spec)

    def partitioner(self) -> Partitioner:
        return self.executable_partitioner()


TARGETS: tuple[Target, ...] = (
    Vgf("vgf"),
    *(EthosU(f"{core}-{macs}") for core, configurations in ETHOS_U_MACS.items() for macs in sorted(configurations)),
    Tosa("tosa-fp"),
    Tosa("tosa-int", quantized=True, profile="INT"),
)

ALIASES = {core: f"{core}-{configurations[0]}" for core, configurations in ETHOS_U_MACS.items()}
