"""Arm's targets: VGF, the Ethos-U NPUs, and the two plain TOSA profiles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from lowerfix.errors import LowerfixError
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


FLOAT = ("vgf", "tosa-fp")
"""The targets that compute in floats, for rewrites that are about what they alone do."""

# The extensions of the TOSA specification without which Arm refuses a dtype. Each belongs to one of the profiles.
EXTENSIONS = {
    "torch.bfloat16": "bf16",
    "torch.float8_e4m3fn": "fp8e4m3",
    "torch.float8_e5m2": "fp8e5m2",
    "torch.int16": "int16",
}


@dataclass(frozen=True)
class ArmTarget(Target):
    """What the Arm targets share: one quantizer configuration, and TOSA as the form that can be executed here.

    `extensions` are TOSA's, beyond those that the device has by default.
    """

    extensions: tuple[str, ...] = ()

    requirements: ClassVar[tuple[Requirement, ...]] = TOSA
    artefact: ClassVar[str] = "leading to an empty partition"

    def compile_spec(self) -> Any:
        """ExecuTorch's compile spec of the device; it holds the TOSA specification that decides what is supported."""
        raise NotImplementedError

    def with_extensions(self, *extensions: str) -> Target:
        valid = self._valid_extensions()
        wrong = [extension for extension in extensions if extension not in valid]
        if wrong:
            raise LowerfixError(
                f"target {self.name!r} cannot be extended by {', '.join(wrong)}; "
                f"the extensions that it can have are {', '.join(valid) or 'none'}"
            )
        added = tuple(sorted({*self.extensions, *extensions} - set(self._tosa_spec(()).extensions)))
        return replace(self, name="+".join([self.name.partition("+")[0], *added]), extensions=added)

    def suited_to(self, dtypes: Iterable[Any]) -> Target:
        wanted = {EXTENSIONS.get(str(dtype), "") for dtype in dtypes}
        return self.with_extensions(*(extension for extension in self._valid_extensions() if extension in wanted))

    def _tosa_spec(self, extensions: tuple[str, ...]) -> Any:
        """The TOSA specification with extensions."""
        return self.compile_spec().tosa_spec

    def _valid_extensions(self) -> list[str]:
        spec = self._tosa_spec(())
        valid = {extension for profile in spec.profiles for extension in spec.valid_extensions[profile]}
        return sorted(valid - {"u55"})  # which takes away

    def _quantizer(self, compile_spec: Any) -> Any:
        raise NotImplementedError

    def quantizer(self) -> Quantizer:
        from executorch.backends.arm.quantizer import get_symmetric_quantization_config

        quantizer = self._quantizer(self.compile_spec())
        quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
        return quantizer

    def executable_partitioner(self) -> Partitioner:
        from executorch.backends.arm.tosa.backend import TOSABackend
        from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

        # The same specification and pass settings as the device's, less what only its compiler reads.
        return TOSAPartitioner(TOSABackend.filter_tosa_compile_specs(self.compile_spec()))


@dataclass(frozen=True)
class Vgf(ArmTarget):
    """Vulkan ML extensions, through the VGF file format; takes float and int8 programs alike."""

    requirements: ClassVar[tuple[Requirement, ...]] = (
        *TOSA,
        Requirement("model_converter", "ai_ml_sdk_model_converter", decides=False, compile_only=True),
    )

    def compile_spec(self) -> Any:
        from executorch.backends.arm.vgf import VgfCompileSpec

        return VgfCompileSpec(self._tosa_spec(self.extensions))

    def _tosa_spec(self, extensions: tuple[str, ...]) -> Any:
        from executorch.backends.arm.vgf import VgfCompileSpec

        return _extended(str(VgfCompileSpec().tosa_spec), extensions)

    def _quantizer(self, compile_spec: Any) -> Any:
        from executorch.backends.arm.quantizer import VgfQuantizer

        return VgfQuantizer(compile_spec)

    def partitioner(self) -> Partitioner:
        from executorch.backends.arm.vgf import VgfPartitioner

        return VgfPartitioner(self.compile_spec())


@dataclass(frozen=True)
class EthosU(ArmTarget):
    """An Ethos-U NPU; `name` is also Vela's accelerator configuration. Integer programs only."""

    quantized: bool = True

    requirements: ClassVar[tuple[Requirement, ...]] = (
        *TOSA,
        Requirement("ethosu", "ethos-u-vela", decides=False, compile_only=True),
    )

    def compile_spec(self) -> Any:
        from executorch.backends.arm.ethosu import EthosUCompileSpec

        return EthosUCompileSpec(self.name)

    def _valid_extensions(self) -> list[str]:
        return []  # the core decides

    def _quantizer(self, compile_spec: Any) -> Any:
        from executorch.backends.arm.quantizer import EthosUQuantizer

        return EthosUQuantizer(compile_spec)

    def partitioner(self) -> Partitioner:
        from executorch.backends.arm.ethosu import EthosUPartitioner

        return EthosUPartitioner(self.compile_spec())

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

    def compile_spec(self) -> Any:
        from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

        return TosaCompileSpec(self._tosa_spec(self.extensions))

    def _tosa_spec(self, extensions: tuple[str, ...]) -> Any:
        return _extended(f"TOSA-1.0+{self.profile}", extensions)

    def _quantizer(self, compile_spec: Any) -> Any:
        from executorch.backends.arm.quantizer import TOSAQuantizer

        return TOSAQuantizer(compile_spec)

    def partitioner(self) -> Partitioner:
        return self.executable_partitioner()


def _extended(specification: str, extensions: tuple[str, ...]) -> Any:
    from executorch.backends.arm.tosa import TosaSpecification

    return TosaSpecification.create_from_string("+".join([specification, *extensions]))


TARGETS: tuple[Target, ...] = (
    Vgf("vgf"),
    *(EthosU(f"{core}-{macs}") for core, configurations in ETHOS_U_MACS.items() for macs in sorted(configurations)),
    Tosa("tosa-fp"),
    Tosa("tosa-int", quantized=True, profile="INT"),
)

ALIASES = {core: f"{core}-{configurations[0]}" for core, configurations in ETHOS_U_MACS.items()}
