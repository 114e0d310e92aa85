"""A guest that runs, as events deal with it: asks QEMU and the guest, and waits until they agree.

What an event comes to is told from QEMU's answers and the guest's (see `agree`). A command that
does not come back is not waited for any longer than the event's own few seconds; meanwhile a
fresh connection tells whether the guest answers at all, and one that does not is given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline import agree, guestview, host
from pipeline.agree import HostView, Wanted
from pipeline.errors import Cancelled, InfraError
from pipeline.guest import Guest
from pipeline.guestview import GuestView
from pipeline.model import Architecture, EventState, GuestShape, Stop
from pipeline.scope import Scope
from pipeline.session import Reply

# What the kernel, a busy guest and ssh may take for one command or one agreement; the second
# number is for each vCPU, block or DIMM. An emulated guest is slow: an event on an idle host takes
# a second or two. On a crowded host all of these are as much longer (see `host`).
SECONDS = {"kvm": (5.0, 0.1), "tcg": (20.0, 0.3)}
# After so long without an answer a fresh connection is tried, for so long: a guest that is dead
# to both is given up.
DOUBT_SECONDS = {"kvm": 2.0, "tcg": 8.0}
AFRESH_SECONDS = {"kvm": 3.0, "tcg": 12.0}
PAUSE_SECONDS = 0.05
# The session's process in the guest and all that it starts come before whatever the workload
# does: hundreds of tasks of hackbench would else keep an event's commands waiting for seconds.
HURRY = "renice -n -20 -p $PPID || busybox renice -n -20 -p $PPID"
NO_ANSWER = "no answer"
DEATH_SECONDS = 1.0  # until a death shows that has broken a connection


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a guest is. `overridden`: firmware tables were replaced (see `acpitables`);
    `zone`: the state to which added memory is brought, "online" or "online_movable"."""

    shape: GuestShape
    architecture: Architecture
    accelerator: str
    overridden: bool = False
    zone: str = "online"


class Session(Protocol):
    """A way into the guest that events have for themselves."""

    def run(self, command: str, *, scope: Scope) -> Reply: ...


class Unmet(Exception):
    """An event ends here, and not well. It never leaves the modules of events."""

    def __init__(self, state: EventState, reason: str, title: str = "") -> None:
        super().__init__(reason)
        self.state, self.reason, self.title = state, reason, title


@dataclass(frozen=True, kw_only=True)
class Look:
    """Both sides at one time."""

    host: HostView
    view: GuestView

    @property
    def wanted(self) -> Wanted:
        """All as it is."""
        return Wanted(
            vcpus=len(self.host.vcpus),
            online=self.view.online,
            memory=self.host.memory,
            blocks_online=self.view.blocks_online,
            memory_kb=self.view.memory_kb,
        )


