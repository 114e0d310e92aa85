"""`ktrial clean`: frees caches and old results, by age or size, never what a live run uses.

An entry is a folder that is made and used as a whole (a built kernel, an image, a tree, the
results of a run). It is in use while its lock is held (see `cache`). A live run holds a file
below cache/runs: as long as there is one, what was used since it began stays, and so do the
repositories, whose objects it reads at any time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline import cache as caches
from pipeline import ramdisk
from pipeline.errors import InfraError, UserError
from pipeline.progress import Step
from pipeline.scope import Scope

DAY = 86400.0
DEFAULT_AGE = 30 * DAY  # where the user names neither age nor size
RESULTS = "results"
REPOSITORIES = ("repos", "trees")
# Folders below the cache that are one entry each, and those that hold one entry per folder.
WHOLE = ("apt", "ccache", "libvirt")
SHELVES = ("builds", "configs", "images", "repos", "sources", "tables", "tmp", "trees", "work")
RUN_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
AGES = {"m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}
SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What may go: entries unused for `older_than` seconds; the longest unused ones until the
    rest has at most `max_size` bytes; or `everything` but results."""

    older_than: float | None = None
    max_size: int | None = None
    everything: bool = False


@dataclass(frozen=True, kw_only=True)
class Entry:
    """`used`: when it was last made or used (its mtime); `size` in bytes on disk."""

    path: Path
    kind: str
    used: float
    size: int
    busy: bool = False


@dataclass(frozen=True, kw_only=True)
class Freed:
    """What went (or would go), what is in use, and what is left, in bytes."""

    gone: tuple[Entry, ...]
    busy: tuple[Entry, ...]
    left: int
    dry_run: bool = False

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.gone)


# ------------------------------------------------------------------------- what goes


def policy(older_than: str | None, max_size: str | None, everything: bool) -> Policy:
    """From the words of the command line. Raises UserError for an age or size of the wrong form."""
    if older_than is None and max_size is None and not everything:
        return Policy(older_than=DEFAULT_AGE)
    return Policy(
        older_than=None if older_than is None else parse_age(older_than),
        max_size=None if max_size is None else parse_size(max_size),
        everything=everything,
    )


def parse_age(text: str) -> float:
    """Seconds of "14d", "12h", "30m" or "2w"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if not found:
        raise UserError(f"“{text}” is not an age", hint="such as 14d, 12h, 30m or 2w")
    return float(found.group(1)) * AGES[found.group(2)]


def parse_size(text: str) -> int:
    """Bytes of "20G", "500M", "1.5T"; units are powers of 1024, "GB" and "GiB" are the same."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise UserError(f"“{text}” is not a size", hint="such as 20G or 500M")
    return int(float(found.group(1)) * SIZES[found.group(2).upper()])


def select(
    entries: Sequence[Entry], wanted: Policy, *, now: float, live_since: float | None = None
) -> tuple[Entry, ...]:
    """Those to remove, the longest unused first. `live_since`: when the oldest live run began."""
    free = sorted((e for e in entries if not _in_use(e, live_since)), key=lambda e: e.used)
    chosen = [entry for entry in free if _is_due(entry, wanted, now)]
    if wanted.max_size is None:
        return tuple(chosen)
    left = sum(entry.size for entry in entries) - sum(entry.size for entry in chosen)
    for entry in free:
        if left <= wanted.max_size:
            break
        if entry not in chosen:
            chosen.append(entry)
            left -= entry.size
    return tuple(sorted(chosen, key=lambda e: e.used))


def _in_use(entry: Entry, live_since: float | None) -> bool:
    if entry.busy or live_since is None:
        return entry.busy
    return entry.kind in REPOSITORIES or entry.used >= live_since


def _is_due(entry: Entry, wanted: Policy, now: float) -> bool:
    if wanted.everything and entry.kind != RESULTS:
        return True
    return wanted.older_than is not None and entry.used < now - wanted.older_than


# ------------------------------------------------------------------------- on the disk


@contextmanager
def live(cache: Path, run_id: str, *, scope: Scope) -> Iterator[None]:
    """Tell `clean` that a run is under way: held by every run from its start to its end."""
    lock = cache / "runs" / f"{run_id}.lock"
    with caches.locked(lock, scope=scope):
        os.utime(lock)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def live_since(cache: Path) -> float | None:
    """When the oldest run that is still under way began; locks of dead runs are removed."""
    begun = []
    for lock in (cache / "runs").glob("*.lock"):
        with suppress(FileNotFoundError):  # its run ended meanwhile
            began = lock.stat().st_mtime
            if caches.is_locked(lock):
                begun.append(began)
            elif lock.stat().st_mtime == began:
                lock.unlink(missing_ok=True)
    return min(begun, default=None)


def collect(cache: Path, results: Path, *, scope: Scope, step: Step) -> tuple[Entry, ...]:
    """Every entry below `cache`, and every run's folder in `results`."""
    found = shelved(cache)
    runs = (path for path in _inside(results) if RUN_NAME.fullmatch(path.name))
    found += [(RESULTS, path) for path in runs]
    entries = []
    for kind, path in sorted(found):
        step.note(f"{kind}/{path.name}")
        with suppress(FileNotFoundError):  # another process removed it meanwhile
            entries.append(entry_of(kind, path, cache, disk_usage(path, scope)))
    return tuple(entries)


