"""The command line: quick to start, one clear message for an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lowerfix
from lowerfix import cli


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Call `lowerfix` with arguments; its exit code."""
    monkeypatch.setattr(sys, "argv", ["lowerfix", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return int(left.value.code or 0)


def test_help_needs_no_framework() -> None:
    code = (
        "import sys, lowerfix.cli\nsys.argv = ['lowerfix', '--help']\ntry: lowerfix.cli.main()\n"
        "finally: assert not {'torch', 'executorch', 'torchao', 'numpy'} & set(sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    for command in ("explain", "apply", "lower", "passes", "targets", "demo", "doctor"):
        assert f"\n  {command} " in printed


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == f"lowerfix {lowerfix.__version__}"


def test_targets_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "targets") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("ethos-u85 " in line and "ethos-u85-256" in line and "ready" in line for line in lines)
    assert any("xnnpack" in line and "float" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "etos-u85"], "Did you mean 'ethos-u85'?"),
        (["--target", "vgf", "--model", "nothing"], "module:factory"),
        (["--target", "vgf", "--model", "no_such_module:make"], "no_such_module"),
        (["--target", "vgf", "--model", "no_such_file.pt2"], "no_such_file.pt2"),
    ],
)
def test_errors_are_one_message(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    assert call(monkeypatch, "demo", "--output", str(tmp_path), *arguments) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in out + err
    assert err.count("\n") == 1
