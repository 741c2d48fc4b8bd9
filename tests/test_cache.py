"""The cache on disk: written whole or not at all, never trusted, never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lowerfix.cache import DiskCache, cache_folder

VALUE = {"refusals": [], "error": ""}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOWERFIX_CACHE_DIR", str(tmp_path))
    return tmp_path


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_was_put_is_got_by_another_instance(folder: Path) -> None:
    DiskCache({"torch": "1"}).put("key", VALUE)
    assert DiskCache({"torch": "1"}).get("key") == VALUE
    assert DiskCache({"torch": "1"}).get("other key") is None


def test_other_versions_have_other_entries(folder: Path) -> None:
    DiskCache({"torch": "1"}).put("key", VALUE)
    assert DiskCache({"torch": "2"}).get("key") is None
    assert DiskCache({"torch": "1", "tosa-tools": "1"}).get("key") is None


def test_the_order_of_the_versions_does_not_matter(folder: Path) -> None:
    DiskCache({"a": "1", "b": "2"}).put("key", VALUE)
    assert DiskCache({"b": "2", "a": "1"}).get("key") == VALUE


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"null", b"[]", b"7", b'{"key": "key"}', b'{"key": "other", "value": {}}']
)
def test_a_damaged_entry_is_no_entry_and_is_replaced(content: bytes, folder: Path) -> None:
    cache = DiskCache({})
    cache.put("key", VALUE)
    [file] = files(folder)
    file.write_bytes(content)
    assert cache.get("key") is None
    cache.put("key", VALUE)
    assert cache.get("key") == VALUE


def test_an_entry_that_is_a_folder_is_no_entry(folder: Path) -> None:
    cache = DiskCache({})
    cache.put("key", VALUE)
    [file] = files(folder)
    file.unlink()
    file.mkdir()
    assert cache.get("key") is None
    cache.put("key", VALUE)
    assert not list(file.parent.glob("*.tmp")), "a temporary file was left behind"


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    monkeypatch.setenv("LOWERFIX_CACHE_DIR", str(in_the_way))
    cache = DiskCache({})
    cache.put("key", VALUE)
    assert cache.get("key") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_costs_nothing(folder: Path) -> None:
    folder.chmod(0o500)
    try:
        cache = DiskCache({})
        cache.put("key", VALUE)
        assert cache.get("key") is None
    finally:
        folder.chmod(0o700)


def test_it_can_be_turned_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DiskCache({}).put("key", VALUE)
    monkeypatch.setenv("LOWERFIX_CACHE", "0")
    assert cache_folder() is None
    DiskCache({}).put("another key", VALUE)
    assert DiskCache({}).get("key") is None
    assert len(files(folder)) == 1


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWERFIX_CACHE_DIR", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("LOWERFIX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "lowerfix"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "lowerfix"


def test_no_home_folder_means_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("LOWERFIX_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    assert cache_folder() is None
    DiskCache({}).put("key", VALUE)


def test_two_processes_may_write_at_once(folder: Path) -> None:
    """A reader meanwhile sees a whole entry or none."""
    script = """
import sys
from lowerfix.cache import DiskCache
cache = DiskCache({})
value = {"who": sys.argv[1] * 20000}
for _ in range(300):
    cache.put("key", value)
    got = cache.get("key")
    assert got is not None and len(got["who"]) == 20000 and len(set(got["who"])) == 1, got
"""
    writers = [subprocess.Popen([sys.executable, "-c", script, name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    [file] = files(folder)
    assert json.loads(file.read_text())["key"] == "key"
