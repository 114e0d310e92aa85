"""A tree laid out on disk, with file times that follow content.

make trusts times: a tree laid out afresh (all files new) rebuilds everything, and one
that is older than the objects beside it silently keeps stale ones, so that the wrong
kernel is tested. Here each file has the constant time EPOCH, except those whose
content a build folder has not seen yet: these are newer than anything in it.

There is one folder per origin of trees, and another for who would have to wait long: a large
build holds its sources to its end. From one tree to the next only what differs is written; what
lies there is recorded before and after, so that a layout which was cut short is known as one,
and is mended by writing what differs from either side.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pipeline import cache as caches
from pipeline.errors import InfraError
from pipeline.model import FileTimes, Sources, Tree
from pipeline.repository import Git, GitError
from pipeline.scope import Scope

EPOCH = 946_684_800 * 10**9  # 2000-01-01T00:00:00Z, older than any object
TREE_BYTES = 2 * 10**9  # a kernel tree on disk, 1.1 to 1.6 GB, and some room
CHECK_EVERY = 512
TICK = 10**7  # the coarsest step of a file's time: 4 to 10 ms, the kernel's clock tick
LINK = "120000"
SPARE_BYTES = 5 * TREE_BYTES  # free on the disk, for one folder more
PLACES = 3  # folders for one origin at most
PATIENCE = 20.0  # seconds to wait for one in use: about what it takes to lay out another
POLL_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A path of a tree: git's mode, object id; a mode of 0 where the tree does not have it.

    `was`: its mode in the tree that it is compared with.
    """

    path: str
    mode: str
    blob: str
    was: str

    @property
    def there(self) -> bool:
        return self.mode.strip("0") != ""


@dataclass(frozen=True, kw_only=True)
class State:
    """What lies in a source folder: one tree, or parts of several where a layout was cut short.

    `later`: the paths whose time is not EPOCH. Where there are several trees, the times
    of the paths in which they differ are unknown.
    """

    trees: tuple[str, ...]
    later: Mapping[str, int]


def advance(seen: FileTimes | None, changed: Set[str], tree_id: str, now_ns: int) -> FileTimes:
    """The times to lay `tree_id` out with for a build folder that has seen `seen`.

    `changed`: the paths of `tree_id` that differ from `seen.tree_id`, and those that it
    no longer has; they get `now_ns`, or later where the clock has gone back since the build
    folder's objects were made. The others keep the time with which they were seen.
    """
    if seen is None:
        return FileTimes(tree_id=tree_id, later={})
    now = max([now_ns, seen.newest + TICK, *(time + 1 for time in seen.later.values())])
    kept = {path: time for path, time in seen.later.items() if path not in changed}
    return FileTimes(tree_id=tree_id, later=kept | dict.fromkeys(sorted(changed), now))


@contextmanager
def laid_out(
    tree: Tree,
    tree_id: str,
    seen: FileTimes | None,
    *,
    cache: Path,
    scope: Scope,
    patience: float | None = PATIENCE,
) -> Iterator[Sources]:
    """The tree `tree_id` on disk, held for the caller alone while the context lasts.

    Where all folders of its origin are in use for longer than `patience` (s), it is laid out in
    another one; None: always in the same one, for whom the path on the host matters.

    The caller keeps `Sources.times` with the build folder once the build has ended, and
    gives them back as `seen`; None is for a build folder without any objects.

    Raises:
        InfraError: no space left, or an object is missing from the repository.
        Cancelled: the run was cancelled; the next call mends what is half laid out.
    """
    first = cache / "sources" / tree.origin
    with ExitStack() as stack:
        folder, lock = _place(stack, first, tree_id, scope, patience)
        folder.mkdir(exist_ok=True)
        at = Git(git_dir=tree.repository, scope=scope, work_tree=folder / "src", held=(lock,))
        with caches.using(folder):
            times = _times(at, seen, tree_id)
            _switch(at, folder, times)
            yield Sources(path=folder / "src", times=times)


