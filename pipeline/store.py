"""Where builds lie in the cache: made configurations, built kernels, and build folders.

    configs/KEY/              config, config.log                 one made configuration
    builds/KEY/               kernel, vmlinux, config, …         one built kernel
    work/GROUP/TREE/          build/, times.json                 a trusted build folder
    work/GROUP-host/          build/, times.json                 the same without the sandbox

A GROUP is what a build folder may be continued for: tree of the same origin, same
architecture, fragments and toolchain. Only trusted builds leave a folder behind, so
nothing that a patch on trial wrote is ever continued, and the folder of a trusted build
is only ever copied.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import cache as entries
from pipeline import process
from pipeline.errors import InfraError
from pipeline.model import FileTimes
from pipeline.scope import Scope

KEEP_FOLDERS = 3  # per group: a tiny x86_64 build folder has 210 MB
CLEAN_BYTES = 2 << 30
BROKEN = "broken"  # marks a build folder whose build came to an error
INCREMENT_BYTES = 1 << 30


def key_of(*parts: object) -> str:
    """A name for what is the same in all of `parts`: 32 hex digits of SHA-256."""
    text = json.dumps([str(part) for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A build folder in the making. `seen`: the file times that its objects stem from."""

    folder: Path
    build: Path
    seen: FileTimes | None


@dataclass(frozen=True, kw_only=True)
class Store:
    cache: Path

    def config(self, key: str) -> Path:
        return self.cache / "configs" / key

    def build(self, key: str) -> Path:
        return self.cache / "builds" / key

    def lock(self, key: str) -> Path:
        return self.cache / "locks" / f"build-{key}"

    def group(self, key: str) -> Path:
        return self.cache / "work" / key

    def touch(self, *folders: Path) -> None:
        """Set their times, by which `clean` tells what is in use."""
        for folder in folders:
            with suppress(OSError):  # a cache that may only be read is good enough for a hit
                os.utime(folder)

    @contextmanager
    def workspace(
        self, group: str, base_tree_id: str | None, *, in_place: bool, scope: Scope
    ) -> Iterator[Workspace]:
        """A build folder to work in, continued from the nearest one there is.

        In the sandbox it is a copy, seen at the same path. Without it, paths on the host
        get into kbuild's command lines, so there is one folder, which is worked on in place;
        after a build that is not kept the next one there starts clean.

        Raises:
            InfraError: the disk is too full.
        """
        work = _private(self.cache / "work")
        with ExitStack() as stack:
            if in_place:
                folder = work / f"{group}-host"
                lock = self.lock(f"{group}-host")
                stack.enter_context(entries.locked(lock, scope=scope))
                yield _reopened(folder)
                return
            folder = stack.enter_context(entries.making(work, group))
            yield self._copied(group, base_tree_id, folder, scope=scope)

    def keep(
        self,
        workspace: Workspace,
        times: FileTimes,
        group: str,
        *,
        in_place: bool,
        whole: bool = True,
    ) -> None:
        """Let later builds of the group continue from here. One that is not `whole`, since the
        build broke, is the last that they choose."""
        times = replace(times, newest=newest(workspace.build))
        (workspace.folder / "times.json").write_text(dump_times(times))
        if in_place:
            return
        if not whole:
            (workspace.folder / BROKEN).touch()
        target = self.group(group) / times.tree_id
        target.parent.mkdir(exist_ok=True)
        if not target.exists():
            with suppress(FileExistsError):
                workspace.folder.rename(target)
        self._thin_out(group)

    def _copied(
        self, group: str, base_tree_id: str | None, folder: Path, *, scope: Scope
    ) -> Workspace:
        build = folder / "build"
        for start in self._candidates(group, base_tree_id):
            with suppress(FileNotFoundError), entries.using(start):
                times = load_times((start / "times.json").read_text())
                if from_the_future(times):
                    continue
                require_space(folder, INCREMENT_BYTES)
                os.utime(start)
                copy = ("cp", "--reflink=auto", "-a", "--", start / "build", build)
                process.check(process.run(copy, scope=scope), f"copying {start}")
                return Workspace(folder=folder, build=build, seen=times)
        require_space(folder, CLEAN_BYTES)
        build.mkdir()
        return Workspace(folder=folder, build=build, seen=None)

    def _candidates(self, group: str, base_tree_id: str | None) -> list[Path]:
        """Trusted build folders of the group: that of the base first, then the last used."""

        def merit(folder: Path) -> tuple[bool, bool, int]:
            whole = not (folder / BROKEN).exists()
            return whole, folder.name == base_tree_id, _used(folder)

        found = [path.parent for path in self.group(group).glob("*/times.json")]
        return sorted(found, key=merit, reverse=True)

    def _thin_out(self, group: str) -> None:
        for folder in self._candidates(group, None)[KEEP_FOLDERS:]:
            entries.remove_unused(folder)


def _private(folder: Path) -> Path:
    """Nobody else may enter: a build, run as root, can make set-user-id files there."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):
        folder.chmod(0o700)
    return folder


def _reopened(folder: Path) -> Workspace:
    """The folder as it lies there. Its times are taken away: a build that is cut leaves none."""
    build, memory = folder / "build", folder / "times.json"
    seen = None
    with suppress(FileNotFoundError):
        times = load_times(memory.read_text())
        memory.unlink()
        seen = None if from_the_future(times) else times
    if seen is None:
        entries.remove(build)
    folder.mkdir(parents=True, exist_ok=True)
    require_space(folder, INCREMENT_BYTES if seen else CLEAN_BYTES)
    build.mkdir(exist_ok=True)
    return Workspace(folder=folder, build=build, seen=seen)


def _used(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


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


def own_file(build: Path, name: str) -> Path:
    """A file of a build folder that may be read on the host.

    Raises:
        InfraError: it is missing, or the build put a link in its place that leads out of
            the folder: what runs in the sandbox must not choose what is read outside it.
    """
    path = build / name
    if not path.is_file() or not path.resolve().is_relative_to(build.resolve()):
        raise InfraError(f"the build left no {name}, though make said that all is well")
    return path
