"""A guest from its first console byte to its end.

The console is read all the time, so that a panic or QEMU's death ends every wait at once.
A guest that broke is never used again. Expected ends are values (`GuestEnd`).
"""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from pipeline import host
from pipeline.console import Classifier, Family, first_cause
from pipeline.domain import GuestSpec
from pipeline.errors import Cancelled
from pipeline.model import Finding, Stop
from pipeline.scope import Scope
from pipeline.virt import qemu_words

POLL_SECONDS = 0.005  # how often the console file is read
CANCEL_SECONDS = 0.05  # how often a wait looks at its scope
PANIC_SECONDS = 1.5  # from a panic's first line until panic=-1 has reset the guest
POWEROFF_SECONDS = 5.0
CATCH_UP_SECONDS = 60.0  # for the reader to get through a gigabyte that is there already
LOG_TAIL_LINES = 15
LAST_BYTES = 1 << 20
FULL_BYTES = 64 << 10  # less room than that on its disk, and QEMU drops what the console says
# So many reports, and so many a second since the first: the kernel does nothing else. A report is
# a kilobyte and more of console, and whoever reads the log has seen enough.
STORM_REPORTS = 250
STORM_RATE = 50.0
STORM_SECONDS = 0.5  # how often they are counted

READY = re.compile(rb"ktrial: ready(?: +(\d+(?:\.\d+)?))?")
POWER_DOWN = re.compile(rb"reboot: (?:Power down|System halted|machine restart|Restarting system)")
FORWARD = re.compile(r"TCP\[HOST_FORWARD\]\s+\d+\s+\S+\s+(\d+)\s+\S+\s+22\b")


class State(Enum):
    """Where a guest is in its life; it only ever moves down this list."""

    DEFINED = "defined"
    BOOTING = "booting"
    READY = "ready"
    BROKEN = "broken"
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class GuestEnd:
    """How a guest ended. `qemu_log_tail`: QEMU's last words.

    `reason` is one line: what happened, and behind "; " what is of this boot alone. `since`:
    seconds since the epoch when the host read the first report, or the console's last word where
    the guest broke without one; None where all was well.
    """

    stop: Stop
    reason: str
    findings: tuple[Finding, ...]
    qemu_log_tail: str
    since: float | None = None


class Handle:
    """The machine below a guest, as `hypervisor` gives it.

    `stopped` is set once the machine is gone, `failed` says that it went by a fault of
    QEMU's, and `exit_words` how.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.failed = False
        self.exit_words = ""

    def destroy(self) -> None:
        """End the machine now; it is gone on return."""
        raise NotImplementedError

    def log(self) -> str:
        """QEMU's own log."""
        raise NotImplementedError

    def monitor(self, command: str) -> str:
        """The answer to a command of QEMU's human monitor; empty where there is none."""
        raise NotImplementedError

    def cpu_seconds(self) -> float:
        """How much of its host's CPUs the machine has had. InfraError where nobody tells."""
        raise NotImplementedError

    def waited_seconds(self) -> float:
        """How long its vCPUs were ready to run on the host and had no CPU, added up. InfraError
        where nobody tells."""
        raise NotImplementedError

    # What events do. Each raises InfraError where libvirt or QEMU refuses, or is gone.

    def qmp(self, command: str, **arguments: object) -> Any:
        """What QEMU returns to a command of its own protocol."""
        raise NotImplementedError

    def vcpus(self) -> int:
        """How many vCPUs libvirt counts, which need not be how many there are (see `agree`)."""
        raise NotImplementedError

    def set_vcpus(self, count: int) -> None:
        """Have so many vCPUs."""
        raise NotImplementedError

    def attach(self, xml: str) -> None:
        """Add a device."""
        raise NotImplementedError

    def detach(self, alias: str) -> None:
        """Ask the guest to let a device go; it has not yet, on return."""
        raise NotImplementedError


class Runs(Protocol):
    """A session, as far as shutting down needs it."""

    def run(self, command: str, *, scope: Scope) -> object:
        """Run a command in the guest."""


