"""Keeps the cache below its size limit: the entries unused for the longest go first.

What counts as an entry, and what is in use by a live run, is what `clean` says. Measuring a
folder means to look at each file of it, so sizes are remembered in cache/sizes.json: for good
where an entry never changes once it is made, for an hour where it does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pipeline import cache as caches
from pipeline import clean
from pipeline.clean import Entry, Freed, Policy
from pipeline.errors import InfraError
from pipeline.progress import Step
from pipeline.scope import Scope

SIZES = "sizes.json"
SETTLED = ("builds", "configs", "images", "tables")
FRESH = 3600.0  # seconds for which the size of what may grow is believed
LEAVE = 0.9  # of the limit: not every build has to make room anew


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The size of an entry in bytes, `at` which time; `inode` tells one from its successor."""

    inode: int
    size: int
    at: float


@dataclass(kw_only=True)
class Sizes:
    """What entries take, as far as it is known, by their paths below the cache."""

    cache: Path
    known: dict[str, Measured] = field(default_factory=dict)

    def of(self, kind: str, path: Path, now: float, scope: Scope) -> int:
        """Bytes on disk. Raises FileNotFoundError where the entry is gone."""
        name, inode = str(path.relative_to(self.cache)), path.stat().st_ino
        there = self.known.get(name)
        lasting = kind in SETTLED or (kind == "work" and path.parent.name != "work")
        if there and there.inode == inode and (lasting or 0 <= now - there.at < FRESH):
            return there.size
        size = clean.disk_usage(path, scope)
        self.known[name] = Measured(inode=inode, size=size, at=now)
        return size


def evict(cache: Path, limit: int, *, scope: Scope, step: Step) -> Freed | None:
    """Remove the longest unused entries where all of them take more than `limit` bytes.

    None where all is well, or another process is at it. What a live run has used since it began
    stays, so the limit may be passed for a while. Raises Cancelled between two entries.
    """
    lock = cache / "locks" / "evict"
    try:
        with caches.locked(lock, scope=Scope(0)):
            return _evict(cache, limit, scope, step)
    except InfraError:
        return None


def _evict(cache: Path, limit: int, scope: Scope, step: Step) -> Freed | None:
    now = time.time()
    entries = _entries(cache, now, scope)
    whole = sum(entry.size for entry in entries)
    if whole <= limit:
        return None
    step.note("making room in the cache")
    wanted = Policy(max_size=int(limit * LEAVE))
    chosen = clean.select(entries, wanted, now=now, live_since=clean.live_since(cache))
    gone = []
    for entry in chosen:
        scope.check()
        if clean.remove(entry.path, cache):
            gone.append(entry)
    return Freed(
        gone=tuple(gone),
        busy=tuple(entry for entry in entries if entry.busy),
        left=whole - sum(entry.size for entry in gone),
    )


def _entries(cache: Path, now: float, scope: Scope) -> list[Entry]:
    sizes = Sizes(cache=cache, known=_read(cache / SIZES))
    entries = []
    for kind, path in clean.shelved(cache):
        scope.check()
        with suppress(FileNotFoundError):
            entries.append(clean.entry_of(kind, path, cache, sizes.of(kind, path, now, scope)))
    there = {str(entry.path.relative_to(cache)) for entry in entries}
    _write(cache, {name: each for name, each in sizes.known.items() if name in there})
    return entries


def _read(path: Path) -> dict[str, Measured]:
    try:
        raw = json.loads(path.read_text())
        return {name: Measured(**each) for name, each in raw.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(cache: Path, known: Mapping[str, Measured]) -> None:
    text = json.dumps({name: vars(each) for name, each in known.items()})
    with suppress(OSError):  # a full disk is no reason to leave it full
        part = cache / f"{SIZES}.part"
        part.write_text(text)
        part.replace(cache / SIZES)
