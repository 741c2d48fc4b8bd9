"""Lowering with the real backends: counts, estimates, execution, and what may not leak to the screen."""

from __future__ import annotations

import io
import math
import os
import subprocess
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lowerfix import lowering, targets
from lowerfix.errors import LowerfixError
from lowerfix.lowering import cosine, execute, lower, max_abs_error, quantize, signal_to_noise


class Split(nn.Module):
    """Two convolutions with an op between them that no target takes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 8, 3, padding=1)
        self.second = nn.Conv1d(8, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.second(torch.atan2(y, y.abs()))


INPUTS = (torch.linspace(-1, 1, 64).reshape(1, 4, 16),)


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Split().eval()


@pytest.fixture(scope="module")
def program(model: nn.Module) -> torch.export.ExportedProgram:
    return torch.export.export(model, INPUTS)


@pytest.fixture(scope="module")
def quantized(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    return quantize(program, "ethos-u85", [INPUTS])


@pytest.mark.parametrize("name", ["vgf", "xnnpack"])
def test_float_program_is_split_and_executed(model: nn.Module, program: Any, name: str) -> None:
    lowered = lower(program, name, compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (2, {"atan2": 1})
    assert lowered.boundary_quantize == lowered.inner_quantize == 0
    assert 0 < lowered.partition_seconds < lowered.seconds
    assert lowered.vela is None
    assert signal_to_noise(model(*INPUTS), execute(lowered, INPUTS)) > 100


def test_quantized_program_is_bit_exact_on_the_reference_model(quantized: Any) -> None:
    lowered = lower(quantized, "ethos-u85", compile=False)
    assert (lowered.delegates, lowered.cpu_ops) == (2, {"atan2": 1})
    assert lowered.boundary_quantize == 2
    assert lowered.inner_quantize > 0
    assert max_abs_error(quantized.module()(*INPUTS), execute(lowered, INPUTS)) == 0


def test_vela_is_run_and_its_estimate_kept(quantized: Any) -> None:
    lowered = lower(quantized, "ethos-u85", compile=True)
    assert lowered.vela is not None
    assert lowered.vela.cycles > 0
    assert lowered.vela.sram_kib > 0
    assert lowered.pte()[4:6] == b"ET"
    assert lowered.pte() is lowered.pte()
    with pytest.raises(LowerfixError, match="compile=False"):
        execute(lowered, INPUTS)


def test_model_converter_is_found_without_an_activated_environment(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert lower(program, "vgf", compile=True).delegates == 2
    assert os.environ["PATH"] == "/usr/bin:/bin"


def test_partitioner_can_be_replaced_and_is_left_as_it_was(program: Any) -> None:
    partitioner = targets.get("tosa-fp").executable_partitioner()
    lower(program, "vgf", compile=False, partitioner=partitioner)
    assert "partition" not in vars(partitioner)


def test_program_without_delegates_is_executed_too() -> None:
    class Atan(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.atan2(x, x)

    lowered = lower(torch.export.export(Atan(), INPUTS), "vgf", compile=False)
    assert lowered.delegates == 0
    assert max_abs_error(Atan()(*INPUTS), execute(lowered, INPUTS)) < 1e-6


def test_quantizer_can_be_replaced(program: Any) -> None:
    from torchao.quantization.pt2e.quantizer import Quantizer

    class Nothing(Quantizer):  # type: ignore[misc]
        def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
            return model

        def validate(self, model: torch.fx.GraphModule) -> None:
            pass

    same = quantize(program, "ethos-u85", [INPUTS], quantizer=Nothing())
    assert not any("quantize" in str(node.target) for node in same.graph.nodes)


def test_no_calibration_is_an_error(program: Any) -> None:
    with pytest.raises(LowerfixError, match="calibration"):
        quantize(program, "ethos-u85", [])


def test_what_subprocesses_print_is_caught(capfd: pytest.CaptureFixture[str]) -> None:
    with lowering.captured_output() as captured:
        subprocess.run(["echo", "from a subprocess"], check=True)
        os.write(2, b"from C\n")
    assert captured.log == "from a subprocess\nfrom C\n"
    assert capfd.readouterr() == ("", "")


def test_what_was_printed_before_an_error_is_kept() -> None:
    def fail() -> None:
        with lowering.captured_output():
            os.write(1, b"the reason\n")
            raise RuntimeError("failed")

    with pytest.raises(RuntimeError) as error:
        fail()
    if hasattr(error.value, "__notes__"):
        assert "the reason" in error.value.__notes__[0]


def test_op_names_are_short() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    names = {
        torch.ops.aten.argmin.default: "argmin",
        torch.ops.aten.where.self: "where.self",
        torch.ops.quantized_decomposed.quantize_per_tensor.default: "quantize_per_tensor",
    }
    for op, name in names.items():
        assert lowering.op_name(graph.call_function(op, (x,))) == name


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("reference", "actual", "snr", "worst"),
    [
        ([1.0, 2.0], [1.0, 2.0], INF, 0.0),
        ([3.0, 4.0], [3.0, 4.5], 20.0, 0.5),
        ([0.0], [1.0], -INF, 1.0),
        ([NAN, INF, -INF], [NAN, INF, -INF], INF, 0.0),
        ([1.0], [NAN], -INF, INF),
        ([INF], [-INF], -INF, INF),
        ([], [], INF, 0.0),
    ],
)
def test_measures(reference: list[float], actual: list[float], snr: float, worst: float) -> None:
    pair = torch.tensor(reference), (torch.tensor(actual),)
    assert signal_to_noise(*pair) == pytest.approx(snr)
    assert max_abs_error(*pair) == worst


def test_measures_span_all_outputs() -> None:
    reference = {"a": torch.tensor([3.0]), "b": torch.tensor([4])}
    assert signal_to_noise(reference, [torch.tensor([3.5]), torch.tensor([4])]) == pytest.approx(20.0)
    assert cosine(reference, [torch.tensor([6.0]), torch.tensor([8])]) == pytest.approx(1.0)
    assert cosine(torch.zeros(2), torch.zeros(2)) == 1
    assert cosine(torch.zeros(2), torch.ones(2)) == 0


def test_measures_refuse_other_shapes() -> None:
    with pytest.raises(LowerfixError, match=r"\(1, 2\).*\(2,\)"):
        signal_to_noise(torch.zeros(1, 2), torch.zeros(2))


def test_capturing_works_where_stdout_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    with lowering.captured_output():
        print("a notebook's own stream")
