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
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from pipeline.errors import InfraError
from pipeline.scope import Scope
from pipeline.virt import load_libvirt

KILL_SECONDS = 5.0
ELSEWHERE_SECONDS = 4.0  # for all other libvirts together
POLL_SECONDS = 0.02
SILENT = "does not answer"
_silent: set[str] = set()  # URIs that are not waited for a second time in this process


def own_folder(folder: Path) -> None:
    """Have `folder`, for this user alone.

    Raises:
        InfraError: it is not this user's alone, see `require_own`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if require_own(folder) & 0o077:
        folder.chmod(0o700)


def require_own(folder: Path) -> int:
    """The mode of a folder that nobody else can have put something into.

    Its name in /tmp can be guessed by others, and a lock in it may name a libvirt URI, which
    may name a command (`?command=`).

    Raises:
        InfraError: it belongs to somebody else, is a link, or others may write to it.
    """
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        raise InfraError(
            f"{folder} belongs to somebody else", hint="give a folder of yours with --runtime DIR"
        )
    if seen.st_mode & 0o022:
        raise InfraError(
            f"others may write to {folder}", hint="give a folder of your own with --runtime DIR"
        )
    return seen.st_mode


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


def sweep(runtime: Path, *, scope: Scope | None = None) -> list[str]:
    """End the guests of runs that are dead, and remove their roots; what was ended, in words.

    The lock of a run whose libvirt cannot be reached stays for the next start, which is said
    too. Takes no longer than some seconds, whatever such a libvirt does.

    Raises:
        InfraError: `runtime` is not this user's alone.
        Cancelled: the scope was cancelled.
    """
    if not os.path.lexists(runtime):
        return []
    require_own(runtime)
    ended: list[str] = []
    asked: list[tuple[Path, _Elsewhere]] = []
    with ExitStack() as opened:
        for path in sorted(runtime.glob("*.lock")):
            descriptor = _open_lock(path)
            if descriptor is None:
                continue
            opened.callback(os.close, descriptor)
            if not _hold(path, descriptor):
                continue
            if uri := os.read(descriptor, 4096).decode(errors="replace"):
                asked.append((path, _Elsewhere(uri, path.stem)))
            else:
                ended += kill_all(runtime / path.stem)
                _forget(path)
        limit = Scope(ELSEWHERE_SECONDS, parent=scope)
        for path, other in asked:
            ended += other.words(limit)
            if not other.problem:
                _forget(path)
    return ended


def _open_lock(path: Path) -> int | None:
    """A lock file's descriptor; None where it is gone, or none that this user made."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    seen = os.fstat(descriptor)
    if stat.S_ISREG(seen.st_mode) and seen.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    return None


def _forget(lock: Path) -> None:
    """Remove the root of a run that is over, and its lock."""
    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
    lock.unlink(missing_ok=True)


def kill_all(root: Path) -> list[str]:
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


class _Elsewhere:
    """Ends the guests of the run `name` at another libvirt, in a thread: opening a connection
    may hang for good, and libvirt knows no deadline for that."""

    def __init__(self, uri: str, name: str) -> None:
        self.problem = SILENT if uri in _silent else ""
        self._uri = uri
        self._prefix = f"ktrial-{name}-"
        self._ended: list[str] = []
        self._thread = threading.Thread(target=self._run, name="libvirt elsewhere", daemon=True)
        if not self.problem:
            self._thread.start()

    def words(self, limit: Scope) -> list[str]:
        """What was ended there, or why nothing was: `problem` is set then."""
        while not self.problem and self._thread.is_alive():
            limit.check()
            if limit.expired:
                _silent.add(self._uri)
                self.problem = SILENT
            self._thread.join(POLL_SECONDS)
        if not self.problem:
            return self._ended
        return [f"nothing at {self._uri}, which {self.problem}: the next start tries it again"]

    def _run(self) -> None:
        try:
            self._ended = self._destroy()
        except Exception as error:
            self.problem = f"cannot be reached ({error})"

    def _destroy(self) -> list[str]:
        libvirt: Any = load_libvirt()
        connection = libvirt.open(self._uri)
        try:
            found = self._guests(connection)
            for each in found:
                with suppress(libvirt.libvirtError):  # it may be gone by itself
                    each.destroy()
            if left := [each.name() for each in self._guests(connection)]:
                raise InfraError(f"{left[0]} does not end")
            return [f"{each.name()} of a dead run at {self._uri}" for each in found]
        finally:
            connection.close()

    def _guests(self, connection: Any) -> list[Any]:
        libvirt: Any = load_libvirt()
        running = connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
        return [each for each in running if each.name().startswith(self._prefix)]
