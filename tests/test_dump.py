"""What each pass does can be read in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import lowerfix
from lowerfix.dump import listing
from lowerfix.errors import LowerfixError
from lowerfix.testing import export

X = torch.linspace(-2, 2, 32).reshape(1, 4, 8)


def test_passes_that_change_something_leave_three_files(tmp_path: Path, refusing: Callable[..., Any]) -> None:
    program = export(lambda x: F.mish(x.argmin(-1).float() * 2), (X,))
    target = refusing("aten.argmin.default", "aten.mish.default")
    called = []
    pipeline = lowerfix.Pipeline.default().with_callback(lambda before, working, after: called.append(before))
    result = lowerfix.apply(program, target=target, dump=tmp_path / "new", pipeline=pipeline)
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    passes = sorted({name.partition(".")[0] for name in names})
    assert {name.partition("-")[2] for name in passes} >= {"argmin", "mish"}
    assert [name.partition("-")[0] for name in passes] == [f"{n:02d}" for n in range(1, len(passes) + 1)]
    assert len(names) == 3 * len(passes)
    texts = [[(tmp_path / "new" / f"{name}.{side}.txt").read_text() for side in ("before", "after")] for name in passes]
    assert texts[0][0] == listing(program.graph)
    assert [after for _, after in texts[:-1]] == [before for before, _ in texts[1:]]
    assert "mish" not in listing(result.graph).replace("test_dump", "")
    [diff] = (tmp_path / "new").glob("*-argmin.diff")
    lines = diff.read_text().splitlines()
    assert lines[:2] == ["--- before argmin", "+++ after argmin"]
    [removed] = [line for line in lines if line.startswith("-argmin")]
    assert removed.startswith("-argmin: int64[1, 4] = aten.argmin.default(inputs_0, -1)")
    assert ".py:" in removed
    assert any(line.startswith("+") and "aten.argmax.default" in line for line in lines)
    assert called


def test_numbers_go_on(tmp_path: Path, refusing: Callable[..., Any]) -> None:
    program = export(lambda x: F.mish(x), (X,))
    for _ in range(2):
        lowerfix.apply(program, target=refusing("aten.mish.default"), dump=tmp_path, only=["mish"])
    assert sorted(path.name for path in tmp_path.glob("*.diff")) == ["01-mish.diff", "02-mish.diff"]


def test_nothing_changes_nothing_is_written(tmp_path: Path, refusing: Callable[..., Any]) -> None:
    lowerfix.apply(export(lambda x: x * 2, (X,)), target=refusing(), dump=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LowerfixError, match="cannot be written"):
        lowerfix.apply(export(lambda x: x * 2, (X,)), target="tosa-fp", dump=tmp_path / "file")


def test_explain_dumps_too(tmp_path: Path) -> None:
    report = lowerfix.explain(export(lambda x: F.pad(x, (-1, 0)) * 2, (X,)), target="tosa-fp", dump=tmp_path)
    assert report.of("rewritten")
    assert list(tmp_path.glob("*-negative-pad.diff"))


def test_a_folder_has_a_path() -> None:
    program = export(torch.neg, (torch.rand(2),))
    with pytest.raises(LowerfixError, match="path of a folder, got 3"):
        lowerfix.apply(program, target="tosa-fp", dump=3)  # type: ignore[call-overload]
