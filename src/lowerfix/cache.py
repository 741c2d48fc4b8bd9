"""A small cache on disk: JSON files, written atomically, never trusted.

Entries live under ``$LOWERFIX_CACHE_DIR``, or ``$XDG_CACHE_HOME/lowerfix``, or ``~/.cache/lowerfix``, in a folder for
each set of installed versions. ``LOWERFIX_CACHE=0`` turns the cache off. A folder that cannot be written, and an entry
that cannot be read, only cost the time to ask again.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def cache_folder() -> Path | None:
    """The folder of the cache; None where it is turned off."""
    if os.environ.get("LOWERFIX_CACHE", "1") == "0":
        return None
    own = os.environ.get("LOWERFIX_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "lowerfix"
    except RuntimeError:  # no home folder
        return None


class DiskCache:
    """The entries that belong to one context, such as a set of installed versions."""

    def __init__(self, context: dict[str, str]) -> None:
        folder = cache_folder()
        self._folder = folder / _digest(json.dumps(context, sort_keys=True)) if folder is not None else None

    def get(self, key: str) -> dict[str, Any] | None:
        """The entry stored under ``key``; None where there is none that can be read."""
        if self._folder is None:
            return None
        try:
            entry = json.loads((self._folder / f"{_digest(key)}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(entry, dict) or entry.get("key") != key or not isinstance(entry.get("value"), dict):
            return None
        return dict(entry["value"])

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Store an entry: another process sees the whole of it or nothing."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".tmp")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump({"key": key, "value": value}, file)
                os.replace(temporary, self._folder / f"{_digest(key)}.json")
            finally:
                Path(temporary).unlink(missing_ok=True)
        except OSError:
            return


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
