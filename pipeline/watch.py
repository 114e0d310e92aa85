"""Watching what runs in one sandbox from outside: how much it holds, and whether it is gone.

cgroups would limit it too, but an ordinary user can rarely make one. Everybody can look into a
sandbox of his own: /proc/PID/root of its first process shows its own /proc, in which stand all
of its processes and nothing else, whoever their parents are.
"""

from __future__ import annotations

import os
import re
import select
import signal
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.limits import Limits, gigabytes

GONE_SECONDS = 20.0
LEAST_GROWTH = 64 << 20  # of what the disk has less, before the build folder is measured
LEAST_FILES = 20_000
SHARE = 10  # looking at the build folder takes at most one part in so many of the time
FIRST = re.compile(rb'"child-pid"\s*:\s*(\d+)')
ENOUGH = b"0123456789"
HELD = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.M)
THREADS = re.compile(rb"^Threads:\s+(\d+)", re.M)
EXACT = re.compile(rb"^(?:Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+) kB", re.M)
AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.M)


class Watch:
    """The processes of a sandbox. `info`: what bwrap's --info-fd writes to.

    `folders`: those that it may write to, on the host.
    """

    def __init__(self, limits: Limits, folders: Sequence[Path], info: int) -> None:
        self._limits, self._info, self._told = limits, info, b""
        self._disk = _Disk(limits, folders[0], folders)
        self._first: int | None = None
        self._handle: int | None = None  # a pidfd: it names this process for ever
        self._proc: int | None = None  # the sandbox's own /proc

    def look(self) -> str:
        """Why it must be stopped, "" where it need not."""
        if not self._entered():
            return ""
        assert self._proc is not None
        try:
            found = [name for name in os.listdir(self._proc) if name.isdecimal()]
        except OSError:  # it has just ended
            return ""
        if len(found) > self._limits.processes:
            return self._too_many
        return self._memory(found) or self._disk.look(self._proc, found)

    def close(self) -> None:
        """End all of it, and return when it is gone: nobody writes to the build folder then.

        bwrap ends with the command; what that left behind has a moment more.
        """
        self._entered()
        if self._handle is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            select.select([self._handle], [], [], GONE_SECONDS)
        for descriptor in (self._proc, self._handle):
            if descriptor is not None:
                os.close(descriptor)
        self._proc = self._handle = None

    @property
    def _too_many(self) -> str:
        return f"started more than {self._limits.processes} processes"

    def _entered(self) -> bool:
        """Whether the sandbox is there to be looked into."""
        if self._first is None:
            with suppress(BlockingIOError):
                self._told += os.read(self._info, 1 << 12)
            found = FIRST.search(self._told)
            if found is None or found.end() == len(self._told):  # the number may go on
                return False
            self._first = int(found[1])
            with suppress(OSError):
                self._handle = os.pidfd_open(self._first)
        if self._proc is None:
            with suppress(OSError):  # not made yet, or gone
                self._proc = _own_proc(self._first)
        return self._proc is not None

    def _memory(self, found: Sequence[str]) -> str:
        assert self._proc is not None
        threads = held = 0
        for name in found:
            status = _read(self._proc, f"{name}/status")
            threads += sum(map(int, THREADS.findall(status)))
            held += 1024 * sum(map(int, HELD.findall(status)))
        if threads > self._limits.processes:
            return self._too_many
        scarce = held > self._limits.memory // 4 and _available() < self._limits.scarce
        # What processes share is in `held` for each: only where that is too much, it is divided.
        if held > self._limits.memory and self._exactly(found) > self._limits.memory:
            return f"took more than {gigabytes(self._limits.memory)} of memory"
        if scarce and (exact := self._exactly(found)) > self._limits.memory // 4:
            return f"took {gigabytes(exact)} of memory, and the host has no more"
        return ""

    def _exactly(self, found: Sequence[str]) -> int:
        """Bytes with what is shared counted once (kernel 5.9 or newer tells shares apart)."""
        assert self._proc is not None
        exact = 0
        for name in found:
            shares = EXACT.findall(_read(self._proc, f"{name}/smaps_rollup"))
            shares = shares or HELD.findall(_read(self._proc, f"{name}/status"))
            exact += 1024 * sum(map(int, shares))
        return exact


class _Disk:
    """The build folder, which is measured where the disk has become emptier."""

    def __init__(self, limits: Limits, build: Path, folders: Sequence[Path]) -> None:
        self._limits, self._build, self._folders = limits, build, folders
        self._free, self._names = _room(build)
        self._at_first: tuple[int, int] | None = None
        self._seconds, self._last = 0.0, 0.0

    def look(self, proc: int, found: Sequence[str]) -> str:
        free, names = _room(self._build)
        less, fewer = self._free - free, self._names - names
        full = free < self._limits.spare
        if not full and less < LEAST_GROWTH and fewer < LEAST_FILES:
            return ""
        if time.monotonic() - self._last < self._seconds * SHARE:
            return ""
        started = time.monotonic()
        size, files = _measured(self._folders)
        size += _nameless(proc, found, self._build.stat().st_dev)
        self._last = time.monotonic()
        self._seconds = self._last - started
        self._free, self._names = free, names
        return self._judged(size, files, full=full)

    def _judged(self, size: int, files: int, *, full: bool) -> str:
        limits = self._limits
        if size > limits.written:
            return f"wrote more than {gigabytes(limits.written)}"
        if files > limits.files:
            return f"made more than {limits.files} files"
        # Somebody else may have filled the disk: then it is not the tree's doing.
        if full and size > limits.written // 2:
            return f"wrote {gigabytes(size)}, and the disk has no more"
        return ""


@contextmanager
def watching(limits: Limits, folders: Sequence[Path]) -> Iterator[tuple[Watch, int]]:
    """A watch, and the descriptor for bwrap's --info-fd. Afterwards nothing of it is left."""
    ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    watch = Watch(limits, folders, ours)
    try:
        yield watch, theirs
    finally:
        watch.close()
        os.close(ours)
        os.close(theirs)


def _own_proc(first: int) -> int:
    return os.open(f"/proc/{first}/root/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _read(folder: int, name: str) -> bytes:
    """A small file; b"" where the process has ended meanwhile."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 1 << 14)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _available() -> int:
    found = AVAILABLE.search(Path("/proc/meminfo").read_bytes())
    return 1024 * int(found[1]) if found else 1 << 62


def _room(folder: Path) -> tuple[int, int]:
    """Bytes and files for which the disk has room."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize, disk.f_favail


def _measured(folders: Sequence[Path]) -> tuple[int, int]:
    """Bytes and files below the folders; a folder in it may vanish, or be closed."""
    size = files = 0
    for top in folders:
        for _, subfolders, names, folder in os.fwalk(top, onerror=None):
            for name in (*subfolders, *names):
                with suppress(OSError):
                    size += 512 * os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks
            files += len(subfolders) + len(names)
    return size, files


def _nameless(proc: int, found: Sequence[str], device: int) -> int:
    """Bytes of files that are open in a process and have no name any more."""
    seen: dict[int, int] = {}
    for name in found:
        with suppress(OSError):
            for descriptor in _listed(proc, f"{name}/fd"):
                with suppress(OSError):
                    state = os.stat(f"{name}/fd/{descriptor}", dir_fd=proc)
                    if state.st_dev == device and not state.st_nlink and stat.S_ISREG(
                        state.st_mode
                    ):
                        seen[state.st_ino] = 512 * state.st_blocks
    return sum(seen.values())


def _listed(folder: int, name: str) -> list[str]:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)
