"""How long things took on this host, kept in the cache for the plans that come.

`cache/history/durations.json` holds the last seconds of each key (the keys are `estimate`'s).
Runs beside each other add to it under a lock. It is only ever a help: a file that cannot be
read is as good as none, and what cannot be written is forgotten.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pipeline import cache as caches
from pipeline.errors import InfraError
from pipeline.scope import Scope

KEEP_VALUES = 9  # of each key: enough for a median that one slow day does not move
KEEP_KEYS = 2000  # the longest unchanged go first
LOCK_SECONDS = 5.0

Known = Mapping[str, tuple[float, ...]]


class History:
    """`known`: the last seconds by key, as the file had them when it was last looked at."""

    def __init__(self, cache: Path) -> None:
        self._file = cache / "history" / "durations.json"
        self._lock = cache / "locks" / "history"
        self.known: Known = _read(self._file)

    def add(self, key: str, seconds: float) -> None:
        """Remember how long something took; other runs see it at once."""
        if not math.isfinite(seconds) or seconds < 0:
            return
        with (
            suppress(OSError, InfraError),
            caches.locked(self._lock, scope=Scope(LOCK_SECONDS)),
        ):
            found = dict(_read(self._file))
            values = (*found.pop(key, ()), round(seconds, 3))
            found[key] = values[-KEEP_VALUES:]  # last in the file: changed last
            kept = dict(list(found.items())[-KEEP_KEYS:])
            caches.publish(self._file, lambda part: part.write_text(json.dumps(kept, indent=1)))
            self.known = kept


def _read(file: Path) -> Known:
    try:
        loaded = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(loaded, dict):
        return {}
    return {key: tuple(values) for key, values in loaded.items() if _are_seconds(values)}


def _are_seconds(values: object) -> bool:
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(each, int | float) and math.isfinite(each) for each in values)
    )
