"""A hard limit on the number of processes of a sandbox that root makes.

RLIMIT_NPROC binds every user but root, whatever the user namespace (copy_process() in
kernel/fork.c asks for INIT_USER), and a watch that looks ten times a second comes too late:
a loop of fork(2) on two CPUs takes all 32,768 process ids in 0.3 s. So root makes a cgroup.
Where that cannot be, in most containers, a kernel from 6.14 on can have fewer process ids in
the sandbox's namespace (7863dcc72d0f "pid: allow pid_max to be set per pid namespace").

A cgroup counts what it refuses. A namespace does not: there it is known from what shells and make
say about it. A program that is refused in silence, and lets go before the watch looks, was
limited all the same, but is not reported.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
NAME = "ktrial"
OWN_V1 = re.compile(r"^\d+:pids:(/.*)$", re.M)
REFUSED = re.compile(r"^max [1-9]", re.M)
# dash; bash and gcc; make. Others say the same of a pipe that is full (EAGAIN).
SAID = re.compile(
    rb"(?::[ ]\d+:[ ]Cannot[ ]fork"
    rb"|fork:[ ](?:retry:[ ])?Resource[ ]temporarily[ ]unavailable"
    rb"|^make(?:\[\d+\])?:[ ]\S+:[ ]Resource[ ]temporarily[ ]unavailable)$",
    re.M,
)
REMOVE_SECONDS = 2.0
SETTING_SECONDS = 5.0
SPARE = 64  # above what the watch takes for too many, so that it sees them
NSENTER = "/usr/bin/nsenter"
PID_MAX = 'echo "$0" > /proc/sys/kernel/pid_max'

_numbers = itertools.count()


class PidCap:
    """The limit for one sandbox. `confine` takes its first process, before that has any other."""

    def __init__(self, processes: int) -> None:
        self._most = processes + SPARE
        self._folder = _cgroup(self._most) if os.geteuid() == 0 else None
        self._by_ids = False

    def confine(self, first: int) -> bool:
        """Whether there is such a limit now. It may take some ms where there is no cgroup."""
        if os.geteuid():
            return True  # RLIMIT_NPROC does it
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / "cgroup.procs").write_text(f"{first}\n")
                return True
        self._by_ids = _fewer_ids(first, self._most)
        return self._by_ids

    @property
    def reached(self) -> bool:
        """Whether a process could not be started for it, as far as it was counted."""
        try:
            told = (self._folder / "pids.events").read_text() if self._folder else ""
        except OSError:
            return False
        return bool(REFUSED.search(told))

    def reached_in(self, output: bytes) -> bool:
        """The same of a command that has ended, which said `output`."""
        return self.reached or (self._by_ids and SAID.search(output) is not None)

    def close(self) -> None:
        """Remove the cgroup: its processes are gone, or will be in a moment."""
        end = time.monotonic() + REMOVE_SECONDS
        while self._folder is not None and not _removed(self._folder):
            if time.monotonic() > end:
                return  # the next run sweeps it
            time.sleep(0.002)


def _fewer_ids(first: int, most: int) -> bool:
    command = (NSENTER, f"--pid=/proc/{first}/ns/pid", "/bin/sh", "-c", PID_MAX, str(most))
    try:
        done = subprocess.run(command, capture_output=True, timeout=SETTING_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _cgroup(most: int) -> Path | None:
    for parent in _parents():
        _sweep(parent)
        folder = parent / f"{NAME}-{os.getpid()}-{next(_numbers)}"
        try:
            folder.mkdir()
            (folder / "pids.max").write_text(f"{most}\n")
        except OSError:
            _removed(folder)
            continue
        return folder
    return None


def _parents(root: Path = CGROUPS, own: Path = Path("/proc/self/cgroup")) -> Iterator[Path]:
    """Folders in which a cgroup with a limit on processes may be made."""
    with suppress(OSError):
        if found := OWN_V1.search(own.read_text()):
            yield root / "pids" / found[1].lstrip("/")
    with suppress(OSError):  # v2: only the top may have processes beside groups
        if "pids" in (root / "cgroup.subtree_control").read_text().split():
            yield root


def _sweep(parent: Path) -> None:
    """Remove what killed runs left: groups whose maker is gone."""
    for folder in parent.glob(f"{NAME}-*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            _removed(folder)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # there are processes in it
        return False
    return True
