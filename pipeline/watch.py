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
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.limits import Limits, gigabytes
from pipeline.pidcap import PidCap

GONE_SECONDS = 20.0
LEAST_GROWTH = 64 << 20  # of what the disk has less, before the build folder is measured
LEAST_FILES = 20_000
DEEPEST = 100  # folders inside each other; a kernel tree has 11
SHARE = 10  # looking at the build folder takes at most one part in so many of the time
FIRST = re.compile(rb'"child-pid"\s*:\s*(\d+)')
HELD = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.M)
THREADS = re.compile(rb"^Threads:\s+(\d+)", re.M)
EXACT = re.compile(rb"^(?:Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+) kB", re.M)
AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.M)


class Watch:
    """The processes of a sandbox. `build`: the folder that it may write to, on the host."""

    def __init__(self, limits: Limits, build: Path) -> None:
        self._limits = limits
        self._disk = _Disk(limits, build)
        self._cap = PidCap(limits.processes)
        self._first: int | None = None
        self._handle: int | None = None  # a pidfd: it names this process for ever
        self._proc: int | None = None  # the sandbox's own /proc

    def begin(self, first: int) -> None:
        """Take the sandbox's first process, which waits."""
        self._handle = _handle(first)
        self._first = first
        self._cap.confine(first)

    def refused(self, output: bytes) -> str:
        """What a command that said `output` had been refused, between one look and the next."""
        return self._too_many if self._cap.reached_in(output) else ""

    def look(self) -> str:
        """Why it must be stopped, "" where it need not."""
        if not self._entered():
            return ""
        assert self._proc is not None
        try:
            found = [name for name in os.listdir(self._proc) if name.isdecimal()]
        except OSError:  # it has just ended
            return ""
        # Those that were refused one may be gone by now, and the rest wait for something else.
        if len(found) > self._limits.processes or self._cap.reached:
            return self._too_many
        return self._memory(found) or self._disk.look(self._proc, found)

    def close(self) -> None:
        """End all of it, and return when it is gone: nobody writes to the build folder then.

        bwrap ends with the command; what that left behind has a moment more.
        """
        if self._handle is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            select.select([self._handle], [], [], GONE_SECONDS)
            with suppress(OSError):  # ours where this process takes in orphans (see `reaper`)
                os.waitid(os.P_PIDFD, self._handle, os.WEXITED | os.WNOHANG)
        for descriptor in (self._proc, self._handle):
            if descriptor is not None:
                os.close(descriptor)
        self._proc = self._handle = None
        self._cap.close()

    @property
    def _too_many(self) -> str:
        return f"started more than {self._limits.processes} processes"

    def _entered(self) -> bool:
        """Whether the sandbox is there to be looked into."""
        if self._proc is None and self._first is not None:
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

    def __init__(self, limits: Limits, build: Path) -> None:
        self._limits, self._build = limits, build
        self._free, self._names = _room(build)
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
        size, files, hidden = _measured(self._build)
        size += _nameless(proc, found, self._build.stat().st_dev)
        self._last = time.monotonic()
        self._seconds = self._last - started
        self._free, self._names = free, names
        return hidden or self._judged(size, files, full=full)

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
def watching(limits: Limits, build: Path) -> Iterator[tuple[Watch, int, int]]:
    """A watch, and descriptors for bwrap's --info-fd and --block-fd: nothing runs in the sandbox
    before the watch has begun. Afterwards nothing of it is left."""
    info, theirs = os.pipe2(os.O_CLOEXEC)
    wait, go = os.pipe2(os.O_CLOEXEC)
    watch = Watch(limits, build)
    gate = threading.Thread(target=_open_gate, args=(watch, info, go), daemon=True)
    gate.start()
    try:
        yield watch, theirs, wait
    finally:
        os.close(theirs)  # so that the gate ends where bwrap said nothing
        gate.join(GONE_SECONDS)
        watch.close()
        for descriptor in (info, wait, go):
            os.close(descriptor)


def _open_gate(watch: Watch, info: int, go: int) -> None:
    """Read who the first process is, limit it, and let it go on."""
    told = b""
    while more := os.read(info, 1 << 12):
        told += more
        found = FIRST.search(told)
        if found and found.end() < len(told):  # else the number may go on
            watch.begin(int(found[1]))
            os.write(go, b"x")
            return


def _handle(first: int) -> int | None:
    """A pidfd for a sandbox's first process; None where that is gone, and its number in use."""
    try:
        handle = os.pidfd_open(first)
    except OSError:
        return None
    with suppress(OSError):  # it is ending: its namespaces are gone, but not all processes yet
        if Path(f"/proc/{first}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink():
            os.close(handle)
            return None
    return handle


def _own_proc(first: int) -> int | None:
    """A sandbox's own /proc; None while its root is still the host's."""
    folder = os.open(f"/proc/{first}/root/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if os.fstat(folder).st_dev != Path("/proc").stat().st_dev:
        return folder
    os.close(folder)
    return None


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


def _measured(top: Path) -> tuple[int, int, str]:
    """Bytes and files below a folder, and what a build does only to hide them, else ""."""
    size = files = 0
    waiting = [(os.fspath(top), 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > DEEPEST:
            return size, files, f"made more than {DEEPEST} folders inside each other"
        try:
            with os.scandir(folder) as found:
                for each in found:
                    files += 1
                    with suppress(FileNotFoundError):
                        size += 512 * each.stat(follow_symlinks=False).st_blocks
                        if each.is_dir(follow_symlinks=False):
                            waiting.append((each.path, depth + 1))
        except PermissionError:
            return size, files, "closed a folder that it wrote to"
        except OSError:  # it has just been removed
            continue
    return size, files, ""


def _nameless(proc: int, found: Sequence[str], device: int) -> int:
    """Bytes of files that are open in a process and have no name any more."""
    seen: dict[int, int] = {}
    for name in found:
        with suppress(OSError):
            for descriptor in _listed(proc, f"{name}/fd"):
                with suppress(OSError):
                    state = os.stat(f"{name}/fd/{descriptor}", dir_fd=proc)
                    if (
                        state.st_dev == device
                        and not state.st_nlink
                        and stat.S_ISREG(state.st_mode)
                    ):
                        seen[state.st_ino] = 512 * state.st_blocks
    return sum(seen.values())


def _listed(folder: int, name: str) -> list[str]:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)
