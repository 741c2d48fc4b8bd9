"""The demo: its model has what stock ExecuTorch splits, and the comparison survives what crashes."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
import torch
from rich.console import Console

from lowerfix import demo, demo_model, lowering
from lowerfix.errors import LowerfixError

MODELS = '''
import torch
from torch import nn

class Crop(nn.Module):
    """Arm's partitioner of ExecuTorch 1.5.1 takes the negative padding, and its preprocess dies of it."""

    def forward(self, x):
        return nn.functional.pad(x, (-1, 0)) * 2

class Pick(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 1)
        self.order = torch.tensor([2, 0])

    def forward(self, x):
        return self.conv(x)[:, self.order]

INPUTS = (torch.ones(1, 4, 8),)

def make():
    return Pick(), INPUTS

def make_crop():
    return Crop(), INPUTS

def calibrated():
    return Pick(), INPUTS, [INPUTS, INPUTS]

def fails():
    raise ValueError("no weights here")

def no_tuple():
    return Pick(), INPUTS[0]

def no_model():
    return "model", INPUTS

constant = 1
'''


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(demo_model.RobotPolicy().eval(), demo_model.example_inputs())


def test_policy_is_small_and_the_same_in_every_run() -> None:
    one, two = demo_model.RobotPolicy(), demo_model.RobotPolicy()
    assert 1000 < sum(parameter.numel() for parameter in one.parameters()) < 10_000
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert torch.equal(demo_model.example_inputs()[0], demo_model.calibration_inputs()[0][0])


def test_making_the_policy_leaves_the_random_state_alone() -> None:
    state = torch.random.get_rng_state()
    demo_model.RobotPolicy()
    demo_model.calibration_inputs()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_stock_splits_the_policy_on_vgf(program: torch.export.ExportedProgram) -> None:
    lowered = lowering.lower(program, "vgf", compile=False)
    assert lowered.delegates > 1
    assert set(lowered.cpu_ops) >= {"argmin", "convolution", "embedding", "index.Tensor"}


def test_stock_splits_the_policy_on_ethos_u(program: torch.export.ExportedProgram) -> None:
    quantized = lowering.quantize(program, "ethos-u85", demo_model.calibration_inputs())
    lowered = lowering.lower(quantized, "ethos-u85", compile=False)
    assert lowered.delegates > 1
    assert set(lowered.cpu_ops) >= {"argmin", "convolution", "tanh"}
    assert lowered.boundary_quantize == 2


def test_comparison_is_printed_and_the_files_written(models: Path) -> None:
    screen = io.StringIO()
    stock, fixed = demo.run(["vgf"], "my_models:make", models / "out", Console(file=screen, width=120))
    assert stock.lowered is not None
    assert fixed.lowered is not None
    assert stock.lowered.cpu_ops == {"index.Tensor": 1}
    assert (fixed.lowered.delegates, fixed.lowered.cpu_ops) == (1, {})
    for run, side in ((stock, "stock"), (fixed, "lowerfix")):
        assert not run.error
        assert run.snr is not None
        assert run.snr > 100
        assert run.path == models / "out" / f"make-vgf-{side}.pte"
        assert run.path.read_bytes()[4:6] == b"ET"
        assert str(run.path) in screen.getvalue().replace("\n", "")
    assert "my_models.py" in screen.getvalue().replace("\n", "")


def test_comparison_survives_a_crash_of_stock(models: Path) -> None:
    screen = io.StringIO()
    stock, _ = demo.run(["tosa-fp"], "my_models:make_crop", models / "out", Console(file=screen, width=120))
    assert "Error: " in stock.error
    assert stock.path is None
    assert stock.error[:20] in screen.getvalue()


def test_a_factory_gives_model_inputs_and_calibration(models: Path) -> None:
    subject = demo.load("my_models:calibrated")
    assert (subject.name, len(subject.calibration), subject.model.training) == ("calibrated", 2, False)
    assert demo.load("my_models:make").representative == [subject.inputs]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("my_models", "module:factory"),
        (":make", "module:factory"),
        ("my_models:missing", "missing"),
        ("my_models:fails", "no weights here"),
        ("my_models:constant", "TypeError"),
        ("my_models:no_tuple", "a tuple of its arguments"),
        ("my_models:no_model", "an nn.Module"),
    ],
)
def test_unusable_models_are_explained(models: Path, spec: str, message: str) -> None:
    with pytest.raises(LowerfixError, match=message):
        demo.load(spec)


def test_numbers_are_short() -> None:
    assert demo._number(None, ".1f") == ""
    assert demo._number(math.inf, ".1f") == "exact"
    assert demo._number(30.52, ".1f") == "30.5"
