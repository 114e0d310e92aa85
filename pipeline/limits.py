"""How much of the host a build may take; what is more is the tree's doing and ends the build.

The figures follow the host: an honest build of the largest configuration has room, and enough
is left for whoever else uses the machine.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline import ramdisk

MIB = 1 << 20
GIB = 1 << 30
LEAST_RESERVE = GIB
MOST_WRITTEN = 200 * GIB  # allmodconfig with debug information takes some 60 GB
FILES = 2_000_000  # the same has about 200,000
PROCESSES = 4096
PROCESSES_PER_CPU = 64  # make, sh, gcc, cc1 and as for each of --jobs
MEMORY_SHARE = 8  # of it a build folder may take that lies in memory
CGROUPS = ("memory.max", "memory/memory.limit_in_bytes")  # v2, v1
OWN_CGROUP = re.compile(r"^\d+:(?P<controllers>[^:]*):(?P<path>/.*)$", re.M)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """For all processes of one sandbox together; sizes in bytes.

    `memory`: what they hold that is no file's (with shared memory and swap). `scarce`: with less
    than this left on the host, a sandbox that holds a quarter of its limit is at fault.
    `written`, `files`: what the build folder may hold, and grow by. `spare`: bytes of its disk
    that a build leaves to others.
    """

    memory: int
    scarce: int
    processes: int
    written: int
    files: int
    spare: int


def of_host(build: Path) -> Limits:
    """The limits for a build in the folder `build`, which must be there."""
    total, disk = total_memory(), os.statvfs(build)
    size, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
    spare = min(GIB, size // 50)
    if ramdisk.is_memory(build):
        free = min(free, total // MEMORY_SHARE)
    return Limits(
        memory=max(total // 2, total - max(LEAST_RESERVE, total // 8)),
        scarce=max(128 * MIB, total // 64),
        processes=max(PROCESSES, PROCESSES_PER_CPU * (os.cpu_count() or 1)),
        written=min(MOST_WRITTEN, max(0, free - spare)),
        files=min(FILES, disk.f_favail // 2) if disk.f_favail else FILES,
        spare=spare,
    )


def total_memory(
    meminfo: Path = Path("/proc/meminfo"),
    cgroups: Path = Path("/sys/fs/cgroup"),
    own: Path = Path("/proc/self/cgroup"),
) -> int:
    """Bytes of memory that the host has, or the container that this runs in."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", meminfo.read_text(), re.M)
    sizes = [int(found[1]) * 1024] if found else []
    for path in _limit_files(cgroups, own):
        try:
            sizes.append(int(path.read_text()))
        except (OSError, ValueError):  # none, or "max"
            continue
    return min(sizes, default=GIB)


def _limit_files(cgroups: Path, own: Path) -> list[Path]:
    """Where limits of this process's cgroups may stand: at the top as a container sees it, and
    down the path that the host sees."""
    files = [cgroups / name for name in CGROUPS]
    try:
        places = list(OWN_CGROUP.finditer(own.read_text()))
    except OSError:
        return files
    for place in places:
        inside = Path(place["path"].lstrip("/"))
        for folder in (inside, *inside.parents):
            if not place["controllers"]:
                files += [cgroups / folder / "memory.max"]
            elif place["controllers"] == "memory":
                files += [cgroups / "memory" / folder / "memory.limit_in_bytes"]
    return files


def gigabytes(size: int) -> str:
    """A size for a message: “18 GB”, “0.4 GB”."""
    return f"{size / 1e9:.0f} GB" if size >= 10**10 else f"{size / 1e9:.1f} GB"
