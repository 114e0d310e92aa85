"""The connection to libvirt, and the guests that live on it.

By default libvirt's QEMU driver runs inside this process (`qemu:///embed`): no daemon,
as root or as an ordinary user. Each process has a folder of its own for it, the *root*, and
holds a lock beside it (see `roots`): the embedded driver refuses AUTODESTROY (libvirt 9.0),
so QEMU outlives a `kill -9` of its run, and the next run's `sweep` ends it.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline import domain
from pipeline.cache import publish
from pipeline.console import Family
from pipeline.domain import GuestSpec
from pipeline.errors import InfraError
from pipeline.guest import Guest
from pipeline.machine import DomainHandle
from pipeline.reaper import Reaper
from pipeline.roots import claim, kill_all, lock_path, own_folder, sweep
from pipeline.scope import Scope
from pipeline.virt import EMBEDDED, load_libvirt, require_usable

__all__ = ["Hypervisor", "sweep"]

# A UNIX socket's path ends at 108 bytes; libvirt's longest below the root has about 45.
LONGEST_RUNTIME = 50
WIND_UP_SECONDS = 5.0
WIND_UP_STEP = 0.05
LONGEST_NAME = 60

QEMU_CONF = """\
# As root libvirt would look for virtlogd, which is a daemon.
stdio_handler = "file"
security_driver = "none"
namespaces = []
cgroup_controllers = []
dynamic_ownership = 0
remember_owner = 0
max_core = 0
"""
QEMU_CONF_ROOT = """\
user = "root"
group = "root"
"""


class Hypervisor:
    """A libvirt connection for one run; a context manager.

    `runtime` is a short folder that belongs to this user (such as /tmp/ktrial-UID);
    `cache` keeps libvirt's capability probe, which costs seconds, from run to run.
    With `connect` another libvirt of this user's is used (`virt.require_usable`), and
    `runtime` only holds the lock and what guests boot.

    Raises (on entering):
        InfraError: there is no libvirt, or it refuses.
    """

    def __init__(
        self,
        *,
        runtime: Path,
        cache: Path,
        families: tuple[Family, ...],
        connect: str | None = None,
    ) -> None:
        self.runtime = runtime
        self.uri = None if connect == EMBEDDED else connect
        self._families = families
        self._probes = cache / "libvirt" / "capabilities"
        self._driver: _Driver | None = None
        self._handles: list[DomainHandle] = []

    @property
    def root(self) -> Path:
        """Where the embedded libvirt keeps its state."""
        return self._used.root

    def __enter__(self) -> Hypervisor:
        if self.uri is not None:
            require_usable(self.uri)
        own_folder(self.runtime)
        sweep(self.runtime)
        if self.uri is None:
            self._driver = _embedded(self.runtime, self._probes)
        else:
            self._driver = _Driver(self.runtime, self.uri, self._probes)
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in list(self._handles):
            handle.destroy()
        if self._driver is not None:
            self._driver.keep_probes(self._probes)
            if self.uri is not None:
                self._driver.close()
            self._driver = None

    def versions(self) -> dict[str, str]:
        """{"libvirt": "9.0.0"} of this connection."""
        number = self._used.connection.getLibVersion()
        return {"libvirt": f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"}

    @contextmanager
    def guest(self, spec: GuestSpec, *, scope: Scope) -> Iterator[Guest]:
        """Start a guest; it is gone when the block is left, however that happens.

        The domain's name gets the id of the root and a number in front. Several guests may
        be started at once, from any thread.

        Raises:
            InfraError: libvirt or QEMU refuses.
            Cancelled: the scope was cancelled before the guest was started.
        """
        scope.check()
        driver = self._used
        spec = replace(spec, name=driver.new_name(spec.name))
        spec.console.parent.mkdir(parents=True, exist_ok=True)
        spec.console.write_bytes(b"")
        handle = DomainHandle(driver, spec.name)
        guest = Guest(spec=spec, handle=handle, families=self._families)
        self._handles.append(handle)
        try:
            started = time.time()
            handle.start(domain.render(spec))
            guest.begin(started)
            yield guest
        finally:
            if guest.started:
                guest.end()
            handle.destroy()
            guest.finish()
            self._handles.remove(handle)

    @property
    def _used(self) -> _Driver:
        if self._driver is None:
            raise InfraError("the hypervisor is not open")
        return self._driver


# --------------------------------------------------------------------------- driver

_one = threading.Lock()
_opened: list[_Driver] = []


def _embedded(runtime: Path, probes: Path) -> _Driver:
    """This process's embedded driver. libvirt 9.0 opens one root a process and keeps to it
    ("already open with path") even when every connection is closed, so it lives until exit.
    """
    with _one:
        if not _opened:
            driver = _Driver(runtime, None, probes)
            atexit.register(driver.close)
            _opened.append(driver)
        return _opened[0]


def _remove_root(root: Path) -> None:
    """libvirt's threads may still write a file or two while they wind up (seen under load)."""
    limit = time.monotonic() + WIND_UP_SECONDS
    while root.exists() and time.monotonic() < limit:
        shutil.rmtree(root, ignore_errors=True)
        if root.exists():
            time.sleep(WIND_UP_STEP)


