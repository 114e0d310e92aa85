"""Cache entries that are whole or not there at all, and locks between runs.

An entry is made under a temporary name beside its target and then renamed, so a
killed process never leaves a half entry that is taken for whole. Locks are flock(2)
on an open file: they hold between threads as well as between processes, and go with
their holder however that ends. A temporary folder is itself locked while it is being
filled, so whoever comes next can tell a dead one from one in the making.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.errors import InfraError
from pipeline.scope import Scope

POLL_SECONDS = 0.05
TEMPORARY_PREFIX = ".making-"


@contextmanager
def locked(
    path: Path,
    *,
    scope: Scope,
    on_wait: Callable[[], None] | None = None,
    shared: bool = False,
) -> Iterator[int]:
    """Hold the lock file `path`, made where missing; `on_wait` is called once if it has to wait.

    Yields its descriptor: a child process that inherits it holds the lock too.

    Raises:
        InfraError: the scope's deadline passed while somebody else held it.
        Cancelled: the run was cancelled while waiting.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    waited = False
    while (lock := _attempt(path, shared=shared)) is None:
        if not waited and on_wait:
            on_wait()
        waited = True
        if scope.expired:
            raise InfraError(f"another run holds {path} for too long", hint="wait for it or end it")
        scope.sleep(POLL_SECONDS)
    try:
        yield lock
    finally:
        os.close(lock)


def _attempt(path: Path, *, shared: bool) -> int | None:
    """A descriptor that holds the lock, or None where somebody else does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        if _is(path, descriptor):
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def _is(path: Path, descriptor: int) -> bool:
    """Whether `path` still names the open file: `clean` may have removed it meanwhile."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock file or folder `path` right now; it takes nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def using(folder: Path) -> Iterator[None]:
    """Mark an entry as in use: `remove_unused` leaves it alone meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def entry(folder: Path, make: Callable[[Path], object]) -> bool:
    """Have the folder `folder`; where it is missing, `make` fills a temporary one that becomes it.

    True where it was made now. Where two make the same entry, the first to finish wins
    and the other's work is dropped. A hit sets the folder's time: `clean` goes by it.
    """
    if folder.is_dir():
        with suppress(OSError):  # a cache that may only be read is good enough for a hit
            os.utime(folder)
        return False
    with making(folder.parent, folder.name) as temporary:
        make(temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
            return False
    return True


def publish(target: Path, make: Callable[[Path], object]) -> None:
    """Have `make` write one file under a temporary name and put it in the place of `target`."""
    with making(target.parent, target.name) as temporary:
        part = temporary / target.name
        make(part)
        part.replace(target)


@contextmanager
def making(parent: Path, name: str) -> Iterator[Path]:
    """A locked temporary folder below `parent`; what is left of it afterwards is removed.

    What cannot be removed is left to the next sweep: it must not hide what was made.
    """
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    temporary, lock = _locked_folder(parent, name)
    try:
        yield temporary
    finally:
        try:
            with suppress(OSError):
                if _is(temporary, lock):
                    remove(temporary)
        finally:
            os.close(lock)


@contextmanager
def scratch(cache: Path, name: str) -> Iterator[Path]:
    """A temporary folder below `cache`/tmp, gone afterwards."""
    with making(cache / "tmp", name) as folder:
        yield folder


def _locked_folder(parent: Path, name: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY_PREFIX}{name}-", dir=parent))
        try:
            folder.chmod(0o755)
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # a sweep was quicker than our lock
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(folder, lock):
                return folder, lock
        except BlockingIOError:
            pass
        os.close(lock)


def sweep(parent: Path) -> int:
    """Remove the temporary folders that dead processes left in `parent`; how many are gone.

    What cannot be removed stays; it is in nobody's way.
    """
    gone = 0
    for path in parent.glob(f"{TEMPORARY_PREFIX}*"):
        with suppress(OSError):
            gone += remove_unused(path)
    return gone


def remove_unused(folder: Path) -> bool:
    """Remove an entry unless it is being made or used; whether it is gone by our hand."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is(folder, lock):
            return False
        doomed = folder
        if not folder.name.startswith(TEMPORARY_PREFIX):
            # Out of the way first: a half removed entry must not be taken for a whole one.
            doomed = folder.with_name(f"{TEMPORARY_PREFIX}removed-{os.getpid()}-{folder.name}")
            folder.rename(doomed)
        remove(doomed)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def remove(path: Path) -> None:
    """Remove a file or folder, closed and deeply nested folders inside it too; missing is fine."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):  # a folder that its owner may not read; 1,000 in each other
        with suppress(FileNotFoundError):
            _raze(path)


def _raze(top: Path) -> None:
    """Remove a folder, each one in it opened first, and moved up so that no path gets long."""
    top.chmod(stat.S_IRWXU)
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        with os.scandir(folder) as found:
            entries = list(found)
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                Path(each.path).chmod(stat.S_IRWXU)
                waiting.append(Path(each.path).rename(top / uuid.uuid4().hex))
            else:
                Path(each.path).unlink()
        if folder != top:
            folder.rmdir()
    top.rmdir()


def free_bytes(path: Path) -> int:
    """Bytes that may still be written below `path`, which need not exist yet."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
