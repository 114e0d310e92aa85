"""The folders in which runs keep libvirt's state, their locks, and what dead runs left.

A run's lock is flock(2) on RUNTIME/ID.lock beside its root RUNTIME/ID; it goes with its
holder however that ends, so a lock that nobody holds tells a dead run.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipeline.errors import InfraError
from pipeline.virt import load_libvirt

KILL_SECONDS = 5.0


def own_folder(folder: Path) -> None:
    """Have `folder`, for this user alone: its name in /tmp can be guessed by others."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        raise InfraError(f"{folder} belongs to somebody else", hint="remove it")
    if seen.st_mode & 0o077:
        folder.chmod(0o700)


def lock_path(runtime: Path, name: str) -> Path:
    return runtime / f"{name}.lock"


def claim(runtime: Path, uri: str) -> tuple[str, int]:
    """A new id whose lock this process holds: (id, lock's descriptor)."""
    while True:
        name = secrets.token_hex(3)
        with suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(lock_path(runtime, name), flags, 0o600)
            if _hold(lock_path(runtime, name), descriptor):
                os.write(descriptor, uri.encode())
                return name, descriptor
            os.close(descriptor)


def _hold(path: Path, descriptor: int) -> bool:
    """Take the lock if nobody has it, and the file is still the one that `path` names."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def sweep(runtime: Path) -> list[str]:
    """End the guests of runs that are dead, and remove their roots; what was ended, in words."""
    ended: list[str] = []
    for path in sorted(runtime.glob("*.lock")):
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _hold(path, descriptor):
                    uri = os.read(descriptor, 4096).decode(errors="replace")
                    ended += _bury(runtime, path.stem, uri)
                    path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)
    return ended


def _bury(runtime: Path, name: str, uri: str) -> list[str]:
    root = runtime / name
    ended = _destroy_elsewhere(uri, name) if uri else _kill_all(root)
    shutil.rmtree(root, ignore_errors=True)
    return ended


def _kill_all(root: Path) -> list[str]:
    """Kill every QEMU that was started in `root`: its command line names files there."""
    found = _qemus(root)
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + KILL_SECONDS
    while any(is_alive(pid) for pid in found) and time.monotonic() < end:
        time.sleep(0.005)
    return [f"QEMU {pid} of a dead run: {what}" for pid, what in found.items()]


def _qemus(root: Path) -> dict[int, str]:
    """{pid: guest's name}. Not by pid files: a pid may have been given to somebody else."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            argv = (entry / "cmdline").read_bytes().split(b"\0")
            is_qemu = Path(os.fsdecode(argv[0])).name.startswith("qemu")
            if is_qemu and any(os.fsencode(f"{root}/") in word for word in argv):
                names = [word for word in argv if word.startswith(b"guest=")]
                what = names[0].decode(errors="replace") if names else "guest=?"
                found[int(entry.name)] = what.split(",")[0].removeprefix("guest=")
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def _destroy_elsewhere(uri: str, name: str) -> list[str]:
    libvirt: Any = load_libvirt()
    ended = []
    with suppress(libvirt.libvirtError):
        connection = libvirt.open(uri)
        for each in connection.listAllDomains():
            if each.name().startswith(f"ktrial-{name}-"):
                ended.append(f"{each.name()} of a dead run at {uri}")
                each.destroy()
        connection.close()
    return ended