class _Driver:
    """A connection, and for the embedded driver its root and the reaper of its QEMUs."""

    def __init__(self, runtime: Path, uri: str | None, probes: Path) -> None:
        if len(os.fsencode(runtime)) > LONGEST_RUNTIME:
            raise InfraError(
                f"the folder for libvirt's sockets has too long a name: {runtime}",
                hint=f"give one of at most {LONGEST_RUNTIME} characters",
            )
        self.embedded = uri is None
        self.connection: Any = None
        self.reaper: Reaper | None = None
        self._runtime = runtime
        self._numbers = itertools.count(1)
        self._handles: dict[str, DomainHandle] = {}
        self._id, self._lock = claim(runtime, uri or "")
        self.root = runtime / self._id
        try:
            self.root.mkdir(mode=0o700)
            if self.embedded:
                self._prepare_root(probes)
            self._open(uri or f"qemu:///embed?root={self.root}")
        except BaseException:
            self.close()
            raise

    def _prepare_root(self, probes: Path) -> None:
        (self.root / "etc").mkdir()
        conf = QEMU_CONF + (QEMU_CONF_ROOT if os.geteuid() == 0 else "")
        (self.root / "etc" / "qemu.conf").write_text(conf)
        if probes.is_dir():
            with suppress(OSError):
                shutil.copytree(probes, self._root_probes)
        self.reaper = Reaper(self.root, self._on_exit)
        self.reaper.__enter__()

    def _open(self, uri: str) -> None:
        libvirt: Any = load_libvirt(self.root / "libvirt.log" if self.embedded else None)
        try:
            self.connection = libvirt.open(uri)
            self.connection.domainEventRegisterAny(
                None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._on_lifecycle, None
            )
            if not self.embedded:
                self.connection.registerCloseCallback(self._on_close, None)
        except libvirt.libvirtError as error:
            raise InfraError(
                f"libvirt does not open {uri}: {error}", hint=_opening_hint(str(error))
            ) from error

    def close(self) -> None:
        """End every guest, and leave nothing behind."""
        for handle in list(self._handles.values()):
            handle.destroy()
        if self.connection is not None:
            with suppress(Exception):
                self._wait_for_workers()
                self.connection.close()
        if self.reaper is not None:
            self.reaper.__exit__()
        _remove_root(self.root)
        lock_path(self._runtime, self._id).unlink(missing_ok=True)
        os.close(self._lock)

    def _wait_for_workers(self) -> None:
        """Until libvirt's own threads have forgotten every domain: as long as they deal with the
        end of one, they save its state below the root, and make folders for that."""
        limit = time.monotonic() + WIND_UP_SECONDS
        while self.connection.listAllDomains() and time.monotonic() < limit:
            time.sleep(WIND_UP_STEP)

    def new_name(self, name: str) -> str:
        """A domain name that was never used here: libvirt may still be clearing the last one."""
        return f"ktrial-{self._id}-{next(self._numbers)}-{name}"[:LONGEST_NAME]

    def create(self, handle: DomainHandle, xml: str) -> Any:
        libvirt: Any = load_libvirt()
        self._handles[handle.name] = handle
        try:
            with self.reaper.starting() if self.reaper else nullcontext():
                return self.connection.createXML(xml, 0)
        except libvirt.libvirtError as error:
            self.forget(handle)
            raise InfraError(
                f"the guest {handle.name} does not start: {error}",
                hint="`ktrial doctor` checks QEMU and libvirt",
            ) from error

    def forget(self, handle: DomainHandle) -> None:
        self._handles.pop(handle.name, None)

    def keep_probes(self, probes: Path) -> None:
        """Copy new capability probes to the cache."""
        for path in self._root_probes.glob("*.xml"):
            target = probes / path.name
            with suppress(OSError):
                if not target.exists() or target.read_bytes() != path.read_bytes():
                    publish(target, lambda part, path=path: shutil.copy2(path, part))  # type: ignore[misc]

    @property
    def _root_probes(self) -> Path:
        return self.root / "cache" / "qemu" / "capabilities"

    def _on_exit(self, name: str, status: int | None) -> None:
        """The reaper's word (embedded): QEMU is gone, and how."""
        if handle := self._handles.get(name):
            handle.on_exit(status)

    def _on_close(self, _connection: object, _reason: int, _opaque: object) -> None:
        """The daemon is gone, and with it who could end its guests: they are this user's."""
        kill_all(self.root)
        for handle in list(self._handles.values()):
            handle.on_lost()

    def _on_lifecycle(
        self, _connection: object, what: Any, event: int, detail: int, _opaque: object
    ) -> None:
        """libvirt's word; the embedded driver's comes after the reaper's, which knows more."""
        libvirt: Any = load_libvirt()
        handle = self._handles.get(what.name())
        if handle and not self.embedded and event == libvirt.VIR_DOMAIN_EVENT_STOPPED:
            handle.on_stopped(failed=detail == libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED)


def _opening_hint(message: str) -> str:
    if "libvirt-qemu" in message:
        # Debian's libvirt looks the user up before it reads qemu.conf.
        return "root needs that user: adduser --system --group --no-create-home libvirt-qemu"
    if "no connection driver" in message or "No such file" in message:
        return "apt-get install libvirt-daemon libvirt-daemon-driver-qemu"
    return "`ktrial doctor` checks libvirt"
