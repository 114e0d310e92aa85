"""The calibrations of this host, kept in the cache for the reports that come.

`cache/calibration.json` holds, by `estimate.workload_key`, the day and what was found. A file that
cannot be read is as good as none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pipeline import cache as caches
from pipeline.calibration import Calibrated
from pipeline.errors import InfraError
from pipeline.scope import Scope

LOCK_SECONDS = 5.0


def keep(cache: Path, key: str, day: str, found: Sequence[Calibrated]) -> None:
    """Remember what a workload's calibration found. It is a help only: a full disk is no error."""
    with (
        suppress(OSError, InfraError),
        caches.locked(cache / "locks" / "calibration", scope=Scope(LOCK_SECONDS)),
    ):
        known = dict(_read(cache))
        known[key] = f"{day}: " + "; ".join(each.words() for each in found)
        text = json.dumps(known, indent=1, ensure_ascii=False)
        caches.publish(_file(cache), lambda part: part.write_text(text, encoding="utf-8"))


def last(cache: Path, key: str) -> str:
    """The last one of this workload in words, with its day; "" where there is none."""
    return _read(cache).get(key, "")


def _file(cache: Path) -> Path:
    return cache / "calibration.json"


def _read(cache: Path) -> Mapping[str, str]:
    try:
        loaded = json.loads(_file(cache).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(loaded, dict):
        return {}
    return {str(key): value for key, value in loaded.items() if isinstance(value, str)}