def _place(
    stack: ExitStack, first: Path, tree_id: str, scope: Scope, patience: float | None
) -> tuple[Path, int]:
    """A folder that nobody else uses, and the lock that is held on it.

    The one in which the tree lies already is the best.
    """
    if patience is None:
        return first, stack.enter_context(caches.locked(_lock(first), scope=scope))
    folders = [first, *(first.with_name(f"{first.name}+{n}") for n in range(1, PLACES))]

    def far(folder: Path) -> bool:
        state = _state(folder)
        return state is None or state.trees != (tree_id,)

    waited = scope.child(patience)
    while True:
        there = [folder for folder in folders if folder == first or folder.is_dir()]
        if waited.expired and not scope.expired and caches.free_bytes(first) > SPARE_BYTES:
            there = folders
        for folder in sorted(there, key=far):
            with suppress(InfraError):
                return folder, stack.enter_context(caches.locked(_lock(folder), scope=Scope(0)))
        if scope.expired:
            raise InfraError(
                f"other runs hold the sources in {first} for too long",
                hint="wait for them or end them",
            )
        scope.sleep(POLL_SECONDS)


def _lock(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _times(at: Git, seen: FileTimes | None, tree_id: str) -> FileTimes:
    if seen is None:
        return FileTimes(tree_id=tree_id, later={})
    entries = _changes(at, seen.tree_id, tree_id)
    if entries is None or moves_a_link(entries):
        entries = differences(at, _empty_tree(at), tree_id)  # every file is new to the folder
    times = advance(seen, {entry.path for entry in entries}, tree_id, time.time_ns())
    gone = {entry.path for entry in entries if not entry.there}
    return replace(times, later={p: t for p, t in times.later.items() if p not in gone})


def moves_a_link(entries: Sequence[Entry]) -> bool:
    """Whether a path may lead to another file than before, though that file has not changed.

    make asks for the time of what a symlink leads to (its -L only helps where the last part
    of a path is the link), and an object that was made through it would stay. A link in a
    place where there was nothing hides nothing.
    """
    gone = {entry.path for entry in entries if not entry.there}
    folders = {str(parent) for path in gone for parent in PurePosixPath(path).parents}
    return any(
        (entry.was == LINK and entry.there)
        or (entry.mode == LINK and (entry.was.strip("0") != "" or entry.path in folders))
        for entry in entries
    )


def _changes(at: Git, old: str, new: str) -> tuple[Entry, ...] | None:
    """What differs, or None where the tree `old` is gone, or a part of it.

    The user's `git gc` may have taken it: what is borrowed from a repository is in nobody's
    history there once a branch was rebased.
    """
    try:
        return differences(at, old, new)
    except GitError:
        if at.scope.expired:
            raise
        return None


def _switch(at: Git, folder: Path, want: FileTimes) -> None:
    """Make `folder`/src hold the tree, with its times, whatever lies there now."""
    state = _state(folder)
    entries: dict[str, Entry] = {}
    changes = [_changes(at, tree, want.tree_id) for tree in state.trees] if state else []
    if state is None or None in changes:
        state = _emptied(at, folder)
        changes = [differences(at, state.trees[0], want.tree_id)]
    for each in filter(None, changes):
        entries |= {entry.path: entry for entry in each}
    shifted = {
        path
        for path in state.later.keys() | want.later.keys()
        if path not in entries and state.later.get(path) != want.later.get(path)
    }
    if state.trees == (want.tree_id,) and not shifted:
        return
    trees = (*(t for t in state.trees if t != want.tree_id), want.tree_id)
    _write_state(folder, State(trees=trees, later=dict(state.later) | dict(want.later)))
    _write_files(at, folder, entries)
    # Only paths that the tree has: a path that is gone may lead through a symlink by now.
    written = {entry.path for entry in entries.values() if entry.there}
    _set_times(at, folder / "src", written | shifted, want.later)
    _write_state(folder, State(trees=(want.tree_id,), later=want.later))


def _state(folder: Path) -> State | None:
    """What is said to lie in the folder."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        saved = json.loads((folder / "state.json").read_text())
        if (folder / "src").is_dir():
            return State(trees=tuple(saved["trees"]), later=saved["later"])
    return None


def _emptied(at: Git, folder: Path) -> State:
    """Start afresh, with nothing in the folder."""
    (folder / "state.json").unlink(missing_ok=True)
    if (folder / "src").exists():
        caches.remove(folder / "src")
    free = caches.free_bytes(folder)
    if free < TREE_BYTES:
        raise InfraError(
            f"{free / 1e9:.1f} GB free in {folder}, a kernel tree takes {TREE_BYTES / 1e9:.0f} GB",
            hint="free some space, for instance with `ktrial clean`",
        )
    (folder / "src").mkdir()
    return State(trees=(_empty_tree(at),), later={})


def _write_state(folder: Path, state: State) -> None:
    text = json.dumps({"trees": state.trees, "later": dict(state.later)})
    part = folder / "state.json.part"
    part.write_text(text)
    part.replace(folder / "state.json")


def differing(tree: Tree, old: str, new: str, scope: Scope) -> tuple[str, ...] | None:
    """The paths in which two trees differ; None where the repository lacks a part of either.

    Two kernels of one series take 10 ms, two versions a second.
    """
    if old == new:
        return ()
    entries = _changes(Git(git_dir=tree.repository, scope=scope), old, new)
    return None if entries is None else tuple(entry.path for entry in entries)


# --------------------------------------------------------------------------- files


def differences(at: Git, old: str, new: str) -> tuple[Entry, ...]:
    """The entries of the tree `new` that differ from the tree `old`, and those that are gone."""
    raw = at.output("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
    return read_raw(raw)


def read_raw(raw: bytes) -> tuple[Entry, ...]:
    """Entries of the new side from `git diff-tree -r -z --raw` (git-diff-tree(1), RAW OUTPUT)."""
    fields = raw.decode("utf-8", errors="surrogateescape").split("\0")
    entries = []
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        was, mode, _, blob, _ = head.removeprefix(":").split(" ")
        entries.append(Entry(path=path, mode=mode, blob=blob, was=was))
    return tuple(entries)


def _write_files(at: Git, folder: Path, entries: Mapping[str, Entry]) -> None:
    """Take the entries' paths away, then write those that the tree has."""
    src = folder / "src"
    emptied: set[Path] = set()
    # Sorted, so that a symlink goes before the paths that would lead through it.
    for number, path in enumerate(sorted(entries)):
        if number % CHECK_EVERY == 0:
            at.scope.check()
        if _take_away(src / path):
            emptied.add((src / path).parent)
    for parent in sorted(emptied, key=lambda p: len(p.parts), reverse=True):
        _prune(parent, src)
    listing = "".join(f"{e.mode} {e.blob}\t{e.path}\0" for e in entries.values() if e.there)
    if not listing:
        return
    # An index of nothing but these files: one of all 70,000 would have to be read and written.
    index = folder / "index"
    for leftover in (index, folder / "index.lock"):
        leftover.unlink(missing_ok=True)
    writer = replace(at, index=index)
    writer.text("update-index", "-z", "--index-info", stdin=os.fsencode(listing))
    writer.text("checkout-index", "--all", "--force", "--quiet")
    index.unlink()


def _take_away(path: Path) -> bool:
    """Unlink a file or symlink, or a submodule's empty folder; False where nothing went."""
    try:
        path.unlink()
    except IsADirectoryError:
        try:
            path.rmdir()
        except OSError:
            return False
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _prune(folder: Path, top: Path) -> None:
    """Remove folders that have become empty, upwards."""
    while folder != top:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return
        folder = folder.parent


def _set_times(at: Git, src: Path, paths: Set[str], later: Mapping[str, int]) -> None:
    for number, path in enumerate(paths):
        if number % CHECK_EVERY == 0:
            at.scope.check()
        when = later.get(path, EPOCH)
        os.utime(src / path, ns=(when, when), follow_symlinks=False)


def _empty_tree(at: Git) -> str:
    return at.text("hash-object", "-t", "tree", "/dev/null")
