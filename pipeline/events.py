"""When events come, whether a scenario's events make sense, and what they ask for. Pure.

A moment is "before workload", "at start", "after 5 s", "at 50 %" (of the time that the workload
is expected to take) or "every 2 s" (until it ends); all are counted from the workload's start.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pipeline.errors import UserError
from pipeline.model import Action, Architecture, Event, GuestShape

FALLBACK_SECONDS = 1.0  # where nobody knows how long a workload takes
SMALLEST_PERIOD = 0.1
EVENT_SECONDS = 60.0
EACH_SECONDS = 5.0  # for each vCPU or DIMM: they go one after the other
MOMENTS = "“before workload”, “at start”, “after 5 s”, “at 50 %” or “every 2 s”"
ROOMY = {
    Action.VCPU_ADD: "take smp2of8, or a shape of your own with vcpus below max_vcpus",
    Action.MEMORY_ADD: "take memory-hotplug, or a shape of your own with max_memory and "
    "memory_slots",
}
BACK_ONLINE = {
    Action.CPU_ONLINE: Action.CPU_OFFLINE,
    Action.MEMORY_ONLINE: Action.MEMORY_OFFLINE,
}
NEEDS_ANOTHER_CPU = {Action.CPU_OFFLINE, Action.CPU_ONLINE, Action.CPU_STORM}


class Timing(Enum):
    """What a moment is told by."""

    BEFORE = "before workload"
    START = "at start"
    AFTER = "after"
    PERCENT = "at"
    EVERY = "every"


@dataclass(frozen=True, kw_only=True)
class Moment:
    """`value`: seconds of AFTER and EVERY, percent of PERCENT, else 0."""

    timing: Timing
    value: float = 0.0


def moment(when: str) -> Moment:
    """Read an event's `when`.

    Raises:
        UserError: it is none of the forms, or its number makes no sense.
    """
    words = " ".join(when.lower().split())
    for timing in (Timing.BEFORE, Timing.START):
        if words == timing.value:
            return Moment(timing=timing)
    found = re.fullmatch(r"(after|every) (\d+(?:\.\d+)?) ?s|at (\d+(?:\.\d+)?) ?%", words)
    if not found:
        raise UserError(f"when = “{when}” is no moment of a workload", hint=f"write {MOMENTS}")
    made = Moment(timing=Timing(found[1] or "at"), value=float(found[2] or found[3]))
    if made.timing is Timing.EVERY and made.value < SMALLEST_PERIOD:
        raise UserError(f"when = “{when}” comes too often", hint="every 0.1 s at most")
    if made.timing is Timing.PERCENT and made.value > 100:
        raise UserError(f"when = “{when}”: a workload has 100 %", hint=f"write {MOMENTS}")
    return made


def due(what: Moment, expected: float | None) -> float:
    """Seconds after the workload's start at which a moment comes, an EVERY for the first time.

    `expected`: the workload's time in seconds, None where it is not known.
    """
    if what.timing is Timing.PERCENT:
        whole = 2 * FALLBACK_SECONDS if expected is None else expected
        return whole * what.value / 100
    return what.value


def allowance(event: Event) -> float:
    """Seconds of its boot's time that an event may take; its own limits are smaller."""
    storm_seconds = event.seconds if event.action is Action.CPU_STORM else 0.0
    return EVENT_SECONDS + EACH_SECONDS * event.count + storm_seconds


def is_before(event: Event) -> bool:
    return moment(event.when).timing is Timing.BEFORE


def split(events: Sequence[Event]) -> tuple[tuple[Event, ...], tuple[Event, ...]]:
    """Those before the workload in their order, and those during it."""
    before = tuple(event for event in events if is_before(event))
    return before, tuple(event for event in events if not is_before(event))


# --------------------------------------------------------------------------- sense


def check(
    events: Sequence[Event], shape: GuestShape, architecture: Architecture, *, has_workload: bool
) -> None:
    """Whether a guest of this shape can be asked for all of these events, as they come.

    Raises:
        UserError: the first that cannot come, with what to do.
    """
    for number, event in enumerate(events):
        if event.label in {each.label for each in events[:number]}:
            raise _error(event, "there are two of that label", "give each a label of its own")
        _check_alone(event, shape, has_workload=has_workload)
    room = _Room(shape, architecture)
    for event in in_order(events):
        room.take(event)


def in_order(events: Sequence[Event]) -> tuple[Event, ...]:
    """As they come for the first time, as far as that is known beforehand: where some are told
    by seconds and some by percent of a workload, those beside it are taken as they are listed."""
    before, beside = split(events)
    moments = {event.label: moment(event.when) for event in beside}
    timings = {each.timing for each in moments.values()}
    if Timing.PERCENT in timings and timings & {Timing.AFTER, Timing.EVERY}:
        return (*before, *beside)
    return (*before, *sorted(beside, key=lambda event: moments[event.label].value))


