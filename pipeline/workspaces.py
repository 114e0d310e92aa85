"""Build folders: where a build may start, and what is left of it for others to start from.

    work/GROUP/TREE/          build/, times.json, warnings.json    of a trusted build
    work/GROUP-host/          build/, times.json                   the same without the sandbox
    work/.making-GROUP-…/     build/, times.json, lock             of a run that is under way

A GROUP is what a folder may be continued for: same architecture, fragments and toolchain. Only
trusted builds leave a folder behind, so nothing that a patch on trial wrote is ever continued by
another run, and the folder of a trusted build is only ever copied. The folder of a stranger's
build lives as long as its run; there the next patch of the same series may start from it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import cache as entries
from pipeline import process, ramdisk
from pipeline.errors import InfraError
from pipeline.model import FileTimes
from pipeline.scope import Scope
from pipeline.store import WARNINGS, Store

KEEP_FOLDERS = 6  # per group, of all versions together: a tiny x86_64 build folder has 300 MB
CLEAN_BYTES = 2 << 30
INCREMENT_BYTES = 1 << 30
BROKEN = "broken"  # marks a build folder whose build came to an error
STRANGER = "stranger"  # the tree of a build that nobody vouches for
TIMES = "times.json"

# How much would be compiled anew after the tree with this id; None: more than is worth it.
Cost = Callable[[str], int | None]


def no_cost(_: str) -> int:
    """Where nobody can tell how far two trees are from each other."""
    return 0


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A build folder in the making. `seen`: the file times that its objects stem from.

    `whole`: the build that these come from came to its end. `lasting`: others work in it later.
    """

    folder: Path
    build: Path
    seen: FileTimes | None
    whole: bool = False
    lasting: bool = False

    def holds(self, tree_id: str) -> bool:
        """Whether its objects are those of that tree, all of them."""
        return self.whole and self.seen is not None and self.seen.tree_id == tree_id


@dataclass(frozen=True, kw_only=True)
class _Start:
    """A folder to continue from."""

    folder: Path
    times: FileTimes
    whole: bool
    cost: int
    used: int


@dataclass(frozen=True, kw_only=True)
class Workspaces:
    """The build folders of one group. `below`: one of this run, see `BuildRequest`. `passing`: what
    is continued is nobody's when the run is over, so that it may lie in memory."""

    store: Store
    group: str
    base_tree_id: str | None
    scope: Scope
    below: Path | None = None
    cost: Cost = no_cost
    passing: bool = False

    @property
    def _work(self) -> Path:
        return _private(self.store.cache / "work")

    def folder(self, tree_id: str) -> Path:
        """Where the folder of a trusted build of that tree lies, if it does."""
        return self.store.cache / "work" / self.group / tree_id

    @contextmanager
    def fresh(self) -> Iterator[Workspace]:
        """An empty build folder, gone afterwards."""
        with entries.making(self._work, self.group) as folder:
            yield _empty(folder)

    @contextmanager
    def continued(self) -> Iterator[Workspace]:
        """A copy of the nearest build folder there is, gone afterwards unless it was kept.

        Raises:
            InfraError: the disk is too full.
        """
        with ExitStack() as stack:
            yield self._started(stack)

    @contextmanager
    def copied(self, source: Path, *, passing: bool = True) -> Iterator[Workspace]:
        """A copy of that build folder, gone afterwards. Raises FileNotFoundError: it is gone."""
        quick = ramdisk.place(ramdisk.size_of(source)) if passing else None
        with entries.making(quick or self._work, self.group) as folder:
            yield self._copy(source, folder)

    @contextmanager
    def in_place(self, strangers: Collection[str]) -> Iterator[Workspace]:
        """The folder of the group without the sandbox, worked on in place.

        Paths on the host get into kbuild's command lines, so a copy would build everything
        anew. It starts clean after a build that was cut, and after one that nobody vouches for
        unless that was of one of the trees `strangers`.
        """
        folder = self._work / f"{self.group}-host"
        with entries.locked(self.store.lock(f"{self.group}-host"), scope=self.scope):
            yield _reopened(folder, strangers)

    @contextmanager
    def own(self, folder: Path, *, shared: bool = False) -> Iterator[Workspace]:
        """A folder of this run, in place. Raises FileNotFoundError where it is gone."""
        folder.stat()
        with entries.locked(folder / "lock", scope=self.scope, shared=shared):
            times = load_times((folder / TIMES).read_text())
            build = folder / "build"
            yield Workspace(folder=folder, build=build, seen=times, whole=True, lasting=True)

    # ------------------------------------------------------------------ afterwards

    def note(self, workspace: Workspace, times: FileTimes, *, stranger: str = "") -> None:
        """Write down with which times its objects were made, and of which `stranger`'s tree."""
        times = replace(times, newest=newest(workspace.build))
        if stranger:
            (workspace.folder / STRANGER).write_text(stranger)
        (workspace.folder / TIMES).write_text(dump_times(times))

    def keep(self, workspace: Workspace, times: FileTimes, *, whole: bool = True) -> None:
        """Let later builds of the group continue from here. One that is not `whole`, since the
        build broke, is the last that they choose. Not for a folder that is worked on in place."""
        self.note(workspace, times)
        if not whole:
            (workspace.folder / BROKEN).touch()
        target = self.folder(times.tree_id)
        target.parent.mkdir(exist_ok=True)
        if whole and (target / BROKEN).exists():
            entries.remove_unused(target)
        if not target.exists():
            with suppress(OSError):  # another run was quicker
                workspace.folder.rename(target)
        self._thin_out()

    def _thin_out(self) -> None:
        kept = sorted(self._kept(), key=lambda each: (each.whole, each.used), reverse=True)
        for start in kept[KEEP_FOLDERS:]:
            entries.remove_unused(start.folder)

    # ------------------------------------------------------------------ beforehand

    def _started(self, stack: ExitStack) -> Workspace:
        for start in self.starts():
            with suppress(FileNotFoundError):
                return stack.enter_context(self.copied(start.folder, passing=self.passing))
        return stack.enter_context(self.fresh())

    def starts(self) -> list[_Start]:
        """Folders to continue from, the best one first: whole ones, then the nearest, then base's,
        then the last used."""

        def merit(start: _Start) -> tuple[bool, int, bool, int]:
            is_base = start.times.tree_id == self.base_tree_id
            return not start.whole, start.cost, not is_base, -start.used

        own = _start(self.below) if self.below else None
        found = [*self._kept(), *((own,) if own else ())]
        costs = [(start, self.cost(start.times.tree_id)) for start in found]
        known = [replace(start, cost=cost) for start, cost in costs if cost is not None]
        return sorted((s for s in known if not from_the_future(s.times)), key=merit)

    def _kept(self) -> list[_Start]:
        """The folders of trusted builds."""
        paths = (self.store.cache / "work" / self.group).glob(f"*/{TIMES}")
        return [start for path in paths if (start := _start(path.parent))]

    def _copy(self, source: Path, folder: Path) -> Workspace:
        with self._held(source):
            times = load_times((source / TIMES).read_text())
            require_space(folder, INCREMENT_BYTES)
            with suppress(OSError):
                os.utime(source)
            for name in ("build", WARNINGS):
                if name == "build" or (source / name).exists():
                    copy = ("cp", "--reflink=auto", "-a", "--", source / name, folder / name)
                    process.check(process.run(copy, scope=self.scope), f"copying {source}")
            whole = not (source / BROKEN).exists()
        return Workspace(folder=folder, build=folder / "build", seen=times, whole=whole)

    @contextmanager
    def _held(self, source: Path) -> Iterator[None]:
        """Nobody removes it, nor works in it, while it is copied. A run holds its own folders,
        which is why they are locked by a file."""
        if source.name.startswith(entries.TEMPORARY_PREFIX):
            with self.own(source, shared=True):
                yield
        else:
            with entries.using(source):
                yield


