"""A place in memory for build folders that do not outlast their run.

Each such folder is thousands of small files, made and removed again. In memory that takes 0.3 s,
on a disk up to 10 s: ext4 passes over all inodes that were freed within the last minutes for
each one that it gives (recently_deleted() in fs/ext4/ialloc.c).
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from pipeline import cache as entries

SHARED = Path("/dev/shm")
TMPFS = re.compile(r"^\S+ (?P<at>\S+) tmpfs ", re.M)
AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB", re.M)
SHARE = 16  # a folder takes at most one part in so many of the memory that is left
MOST = 1 << 30
ROOM = 4  # times what a folder has, free in the file system: a build writes too,
LEAST_ROOM = 2 << 30  # and may want more than its folder had


def place(
    size: int, *, shared: Path | None = None, mounts: Path = Path("/proc/mounts")
) -> Path | None:
    """A folder of this user's alone, in memory, for a build folder with so many bytes; None where
    there is none, or memory is better kept for guests and compilers."""
    shared = shared or SHARED
    if size > min(MOST, _available() // SHARE) or not _serves(shared, size, mounts):
        return None
    folder = own(shared)
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
        if stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid():
            folder.chmod(0o700)
            return folder
    return None


def own(shared: Path | None = None) -> Path:
    return (shared or SHARED) / f"ktrial-{os.geteuid()}"


def sweep() -> None:
    """Remove what runs left that were killed."""
    entries.sweep(own())


def size_of(folder: Path) -> int:
    """Bytes on disk; 6,000 files take 40 ms."""
    size = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += 512 * os.lstat(f"{at}/{name}").st_blocks
    return size


def is_memory(folder: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Whether the files of a folder lie in memory: below a mount of tmpfs, and of nothing else."""
    device = folder.stat().st_dev
    with suppress(OSError):
        places = [Path(found["at"]) for found in TMPFS.finditer(mounts.read_text())]
        return any(
            folder.is_relative_to(at) and at.stat().st_dev == device for at in places if at.is_dir()
        )
    return False


def _serves(shared: Path, size: int, mounts: Path) -> bool:
    """A build runs programs that it has made: they must be let run."""
    try:
        disk = os.statvfs(shared)
    except OSError:
        return False
    free = disk.f_bavail * disk.f_frsize
    return (
        not disk.f_flag & os.ST_NOEXEC
        and free >= max(LEAST_ROOM, ROOM * size)
        and is_memory(shared, mounts)
    )


def _available(meminfo: Path = Path("/proc/meminfo")) -> int:
    found = AVAILABLE.search(meminfo.read_text())
    return 1024 * int(found[1]) if found else 0