def _check_alone(event: Event, shape: GuestShape, *, has_workload: bool) -> None:
    timing = moment(event.when).timing
    if event.count < 1:
        raise _error(event, f"count = {event.count}", "one or more")
    if timing is not Timing.BEFORE and not has_workload:
        raise _error(
            event, f"“{event.when}” needs a workload", "name one, or write “before workload”"
        )
    if event.action is Action.CPU_STORM and timing is Timing.EVERY:
        raise _error(event, "a storm comes once", "say with `seconds` how long it is to last")
    if event.action is Action.CPU_STORM and event.seconds <= 0:
        raise _error(event, f"seconds = {event.seconds:g}", "how long the storm is to last")
    if event.action is Action.MEMORY_ADD and event.memory < 1:
        raise _error(event, "it does not say how much", "memory = 256 (MiB of each DIMM)")
    if event.action in NEEDS_ANOTHER_CPU and shape.max_vcpus < 2:
        raise _error(event, f"the guest {shape.name} has one CPU", "take smp2 or a larger shape")
    nodes = max(1, len(shape.numa))
    if event.action is Action.MEMORY_ADD and not 0 <= event.node < nodes:
        raise _error(
            event, f"node = {event.node}", f"{shape.name} has {nodes} NUMA cell(s), from 0"
        )


class _Room:
    """What is left in a shape for events that add, and for those that undo others."""

    def __init__(self, shape: GuestShape, architecture: Architecture) -> None:
        self._shape = shape
        self._removable = architecture.vcpu_hotplug
        self._vcpus = shape.vcpus
        self._offline = {Action.CPU_OFFLINE: 0, Action.MEMORY_OFFLINE: 0}
        self._dimms: list[int] = []

    def take(self, event: Event) -> None:
        """Do as the event does; one that comes again and again counts once."""
        if event.action is Action.VCPU_ADD:
            self._add_vcpus(event)
        elif event.action is Action.VCPU_REMOVE:
            self._remove_vcpus(event)
        elif event.action is Action.MEMORY_ADD:
            self._add_memory(event)
        elif event.action is Action.MEMORY_REMOVE:
            if len(self._dimms) < event.count:
                raise _error(
                    event,
                    f"{event.count} DIMM(s) to remove, {len(self._dimms)} added before it",
                    "put a memory-add in front",
                )
            del self._dimms[-event.count :]
        elif event.action in self._offline:
            self._take_offline(event)
        elif event.action in BACK_ONLINE:
            self._bring_online(event)

    def _take_offline(self, event: Event) -> None:
        online = self._vcpus - self._offline[Action.CPU_OFFLINE]
        if event.action is Action.CPU_OFFLINE and online - event.count < 1:
            raise _error(
                event, f"{online} CPU(s) are online by then, and one has to stay", "take fewer"
            )
        self._offline[event.action] += event.count

    def _bring_online(self, event: Event) -> None:
        off = BACK_ONLINE[event.action]
        there = self._offline[off]
        if off is Action.CPU_OFFLINE and not self._removable:  # `maxcpus=` holds others back
            there += self._shape.max_vcpus - self._vcpus
        if there < event.count:
            raise _error(event, f"{there} are offline by then", f"put a {off.value} in front")
        back = min(event.count, self._offline[off])
        self._offline[off] -= back
        self._vcpus += event.count - back if off is Action.CPU_OFFLINE else 0

    def _roomier(self, event: Event) -> str:
        return "take fewer" if self._shape.name in ROOMY[event.action] else ROOMY[event.action]

    def _add_vcpus(self, event: Event) -> None:
        self._vcpus += event.count
        if self._vcpus > self._shape.max_vcpus:
            raise _error(
                event,
                f"{self._vcpus} vCPUs, {self._shape.name} has room for {self._shape.max_vcpus}",
                self._roomier(event),
            )

    def _remove_vcpus(self, event: Event) -> None:
        self._vcpus -= event.count
        # QEMU starts the first ones without a device of their own that could be taken out.
        least = self._shape.vcpus if self._removable else 1
        if self._vcpus < least:
            raise _error(
                event,
                "only vCPUs that were added can be removed again",
                "put a vcpu-add in front",
            )

    def _add_memory(self, event: Event) -> None:
        self._dimms += [event.memory] * event.count
        shape = self._shape
        if len(self._dimms) > shape.memory_slots:
            raise _error(
                event,
                f"{len(self._dimms)} DIMM(s), {shape.name} has {shape.memory_slots} slot(s)",
                self._roomier(event),
            )
        if shape.memory + sum(self._dimms) > shape.max_memory:
            raise _error(
                event,
                f"{shape.memory + sum(self._dimms)} MiB, {shape.name} has room for "
                f"{shape.max_memory}",
                self._roomier(event),
            )


def _error(event: Event, what: str, hint: str) -> UserError:
    return UserError(f"event {event.label} ({event.action.value}): {what}", hint=hint)


# --------------------------------------------------------------------------- storms


def storm(seed: int, cpus: Sequence[int], count: int) -> tuple[tuple[int, bool], ...]:
    """The first `count` steps of a storm over these CPUs, all online at first: which CPU, and
    whether it goes online. The same seed and CPUs give the same steps."""
    chance = random.Random(seed)
    online = dict.fromkeys(cpus, True)
    steps = []
    for _ in range(count):
        cpu = chance.choice(tuple(cpus))
        online[cpu] = not online[cpu]
        steps.append((cpu, online[cpu]))
    return tuple(steps)