class Guest:
    """A running guest. `died` is set as soon as it cannot be used any more."""

    def __init__(self, *, spec: GuestSpec, handle: Handle, families: tuple[Family, ...]) -> None:
        self.spec = spec
        self.console = spec.console
        self.died = threading.Event()
        self.started = 0.0  # seconds since the epoch
        self.ready_at: float | None = None
        self.state = State.DEFINED
        self._handle = handle
        self._classifier = Classifier(families)
        self._change = threading.Condition()
        self._leaving = threading.Event()
        self._tail = b""
        self._spoke = 0.0  # when the console last said something, on the monotonic clock
        self._taken = 0  # bytes of the console that were read
        self._heard = 0.0  # the same, in seconds since the epoch
        self._reported: float | None = None  # when the first report was read
        self._counted = 0.0  # when the reports were last counted, on the monotonic clock
        self._storm = False
        self._powered_down = False
        self._asked = False  # whether a power-off is what we want
        self._end: GuestEnd | None = None
        self._port = spec.ssh_port
        self._reader = threading.Thread(target=self._read, name=f"{spec.name} console", daemon=True)

    # ------------------------------------------------------------------- what the users call

    @property
    def ssh_port(self) -> int:
        """The port on 127.0.0.1 that leads to the guest's port 22; 0 where there is none."""
        if not self._port:
            found = FORWARD.search(self._handle.monitor("info usernet"))
            self._port = int(found[1]) if found else 0
        return self._port

    @property
    def machine(self) -> Handle:
        """The machine below, for events; it is gone when the guest is."""
        return self._handle

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the kernel reported so far."""
        with self._change:
            return self._classifier.findings

    def last_words(self) -> str:
        """The end of the console, which may be longer than this host's memory."""
        with open(self.console, "rb") as source:
            source.seek(max(0, source.seek(0, os.SEEK_END) - LAST_BYTES))
            return source.read().decode(errors="replace")

    def wait_ready(self, scope: Scope, *, silence: float | None = None) -> GuestEnd | None:
        """Wait until the image says that it is ready: None, or how the guest ended instead.

        A guest whose console says nothing for `silence` seconds is given up.

        Raises:
            Cancelled: the scope was cancelled.
        """
        late = "the guest did not get ready"
        return self._wait(lambda: self.ready_at is not None, scope, late, silence=silence)

    def wait_stopped(self, scope: Scope) -> GuestEnd:
        """Wait for a guest that powers off by itself when it is through."""
        self._asked = True
        self._wait(self._handle.stopped.is_set, scope, "the guest did not power off")
        return self.end()

    def shutdown(self, scope: Scope, session: Runs | None = None) -> GuestEnd:
        """Have the guest power off through `session`, and end it where it does not."""
        if self._end is None and not self.died.is_set():
            self._asked = True
            if session is not None:
                session.run("poweroff -f", scope=scope.child(POWEROFF_SECONDS))
                limit = time.monotonic() + POWEROFF_SECONDS
                while not self._handle.stopped.wait(CANCEL_SECONDS):
                    if scope.cancelled or scope.expired or time.monotonic() > limit:
                        break
        return self.end()

    def give_up(self, why: str) -> GuestEnd:
        """End a guest that does not answer any more; every wait for it is over."""
        self._settle()
        if (
            self.died.is_set()
            or first_cause(self.findings)
            or self._storm
            or self._handle.stopped.is_set()
        ):
            return self.end()
        self._conclude(self._hung(why))
        return self.end()

    def end(self) -> GuestEnd:
        """How the guest ended; one that still runs counts as through, and is not used again."""
        if self._end is None:
            self._settle()
            self._conclude(self._judge())
        assert self._end is not None
        return self._end

    # ------------------------------------------------------------------- what `hypervisor` calls

    def begin(self, started: float) -> None:
        """The machine was started at `started`: read its console."""
        self.started = started
        self.state = State.BOOTING
        self._reader.start()

    def finish(self) -> None:
        """The machine is gone: stop reading."""
        self._leaving.set()
        if self._reader.is_alive():
            self._reader.join()
        self.state = State.STOPPED
        self.died.set()

    # ------------------------------------------------------------------- inside

    def _wait(
        self, done: _Test, scope: Scope, late: str, *, silence: float | None = None
    ) -> GuestEnd | None:
        self._spoke = time.monotonic()
        with self._change:
            while not done() and not self.died.is_set():
                if scope.cancelled:
                    raise Cancelled
                if scope.expired:
                    late = f"{late} in time"
                    break
                if silence is not None and time.monotonic() - self._spoke > silence:
                    late = f"{late} and said nothing for {silence:g} s"
                    break
                self._change.wait(scope.remaining(CANCEL_SECONDS))
            else:
                if not self.died.is_set():
                    return None
        return self.end() if self.died.is_set() else self.give_up(late)

    def _read(self) -> None:
        """Read the console until the machine is gone. Runs in its own thread."""
        with open(self.console, "rb", buffering=0) as source:
            while True:
                gone = self._handle.stopped.is_set() or self._leaving.is_set()
                while data := source.read(1 << 16):
                    self._take(data)
                if gone:
                    break
                self._handle.stopped.wait(POLL_SECONDS)
        with self._change:
            self._classifier.finish()
            self.state = State.STOPPED
            self.died.set()
            self._change.notify_all()

    def _take(self, data: bytes) -> None:
        with self._change:
            self._classifier.feed(data)
            self._taken += len(data)
            self._spoke, self._heard = time.monotonic(), time.time()
            if self._reported is None and self._classifier.findings:
                self._reported = self._heard
            window = self._tail + data
            self._tail = window[-64:]
            if self.ready_at is None and READY.search(window):
                self.ready_at = time.time()
                self.state = State.READY
            self._powered_down = self._powered_down or bool(POWER_DOWN.search(window))
            if self._classifier.broken or self._is_storm():
                self.state = State.BROKEN
                self.died.set()
            self._change.notify_all()

    def _is_storm(self) -> bool:
        """Whether the kernel does nothing but report."""
        now, since = time.monotonic(), self._reported
        if since is not None and not self._storm and now - self._counted > STORM_SECONDS:
            self._counted = now
            reports = sum(each.count for each in self._classifier.findings)
            enough = max(STORM_REPORTS, STORM_RATE * (time.time() - since))
            self._storm = reports >= enough
        return self._storm

    def _settle(self) -> None:
        """Hear all that was said so far, and of a broken guest its last words too."""
        self._catch_up()
        if self._classifier.broken:
            self._handle.stopped.wait(PANIC_SECONDS)
        if self._handle.stopped.is_set() and self._reader.is_alive():
            self._catch_up()
            self._reader.join(PANIC_SECONDS)

    def _catch_up(self) -> None:
        """Let the reader come to where the console ends now."""
        limit, end = time.monotonic() + CATCH_UP_SECONDS, self.console.stat().st_size
        while self._taken < end and self._reader.is_alive() and time.monotonic() < limit:
            time.sleep(POLL_SECONDS)

    def _judge(self) -> GuestEnd:
        cause = first_cause(self.findings)
        if cause or self._storm:
            return self._ended(Stop.KERNEL, cause.title) if cause else self._stormy()
        if unheard := self._unheard():
            return self._ended(Stop.INFRA, unheard)
        if not self._handle.stopped.is_set():
            return self._ended(Stop.COMPLETED, "")
        if self._handle.failed:
            words = self._handle.exit_words or "QEMU died"
            tail = self._log_tail().splitlines()[-2:]
            return self._ended(Stop.INFRA, ": ".join([words, *tail]))
        if self._asked:
            return self._ended(Stop.COMPLETED, "powered off")
        last = self._classifier.last_line or "nothing at all"
        words = f"the guest reset itself; the console's last line: {last}"
        if self._powered_down:
            words = "the guest powered off or rebooted unasked"
        return self._ended(Stop.KERNEL, words)

    def _hung(self, why: str) -> GuestEnd:
        """First cause wins: a stall that the kernel itself reported is why it does not answer."""
        stalls = (each.title for each in self.findings if each.kind == "hang")
        if unheard := self._unheard():
            return self._ended(Stop.INFRA, f"{unheard}; {why}")
        last = self._classifier.last_line or "nothing at all"
        words = "; ".join([*list(stalls)[:1], why, f"the console's last line: {last}"])
        return self._ended(Stop.HANG, words)

    def _unheard(self) -> str:
        """Why the console may lack what the kernel said, in words; "" where it does not."""
        full = host.free_disk(self.console.parent) < FULL_BYTES
        return f"the disk of {self.console.parent} is full: the console is cut" if full else ""

    def _stormy(self) -> GuestEnd:
        """The report that came most often is what the guest broke by."""
        findings = self.findings
        most = max(findings, key=lambda each: each.count)
        fatal = tuple(replace(each, fatal=each is most) for each in findings)
        end = self._ended(Stop.KERNEL, f"{most.title}; {most.count} times, and it goes on")
        return replace(end, findings=fatal)

    def _ended(self, stop: Stop, reason: str) -> GuestEnd:
        broke = stop in {Stop.KERNEL, Stop.HANG}
        return GuestEnd(
            stop=stop,
            reason=reason,
            findings=self.findings,
            qemu_log_tail=self._log_tail(),
            since=self._reported or (self._heard or self.started if broke else None),
        )

    def _conclude(self, end: GuestEnd) -> None:
        with self._change:
            if self._end is None:
                self._end = end
            self.died.set()
            self._change.notify_all()

    def _log_tail(self) -> str:
        return "\n".join(qemu_words(self._handle.log())[-LOG_TAIL_LINES:])


class _Test(Protocol):
    def __call__(self) -> bool: ...
