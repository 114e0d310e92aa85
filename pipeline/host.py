"""Facts of the host that ktrial runs on: they go into each result, and `doctor` shows them."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline import process
from pipeline.errors import InfraError
from pipeline.scope import Scope

TOOLS = ("git", "gcc", "bwrap", "mmdebstrap", "qemu-system-x86_64", "qemu-system-aarch64")
SECONDS = 10.0
MOST_CROWDED = 4.0  # a guest that spins makes load too: it must not be waited for for ever
MIB = 1 << 20
GIB = 1 << 30
# Debian's programs for administrators are not on everyone's PATH.
ADMINISTRATORS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def facts(tools: Sequence[str] = TOOLS) -> Mapping[str, str]:
    """What a reader of a result needs to know of the host: hardware, kernel, tool versions.

    Takes about 0.2 s: each tool is asked for its version. A tool that is not there is left out.
    """
    versions = {tool: tool_version(tool, scope=Scope(SECONDS)) for tool in tools}
    return {
        "cpu": cpu_model(),
        "cores": str(cpu_count()),
        "memory": f"{memory() // MIB} MiB",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "distribution": os_release().get("PRETTY_NAME", "unknown"),
        "python": platform.python_version(),
        **{tool: version for tool, version in versions.items() if version},
    }


def cpus() -> tuple[int, ...]:
    """The CPUs that this process may use, by number."""
    return tuple(sorted(os.sched_getaffinity(0)))


def cpu_count() -> int:
    """How many CPUs this process may use."""
    return len(cpus())


def crowding() -> float:
    """How many times as long as on an idle host things may take: from 1 to MOST_CROWDED."""
    return min(MOST_CROWDED, max(1.0, os.getloadavg()[0] / cpu_count()))


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU's name; arm64 kernels give numbers only, so there it is the machine's."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(errors="replace"), re.MULTILINE)
    return found.group(1) if found else platform.machine()


def memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of memory that new processes may have: MemAvailable, or what a container (cgroup v2,
    which sees its own limit at the top) has left of its limit where that is less."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)
    available = int(found.group(1)) * 1024 if found else 0
    try:
        limit = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):  # none, or "max"
        return available
    return min(available, max(0, limit - used))


def free_disk(path: Path) -> int:
    """Bytes that may still be written below `path`, which need not exist yet."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def os_release(path: Path = Path("/etc/os-release")) -> Mapping[str, str]:
    """os-release(5) of the host; empty where there is none."""
    try:
        return parse_os_release(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return {}


def parse_os_release(text: str) -> Mapping[str, str]:
    """NAME=value lines, the value perhaps in quotes with backslashes."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or name.startswith("#"):
            continue
        if value[:1] in "\"'" and len(value) >= 2 and value[-1] == value[0]:
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        found[name] = value
    return found


def which(program: str) -> str | None:
    """Where a program lies, the folders for administrators included."""
    return shutil.which(program) or shutil.which(program, path=os.pathsep.join(ADMINISTRATORS))


def tool_version(program: str, *, scope: Scope, option: str = "--version") -> str:
    """The first line in which a program names its version; "" where it is not there."""
    path = which(program)
    if path is None:
        return ""
    try:
        completed = process.run((path, option), scope=scope.child(SECONDS))
    except InfraError:
        return ""
    lines = [line.strip() for line in completed.text.splitlines()]
    return next((line for line in lines if re.search(r"\d+\.\d+", line)), "unknown version")


def version_numbers(text: str) -> tuple[int, ...]:
    """The first dotted number in a line: "QEMU emulator version 7.2.22 (…)" is (7, 2, 22)."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()