def _start(folder: Path) -> _Start | None:
    try:
        times = load_times((folder / TIMES).read_text())
        used = folder.stat().st_mtime_ns
    except FileNotFoundError:
        return None
    whole = not (folder / BROKEN).exists()
    return _Start(folder=folder, times=times, whole=whole, cost=0, used=used)


def _private(folder: Path) -> Path:
    """Nobody else may enter: a build, run as root, can make set-user-id files there."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):
        folder.chmod(0o700)
    return folder


def _empty(folder: Path) -> Workspace:
    require_space(folder, CLEAN_BYTES)
    (folder / "build").mkdir()
    return Workspace(folder=folder, build=folder / "build", seen=None)


def _reopened(folder: Path, strangers: Collection[str]) -> Workspace:
    """The folder as it lies there. Its times are taken away: a build that is cut leaves none."""
    build, memory, mark = folder / "build", folder / TIMES, folder / STRANGER
    if mark.exists() and mark.read_text() not in strangers:
        memory.unlink(missing_ok=True)
    seen = None
    with suppress(FileNotFoundError):
        times = load_times(memory.read_text())
        memory.unlink()
        seen = None if from_the_future(times) else times
    if seen is None:
        entries.remove(build)
        for name in (STRANGER, WARNINGS):
            (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    require_space(folder, INCREMENT_BYTES if seen else CLEAN_BYTES)
    build.mkdir(exist_ok=True)
    whole = seen is not None
    return Workspace(folder=folder, build=build, seen=seen, whole=whole, lasting=True)


def require_space(folder: Path, needed: int) -> None:
    """Raise InfraError where less than `needed` bytes are free on the disk of `folder`."""
    free = entries.free_bytes(folder)
    if free < needed:
        raise InfraError(
            f"the disk of {folder.parent} is too full for a build: "
            f"{free / 1e9:.1f} GB are free, {needed / 1e9:.1f} GB are needed",
            hint="free some with `ktrial clean`, or choose another --cache",
        )


def newest(build: Path) -> int:
    """The latest time (ns) of a file in a build folder; 5,000 files take 50 ms."""
    return max(
        (
            (Path(folder) / name).lstat().st_mtime_ns
            for folder, _, names in os.walk(build)
            for name in names
        ),
        default=0,
    )


def from_the_future(times: FileTimes) -> bool:
    """Whether the clock has gone back since: what is made now would be older than what is there.

    The sources could still be made newer, but an object that is compiled now would be older
    than the vmlinux beside it, which make would leave as it is.
    """
    return max((times.newest, *times.later.values())) > time.time_ns()


def dump_times(times: FileTimes) -> str:
    return json.dumps(
        {"tree_id": times.tree_id, "later": dict(times.later), "newest": times.newest}
    )


def load_times(text: str) -> FileTimes:
    raw = json.loads(text)
    return FileTimes(tree_id=raw["tree_id"], later=raw["later"], newest=raw.get("newest", 0))
