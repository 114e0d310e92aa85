"""A libvirt domain as a guest sees it: start, end, and what events do to it."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from pipeline.errors import InfraError
from pipeline.guest import Handle
from pipeline.reaper import Reaper
from pipeline.virt import exit_words, load_libvirt

KILL_SECONDS = 5.0


class Driver(Protocol):
    """What a domain needs of the connection that it lives on."""

    root: Path
    embedded: bool
    reaper: Reaper | None

    def create(self, handle: DomainHandle, xml: str) -> Any:
        """Start the domain."""

    def forget(self, handle: DomainHandle) -> None:
        """The domain is gone."""


class DomainHandle(Handle):
    """In the embedded case QEMU is our own child."""

    def __init__(self, driver: Driver, name: str) -> None:
        super().__init__()
        self.name = name
        self._driver = driver
        self._domain: Any = None

    def start(self, xml: str) -> None:
        self._domain = self._driver.create(self, xml)

    def on_exit(self, status: int | None) -> None:
        """QEMU's process is gone (embedded). None: its status is not known."""
        if status:
            self.failed = True
            self.exit_words = exit_words(status)
        self.stopped.set()

    def on_stopped(self, *, failed: bool) -> None:
        """libvirt says that the domain is gone; it does not say why QEMU failed."""
        self.failed = self.failed or failed
        self.stopped.set()

    def on_lost(self) -> None:
        """libvirt's daemon is gone, and the guest with it."""
        self.failed = True
        self.exit_words = "the connection to libvirt was lost"
        self.stopped.set()

    def destroy(self) -> None:
        """End the guest now. QEMU is killed first: nothing in it is worth a polite end."""
        what, self._domain = self._domain, None
        if what is None:
            return
        reaper = self._driver.reaper
        killed = reaper is not None and reaper.kill(self.name)
        if not (killed and self.stopped.wait(KILL_SECONDS)):
            # Otherwise libvirt sees it from the closed monitor; its own way takes 0.2 s more.
            libvirt: Any = load_libvirt()
            with suppress(libvirt.libvirtError):
                what.destroy()
        self.stopped.set()
        self._driver.forget(self)

    def log(self) -> str:
        folder = Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".cache/libvirt/qemu/log"  # session
        if self._driver.embedded:
            folder = self._driver.root / "log" / "qemu"
        try:
            return (folder / f"{self.name}.log").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def monitor(self, command: str) -> str:
        import libvirt_qemu  # noqa: PLC0415

        what = self._domain
        libvirt: Any = load_libvirt()
        if what is None:
            return ""
        with suppress(libvirt.libvirtError):
            human = libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP
            return str(libvirt_qemu.qemuMonitorCommand(what, command, human))
        return ""

    # ------------------------------------------------------------------ while the guest runs

    def cpu_seconds(self) -> float:
        with self._asked("libvirt does not tell the CPU time") as what:
            return float(what.info()[4]) / 1e9

    def waited_seconds(self) -> float:
        threads = [each["thread-id"] for each in self.qmp("query-cpus-fast")]
        return sum(map(_waited, threads))

    def qmp(self, command: str, **arguments: object) -> Any:
        import libvirt_qemu  # noqa: PLC0415

        request: dict[str, object] = {"execute": command}
        if arguments:
            request["arguments"] = arguments
        with self._asked(f"QEMU does not answer {command}") as what:
            text = libvirt_qemu.qemuMonitorCommand(what, json.dumps(request), 0)
        answer = json.loads(text)
        if "error" in answer:
            raise InfraError(f"QEMU refuses {command}: {answer['error'].get('desc', '')}")
        return answer["return"]

    def vcpus(self) -> int:
        with self._asked("libvirt does not count the vCPUs") as what:
            return int(what.vcpusFlags(_live()))

    def set_vcpus(self, count: int) -> None:
        with self._asked(f"libvirt does not set {count} vCPUs") as what:
            what.setVcpusFlags(count, _live())

    def attach(self, xml: str) -> None:
        with self._asked("libvirt does not attach a device") as what:
            what.attachDeviceFlags(xml, _live())

    def detach(self, alias: str) -> None:
        # The one call that does not wait for the guest, for up to 5 s, with the monitor held.
        with self._asked(f"libvirt does not detach {alias}") as what:
            what.detachDeviceAlias(alias, _live())

    @contextmanager
    def _asked(self, problem: str) -> Iterator[Any]:
        what = self._domain
        libvirt: Any = load_libvirt()
        if what is None or self.stopped.is_set():
            raise InfraError(f"{problem}: the guest is gone")
        try:
            yield what
        except libvirt.libvirtError as error:
            raise InfraError(f"{problem}: {error}") from error


def _live() -> int:
    libvirt: Any = load_libvirt()
    return int(libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _waited(thread: int) -> float:
    """Seconds on a run queue: the second number (Documentation/scheduler/sched-stats.rst)."""
    try:
        return int(Path(f"/proc/{thread}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError) as error:
        raise InfraError(f"the host does not tell how long QEMU waited: {error}") from error
