"""How long a guest is waited for before it is called dead.

Generous: neither a slow host nor a large guest must turn a good kernel into a hang. Emulated
vCPUs share the host's cores, so that a guest of 64 comes up slowly (arm64 6.12 was silent for
13 s at a time); and on a host that has several times its load, everything takes as much longer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pipeline import host
from pipeline.domain import GuestSpec
from pipeline.errors import InfraError
from pipeline.guest import Guest, GuestEnd
from pipeline.model import Accelerator, GuestShape, Stop
from pipeline.scope import Scope


@dataclass(frozen=True, kw_only=True)
class Limit:
    """`seconds`, and `each` more for each vCPU that boots; on a host with nothing else to do."""

    seconds: float
    each: float = 0.0

    def of(self, shape: GuestShape) -> float:
        return self.seconds + self.each * shape.vcpus

    def sum(self, shape: GuestShape) -> str:
        """The same, written out."""
        each = f" + {self.each:g} s × {shape.vcpus} vCPUs" if self.each else ""
        return f"({self.seconds:g} s{each})" if each else f"{self.seconds:g} s"


# Until the guest is ready; and without a word on its console, which is given up long before.
BOOT: Mapping[str, Limit] = {"kvm": Limit(seconds=60.0), "tcg": Limit(seconds=240.0, each=4.0)}
SILENCE: Mapping[str, Limit] = {"kvm": Limit(seconds=15.0), "tcg": Limit(seconds=40.0, each=1.0)}


# On a host with so many times its load, a guest that waited for a CPU for this share of the time or
# more, and longer than it had one, was starved: nothing is known of its kernel. One that hangs with
# its vCPUs halted waits for nothing; one that spins has had as much as it would on an idle host.
CROWDED = 2.0
WAITING = 0.25


def boot_seconds(accelerator: Accelerator, shape: GuestShape) -> float:
    """Until a guest is ready, silent or not."""
    return BOOT[accelerator.name].of(shape)


def silence_seconds(accelerator: Accelerator, shape: GuestShape) -> float:
    """Without a word on the console of a guest that boots."""
    return SILENCE[accelerator.name].of(shape) * host.crowding()


def until_ready(guest: Guest, scope: Scope) -> GuestEnd | None:
    """Wait for a guest that boots: None, or how it ended instead. Raises Cancelled."""
    about = guest.spec.accelerator, guest.spec.shape
    slower, given = guest.spec.slower, limits(guest.spec, host.crowding())
    limit = scope.child(boot_seconds(*about) * slower)
    end = guest.wait_ready(limit, silence=silence_seconds(*about) * slower)
    if end is None or end.stop is not Stop.HANG:
        return end
    if why := _starved(guest):
        return replace(end, stop=Stop.INFRA, reason=f"{why}; {end.reason}")
    return replace(end, reason=f"{end.reason}; {given}")


def limits(spec: GuestSpec, crowding: float = 1.0) -> str:
    """How long this guest is waited for, and what that is made of."""
    name, shape = spec.accelerator.name, spec.shape
    boot, silence = BOOT[name], SILENCE[name]
    slower = f" × {spec.slower:g} for its configuration" if spec.slower != 1 else ""
    crowded = f" × {crowding:.1f} for a busy host" if crowding > 1 else ""
    ready, quiet = (each.of(shape) * spec.slower for each in (boot, silence))
    return (
        f"with {name} and {shape.vcpus} vCPUs a guest has {ready:.0f} s to get ready "
        f"[{boot.sum(shape)}{slower}], and is given up when it is silent for "
        f"{quiet * crowding:.0f} s [{silence.sum(shape)}{slower}{crowded}]"
    )


def notes(spec: GuestSpec) -> tuple[str, ...]:
    """What a report says of the limits: where they are not those of every other guest."""
    return (limits(spec),) if spec.slower != 1 else ()


def _starved(guest: Guest) -> str:
    """Whether the host kept a guest from getting ready, in words; "" where that is not so."""
    crowding, passed = host.crowding(), time.time() - guest.started
    with suppress(InfraError):
        had, waited = guest.machine.cpu_seconds(), guest.machine.waited_seconds()
        spec = guest.spec
        enough = SILENCE[spec.accelerator.name].of(spec.shape) * spec.slower
        if crowding >= CROWDED and had < enough and waited > max(had, WAITING * passed):
            return (
                "the host is too busy to tell whether the guest hangs; "
                f"it has at least {crowding:.0f} times its load, gave the guest {had:.0f} s "
                f"of CPU time in {passed:.0f} s, and let it wait for {waited:.0f} s"
            )
    return ""
