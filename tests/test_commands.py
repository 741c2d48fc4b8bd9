"""The commands of the command line, as a user calls them, and what they say of bad input."""

from __future__ import annotations

import json
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lowerfix import cli, lowering
from lowerfix.report import Report
from lowerfix.screen import working

MODELS = """
import torch
from torch import nn

X = torch.linspace(-1, 1, 32).reshape(1, 4, 8)

class Gamma(nn.Module):
    def forward(self, x):
        return torch.lgamma(x + 1) * 2

class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(4, 4, 3)

    def forward(self, x):
        return self.up(x)

class Branch(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x

def gamma():
    return Gamma(), (X,)

def up():
    return Up(), (X,)

def calibrated():
    return Up(), (X,), [(X,), (-X,)]

def branch():
    return Branch(), (X,)

def fails():
    raise ValueError("no weights here")
"""

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """Calls `lowerfix` in a folder with models; gives the exit code, and what was printed."""
    (tmp_path / "command_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "logs"))
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lowerfix", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return int(left.value.code or 0), *capfd.readouterr()

    return call


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "up.pt2"
    torch.manual_seed(0)
    torch.export.save(torch.export.export(torch.nn.ConvTranspose1d(4, 4, 3).eval(), (torch.ones(1, 4, 8),)), path)
    return path


def test_explain_says_what_stays_and_gates(call: Call, tmp_path: Path) -> None:
    code, out, err = call("explain", "command_models:gamma", "--target", "tosa-fp", "--json", "report.json")
    assert (code, err) == (0, "")
    for words in ("aten.lgamma.default", "command_models.py:9", "Next step"):
        assert words in out
    report = Report.load(tmp_path / "report.json")
    assert report.after is not None
    assert dict(report.after.cpu_ops)["aten.lgamma.default"] == 1
    code, _, err = call("explain", "command_models:gamma", "-t", "tosa-fp", "--strict", "--baseline", "report.json")
    assert code == 1
    assert err.startswith("tosa-fp does not take the whole program: ")
    assert err.count("\n") == 1
    report.after.cpu_ops.clear()  # type: ignore[attr-defined]
    (tmp_path / "better.json").write_text(report.to_json())
    code, out, err = call(
        "explain", "command_models:gamma", "-t", "tosa-fp", "--baseline", "better.json", "--json", "-"
    )
    assert code == 1
    assert "aten.lgamma.default: 1 more on the CPU, 1 instead of 0" in err
    assert json.loads(out)["target"] == "tosa-fp"
    assert list((tmp_path / "logs").iterdir()) == []


def test_apply_lower_and_explain_work_on_files(call: Call, program: Path, tmp_path: Path) -> None:
    code, out, err = call("apply", program, "-t", "tosa-fp", "-o", "new/up.pt2", "--json", "report.json")
    assert (code, err) == (0, "")
    assert "conv-transpose1d" in out
    assert out.splitlines()[-1] == "Wrote new/up.pt2"
    assert "conv-transpose1d" in {finding.pass_id for finding in Report.load(tmp_path / "report.json")}
    code, out, err = call("explain", "new/up.pt2", "-t", "tosa-fp", "--strict")
    assert (code, err) == (0, "")
    assert "none" in out
    code, out, err = call("lower", program, "-t", "tosa-fp", "-o", "up.pte", "--strict")
    assert (code, err) == (0, "")
    assert "Delegates: 1. On the CPU: none" in out
    assert (tmp_path / "up.pte").read_bytes()[4:6] == b"ET"
    code, _, err = call(
        "lower",
        program,
        "-t",
        "tosa-fp",
        "-o",
        "stock.pte",
        "--strict",
        "--skip",
        "conv-transpose1d",
        "--skip",
        "conv-transpose-by-phases",
    )
    assert (code, err) == (1, "1 ops stay on the CPU: convolution\n")


@pytest.mark.slow
def test_lower_quantizes_with_calibration_data(call: Call, program: Path, tmp_path: Path) -> None:
    code, out, err = call("lower", "command_models:calibrated", "-t", "ethos-u85", "-o", "up.pte", "--log", "tools.log")
    assert (code, err) == (0, "")
    assert "Delegates: 1. On the CPU: none" in out
    assert "Vela expects" in out
    assert "Network summary" in (tmp_path / "tools.log").read_text()
    code, _, err = call("lower", program, "-t", "ethos-u85", "-o", "none.pte")
    assert code == 2
    assert "--calibration data.pt" in err
    assert not (tmp_path / "none.pte").exists()


def test_promises_come_as_pairs_and_from_a_file(tmp_path: Path) -> None:
    from lowerfix.commands import promises_of

    file = tmp_path / "promises.toml"
    file.write_text('[promises]\n"x[keep]" = "padded"\n"n.item()" = 7\n')
    assert promises_of(["x[a == b]=all-true", "m.item()=3"], file) == {
        "x[keep]": "padded",
        "n.item()": 7,
        "x[a == b]": "all-true",
        "m.item()": 3,
    }
    file.write_text('"x[keep]" = "padded"')
    assert promises_of([], file) == {"x[keep]": "padded"}


def test_passes_are_listed_and_shown(call: Call) -> None:
    code, out, _ = call("passes")
    assert code == 0
    assert "argmin, as argmax of the order-reversed input." in out
    assert "It has to be allowed." in " ".join(out.split())
    code, out, _ = call("passes", "int32-inputs")
    assert code == 0
    assert "**What it rewrites.**" in out
    assert "the caller has to pass int32" in " ".join(out.split())


def test_doctor_says_what_is_installed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = call("doctor")
    assert code == 0
    assert torch.__version__ in out
    assert out.count("ready") >= 18
    monkeypatch.setattr("lowerfix.targets.base.find_spec", lambda name: None if name == "ethosu" else name)
    code, out, _ = call("doctor")
    assert code == 1
    assert "pip install ethos-u-vela" in " ".join(out.replace("│", " ").split())


@pytest.mark.slow
def test_doctor_lowers_for_every_target(call: Call) -> None:
    code, out, _ = call("doctor", "--lower")
    assert code == 0
    assert out.count("ready") >= 18


def damaged(program: Path, folder: Path) -> dict[str, Path]:
    """Files that are not what they are called."""
    whole = program.read_bytes()
    found = {
        name: folder / f"{name}.pt2"
        for name in ("text", "truncated", "empty", "older", "pickle", "script", "code", "case", "size")
    }
    found["text"].write_text("import torch")
    found["truncated"].write_bytes(whole[: len(whole) // 2])
    found["empty"].write_bytes(b"")
    torch.jit.save(torch.jit.trace(torch.nn.ReLU(), torch.ones(1)), found["script"])

    class Code:
        def __reduce__(self) -> object:
            return os.mkdir, (str(folder / "was-here"),)

    changes = {
        "older": ("archive_version", b"999"),
        "pickle": ("sample_inputs/model.pt", pickle.dumps((Code(),))),
        "code": ("data/aotinductor/model/wrapper.so", b""),
        "case": ("data/sample_inputs/MODEL.PT", pickle.dumps((Code(),))),
        "size": ("models/size.json", json.dumps({"as_expr": {"expr_str": "__import__('os').mkdir('x')"}}).encode()),
    }
    for name, (member, content) in changes.items():
        with zipfile.ZipFile(program) as source, zipfile.ZipFile(found[name], "w") as new:
            for info in source.infolist():
                new.writestr(info.filename, content if info.filename.endswith(member) else source.read(info))
            if name in ("code", "case", "size"):
                new.writestr(f"up/{member}", content)
    return found


def test_bad_input_is_one_line_and_leaves_nothing(call: Call, program: Path, tmp_path: Path) -> None:
    files = damaged(program, tmp_path)
    inputs = {
        "shape": [(torch.ones(1, 4, 9),)],
        "dtype": [(torch.ones(1, 4, 8, dtype=torch.int64),)],
        "number": [(torch.ones(1, 4, 8), torch.ones(1))],
        "kind": {"x": 1},
    }
    for name, content in inputs.items():
        torch.save(content, tmp_path / f"{name}.pt")
    (tmp_path / "bad.toml").write_text("x = [")
    (tmp_path / "bad.json").write_text("{}")
    vgf, explain = ["-t", "tosa-fp"], "explain"
    up, int8 = "command_models:up", ["-t", "tosa-int", "-o", "out.pte"]
    cases: list[tuple[list[object], str]] = [
        ([explain, "missing.pt2", *vgf], "No such file"),
        ([explain, "missing", *vgf], "neither a .pt2 file nor"),
        ([explain, files["text"], *vgf], "not a .pt2 file"),
        ([explain, files["empty"], *vgf], "not a .pt2 file"),
        ([explain, files["truncated"], *vgf], "only a part of one"),
        ([explain, files["script"], *vgf], "TorchScript"),
        ([explain, files["older"], *vgf], "cannot be loaded by torch"),
        ([explain, files["pickle"], *vgf], "holds more than tensors, which could run code"),
        ([explain, files["case"], *vgf], "PyTorch writes no"),
        ([explain, files["size"], *vgf], "a size that is no arithmetic"),
        ([explain, files["code"], *vgf], "holds compiled code"),
        ([explain, up, "-t", "vfg"], "Did you mean 'vgf'?"),
        ([explain, up, *vgf, "--skip", "mishh"], "did you mean 'mish'?"),
        ([explain, up, *vgf, "--promises", "bad.toml"], "is not TOML"),
        ([explain, up, *vgf, "--promises", "no.toml"], "no.toml"),
        ([explain, up, *vgf, "--promise", "x[keep]"], "site=value"),
        ([explain, up, *vgf, "--baseline", "bad.json"], "not a report"),
        ([explain, up, *vgf, "--log", tmp_path / "no" / "log"], "log file"),
        ([explain, "command_models:fails", *vgf], "ValueError: no weights here"),
        ([explain, "command_models:branch", *vgf], "troubleshooting.md#could-not-guard-on-data-dependent"),
        ([explain, "command_models:nothing", *vgf], "nothing"),
        (
            ["lower", up, *int8, "--calibration", "shape.pt"],
            "float32[1, 4, 8], got torch.float32[1, 4, 9]",
        ),
        (["lower", up, *int8, "--calibration", "dtype.pt"], "torch.int64[1, 4, 8]"),
        (["lower", up, *int8, "--calibration", "number.pt"], "has 2 values, and the program takes 1"),
        (["lower", up, *int8, "--calibration", "kind.pt"], "has to be a list of tuples"),
        (["lower", up, *int8, "--calibration", "bad.toml"], "is not what torch.save wrote"),
        (["lower", up, *int8, "--calibration", "no.pt"], "No such file"),
        (["lower", up, *vgf, "-o", "/proc/out.pte"], "'/proc/out.pte' cannot be written"),
        (["apply", up, *vgf, "-o", "bad.json/out.pt2"], "cannot be written"),
    ]
    before = sorted(tmp_path.rglob("*"))
    for arguments, message in cases:
        code, out, err = call(*arguments)
        assert code == 2, arguments
        assert message in err, (arguments, err)
        assert err.count("\n") == 1, err
        assert "Traceback" not in out + err
    after = [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in str(path)]
    assert after == before


def test_what_the_tools_fail_with_is_one_line_that_names_their_output(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        with lowering.captured_output():
            os.system("echo what the compiler said")
            raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(lowering, "lower", fail)
    code, _, err = call("lower", "command_models:up", "-t", "tosa-fp", "-o", "up.pte")
    assert code == 2
    assert err.startswith("Error: RuntimeError: first line. The output of the tools is in ")
    assert err.count("\n") == 1
    log = Path(err.split()[-1]).read_text()
    assert "what the compiler said" in log
    assert "second line" in log
    assert not (tmp_path / "up.pte").exists()
    monkeypatch.setattr(sys, "argv", ["lowerfix", "lower", "command_models:up", "-t", "tosa-fp", "-o", "x", "--debug"])
    with pytest.raises(RuntimeError, match="second line"):
        cli.main()


def test_an_interruption_leaves_nothing(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lowering, "lower", interrupt)
    code, _, _ = call("lower", "command_models:up", "-t", "tosa-fp", "-o", "up.pte")
    assert code == 130
    assert not (tmp_path / "up.pte").exists()
    assert list((tmp_path / "logs").iterdir()) == []


def test_stages_are_shown_on_a_terminal_only(capfd: pytest.CaptureFixture[str]) -> None:
    import pty
    import threading

    with working() as say:
        say("thinking")
        os.system("echo chatter")
        print("chatter")
    assert capfd.readouterr() == ("", "")
    leader, follower = pty.openpty()
    kept = os.dup(2)
    shown: list[bytes] = []

    def read() -> None:
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:
                return
            if not part:
                return
            shown.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    os.dup2(follower, 2)
    try:
        with working() as say:
            say("thinking")
            os.system("echo chatter >&2")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(follower)
        reader.join()
        os.close(leader)
    text = b"".join(shown).decode()
    assert "thinking" in text
    assert "0:00:00" in text
    assert "chatter" not in text