def shelved(cache: Path) -> list[tuple[str, Path]]:
    """Kind and folder of every entry below `cache`."""
    found = [(kind, cache / kind) for kind in WHOLE if (cache / kind).is_dir()]
    return found + [(kind, path) for kind in SHELVES for path in _folders(cache / kind)]


def entry_of(kind: str, path: Path, cache: Path, size: int) -> Entry:
    """An entry as it is now. Raises FileNotFoundError where it is gone."""
    used = path.stat().st_mtime
    if path.name.startswith(caches.TEMPORARY_PREFIX):
        used = 0  # what a dead process left half made is of no use to anyone
    return Entry(
        path=path,
        kind=kind,
        used=used,
        size=size,
        busy=is_busy(path, cache),
    )


def _inside(folder: Path) -> list[Path]:
    """The folders in a folder; none where it is gone."""
    try:
        found = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in found if path.is_dir() and not path.is_symlink()]


def _folders(shelf: Path) -> list[Path]:
    """The entries on a shelf. Build folders lie together in groups, see `store`."""
    folders = _inside(shelf)
    if shelf.name != "work":
        return folders
    whole = [path for path in folders if path.name.startswith(".") or path.name.endswith("-host")]
    groups = [path for path in folders if path not in whole]
    return [*whole, *(tree for group in groups for tree in _inside(group))]


def disk_usage(path: Path, scope: Scope) -> int:
    """Bytes on disk below `path`; a file with several names counts once."""
    seen: set[int] = set()
    total = 0
    for folder, _, names in os.walk(path):
        scope.check()
        for name in (".", *names):
            try:
                status = os.lstat(f"{folder}/{name}")
            except FileNotFoundError:
                continue
            if status.st_ino not in seen:
                total += status.st_blocks * 512
            if status.st_nlink > 1:
                seen.add(status.st_ino)
    return total


def _locks(path: Path, cache: Path) -> list[Path]:
    """The lock files of an entry: beside it, in it, or among those of the builds."""
    beside = path.with_name(f"{path.name}.lock")
    of_build = cache / "locks" / f"build-{path.name}"
    inside = (path / "lock", *path.glob("*.lock"))
    return [lock for lock in (beside, of_build, *inside) if lock.is_file()]


def is_busy(path: Path, cache: Path) -> bool:
    """Whether somebody makes or uses the entry right now."""
    return any(caches.is_locked(lock) for lock in (path, *_locks(path, cache)))


def clean(
    *,
    cache: Path,
    results: Path,
    wanted: Policy,
    now: float,
    scope: Scope,
    step: Step,
    dry_run: bool = False,
) -> Freed:
    """Remove what the policy lets go. `now`: seconds since the epoch.

    Raises Cancelled between two entries; a removed entry is first renamed, so none is left half.
    """
    entries = collect(cache, results, scope=scope, step=step)
    since = live_since(cache)
    gone = []
    for entry in select(entries, wanted, now=now, live_since=since):
        scope.check()
        step.note(f"removing {entry.kind}/{entry.path.name}")
        if dry_run or remove(entry.path, cache):
            gone.append(entry)
    if not dry_run:
        ramdisk.sweep()
        _drop_dangling(results / "latest")
    return Freed(
        gone=tuple(gone),
        busy=tuple(entry for entry in entries if _in_use(entry, since)),
        left=sum(entry.size for entry in entries) - sum(entry.size for entry in gone),
        dry_run=dry_run,
    )


def remove(path: Path, cache: Path) -> bool:
    """Remove an entry with its locks held, so that nobody begins to use it meanwhile."""
    at_once = Scope(0)
    with ExitStack() as stack:
        try:
            for lock in _locks(path, cache):
                stack.enter_context(caches.locked(lock, scope=at_once))
        except InfraError:
            return False
        return caches.remove_unused(path)


def _drop_dangling(link: Path) -> None:
    if link.is_symlink() and not link.exists():
        link.unlink(missing_ok=True)


# ------------------------------------------------------------------------- rendering


def render(freed: Freed) -> str:
    """A line per kind, and the sum."""
    lines = []
    for kind in sorted({entry.kind for entry in freed.gone}):
        of_kind = [entry for entry in freed.gone if entry.kind == kind]
        size = human_size(sum(entry.size for entry in of_kind))
        lines.append(f"  {kind:<10} {len(of_kind):>4}  {size:>10}")
    verb = "would free" if freed.dry_run else "freed"
    lines.append(f"{verb} {human_size(freed.size)}, {human_size(freed.left)} left")
    if freed.busy:
        lines.append(f"{len(freed.busy)} in use by a live run: kept")
    return "\n".join(lines) + "\n"


def human_size(size: int) -> str:
    """Such as "1.4 GiB"."""
    amount, unit = float(size), "B"
    for bigger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, bigger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