class Actor:
    """One for a boot. `answers` asks over a connection of its own whether the guest is there."""

    def __init__(
        self,
        guest: Guest,
        session: Session,
        setting: Setting,
        answers: Callable[[Scope], bool],
    ) -> None:
        self.guest = guest
        self.setting = setting
        self.stuck = False  # a command never came back: whatever it holds is held for ever
        self.removed = False  # a vCPU was taken out of this guest
        self._session = session
        self._answers = answers

    # ------------------------------------------------------------------ asking

    def hurry(self, scope: Scope) -> None:
        """Open the events' session, ahead of all else in the guest. What comes of it the events
        themselves will see."""
        self._session.run(HURRY, scope=scope.child(self.seconds()))

    def look(self, scope: Scope) -> Look:
        host = self.host()
        reply = self.run(guestview.COMMAND, scope, self.seconds())
        try:
            return Look(host=host, view=guestview.parse(reply.text))
        except ValueError as error:
            raise Unmet(EventState.FAILED, str(error), "the guest cannot be read") from error

    def host(self) -> HostView:
        """What QEMU says. InfraError where it does not."""
        ask = self.guest.machine.qmp
        hotplug = self.setting.architecture.vcpu_hotplug
        cpus: Any = ask("query-hotpluggable-cpus" if hotplug else "query-cpus-fast")
        return agree.host_view(cpus, ask("query-memory-devices"), ask("query-memory-size-summary"))

    def qemu_version(self) -> tuple[int, int]:
        """(7, 2). InfraError where QEMU does not answer."""
        version = self.guest.machine.qmp("query-version")["qemu"]
        return int(version["major"]), int(version["minor"])

    def seconds(self, count: int = 0) -> float:
        """How long something may take that is done `count` times."""
        fixed, each = SECONDS[self.setting.accelerator]
        return (fixed + each * count) * host.crowding()

    def run(self, command: str, scope: Scope, seconds: float) -> Reply:
        """A command in the guest, which is to come back. Unmet where it does not."""
        after = DOUBT_SECONDS[self.setting.accelerator]  # asking early does no harm
        back = threading.Event()
        doubt = threading.Timer(after, self._doubt, args=(scope.child(), back))
        doubt.daemon = True
        doubt.start()
        try:
            reply = self._session.run(command, scope=scope.child(seconds))
        finally:
            doubt.cancel()
            back.set()
        if reply.exit_status is not None:
            return reply
        scope.check()
        if self.guest.died.wait(DEATH_SECONDS):
            raise self.death()
        self.stuck = True
        self._check_time(scope)
        words = f"a command in the guest did not come back in {seconds:.0f} s ({reply.problem})"
        raise Unmet(EventState.FAILED, f"{words}; the guest answers others", NO_ANSWER)

    def _doubt(self, scope: Scope, back: threading.Event) -> None:
        """Runs in a thread of its own beside a command that keeps us waiting. `back`: it has come
        back meanwhile, and whoever does not answer now may be powering off."""
        limit = scope.child(AFRESH_SECONDS[self.setting.accelerator] * host.crowding())
        with suppress(Cancelled):
            silent = not self._answers(limit)
            if silent and not back.is_set() and not self.guest.died.is_set():
                self.guest.give_up("the guest does not answer any more")

    # ------------------------------------------------------------------ waiting

    def until(self, done: Callable[[Look], bool], limit: Scope, scope: Scope) -> Look:
        """Look until `done` or the limit; the last look."""
        while True:
            seen = self.look(scope)
            if done(seen) or limit.expired:
                return seen
            scope.sleep(PAUSE_SECONDS)

    def agreed(self, wanted: Wanted, limit: Scope, scope: Scope) -> Look:
        """Wait until QEMU and the guest have what is wanted. Unmet where they do not."""

        def differences(seen: Look) -> tuple[str, ...]:
            return agree.differences(wanted, seen.host, seen.view, self.setting.shape)

        seen = self.until(lambda look: not differences(look), limit, scope)
        if left := differences(seen):
            self._check_time(scope)
            raise Unmet(EventState.FAILED, "; ".join(left), left[0])
        return seen

    # ------------------------------------------------------------------ what went wrong

    def _check_time(self, scope: Scope) -> None:
        """Unmet where it is the boot's own time that has run out, which says nothing of a guest."""
        if scope.expired:
            raise Unmet(EventState.HARNESS, "the time for the boot as a whole ran out")

    def death(self) -> Unmet:
        """The guest is gone: by a fault of its kernel, or of QEMU's."""
        end = self.guest.end()
        if end.stop is Stop.INFRA:
            words = [end.reason, *end.qemu_log_tail.splitlines()[-3:]]
            return Unmet(EventState.HARNESS, "; ".join(dict.fromkeys(words)))
        if end.stop is Stop.HANG:
            return Unmet(EventState.FAILED, end.reason, NO_ANSWER)
        return Unmet(EventState.FAILED, end.reason, end.reason.partition(";")[0])

    def fault(self, error: InfraError) -> Unmet:
        """libvirt or QEMU refused, or is gone."""
        if self.guest.died.wait(DEATH_SECONDS):
            return self.death()
        return Unmet(EventState.HARNESS, str(error))


def stopwatch() -> Callable[[], float]:
    """Seconds since now."""
    begun = time.monotonic()
    return lambda: time.monotonic() - begun
