"""The catalogue lies in passes/, is imported as lowerfix.passes through a link, and is built into the wheel."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINK = ROOT / "src" / "lowerfix" / "passes"
NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.egg-info")


def python(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run this Python and capture what it prints."""
    command = [sys.executable, *args]
    return subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False)


def test_the_link_to_the_catalogue_is_relative() -> None:
    assert LINK.is_symlink()
    assert Path(os.readlink(LINK)).as_posix() == "../../passes"
    assert (ROOT / "passes" / "__init__.py").samefile(LINK / "__init__.py")


def test_every_pass_is_in_a_package() -> None:
    """The registry and mypy expect one; setuptools would build it either way."""
    folders = {file.parent for file in (ROOT / "passes").rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_the_tests_of_the_passes_mirror_the_passes() -> None:
    passes = {
        file.relative_to(ROOT / "passes").with_name(f"test_{file.name}")
        for file in (ROOT / "passes").rglob("*.py")
        if not file.name.startswith("_")
    }
    tests = {file.relative_to(ROOT / "tests" / "passes") for file in (ROOT / "tests" / "passes").rglob("test_*.py")}
    assert sorted(passes - tests) == [], "passes without a test file in tests/passes"
    assert sorted(tests - passes) == [], "test files in tests/passes without a pass"


@pytest.mark.slow
@pytest.mark.parametrize("through", ["wheel", "sdist"])
def test_a_built_wheel_holds_every_pass(through: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for folder in ("src", "passes"):
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=NOT_COPIED)
    for file in ("pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / file).exists():
            shutil.copy(ROOT / file, source)

    # Without --wheel, build makes the sdist first and the wheel out of that.
    only = ["--wheel"] if through == "wheel" else []
    built = python("-m", "build", "--no-isolation", *only, cwd=source)
    assert built.returncode == 0, built.stdout + built.stderr

    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {file.relative_to(source / "passes").as_posix() for file in (source / "passes").rglob("*.py")}
    assert modules
    assert {f"lowerfix/passes/{module}" for module in modules} == {
        name for name in names if name.startswith("lowerfix/passes/")
    }
    for name in ("py.typed", "report.schema.json", "html/report.html.jinja", "html/report.js", "html/report.css"):
        assert f"lowerfix/{name}" in names
    assert not any(name.startswith("passes/") for name in names)


def test_a_checkout_without_symlinks_says_what_to_do(tmp_path: Path) -> None:
    """Git on Windows writes a link as a text file that holds the path, unless it is told otherwise."""
    shutil.copytree(LINK.parent, tmp_path / "lowerfix", ignore=shutil.ignore_patterns("passes", "__pycache__"))
    (tmp_path / "lowerfix" / "passes").write_text("../../passes")

    ran = python("-c", "import lowerfix; import lowerfix.registry", cwd=tmp_path, PYTHONPATH=str(tmp_path))

    assert ran.returncode != 0
    assert "ImportError" in ran.stderr
    assert "core.symlinks true" in ran.stderr
