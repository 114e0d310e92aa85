"""What each event does: the host's call, what is brought on or off in the guest, the agreement.

Added vCPUs and memory are brought online through sysfs where the guest does not by itself, and
what is to be removed is brought offline there first, one vCPU at a time: QEMU 7.2 was seen to
die of being asked for 48 at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pipeline import agree, events, sysfs
from pipeline.actor import Actor, Look, Unmet, stopwatch
from pipeline.errors import InfraError
from pipeline.model import Action, Event, EventResult, EventState
from pipeline.scope import Scope
from pipeline.shapes import format_list

BREAKS_AFTER_REMOVAL = {(7, 2)}  # versions of QEMU; see `_check_qemu`
STORM_SECONDS = 1.0  # of one command: a storm ends so soon after the workload
STORM_STEPS = 500  # of one second: far more than a kernel can do


@dataclass(frozen=True, kw_only=True)
class Done:
    """What an event that came to its end did, in words. `seconds`: until all agreed."""

    host: str
    guest: str
    seconds: float


Deed = Callable[[Actor, Event, Scope, threading.Event], Done]


def perform(actor: Actor, event: Event, *, scope: Scope, over: threading.Event) -> EventResult:
    """Carry out one event. A storm ends when `over` is set. Raises Cancelled alone."""
    spent = stopwatch()
    try:
        done = DEEDS[event.action](actor, event, scope, over)
    except InfraError as error:
        unmet = actor.fault(error)
    except Unmet as ended:
        unmet = ended
    else:
        return EventResult(
            label=event.label,
            state=EventState.GOOD,
            host=done.host,
            guest=done.guest,
            seconds=done.seconds,
        )
    return EventResult(
        label=event.label,
        state=unmet.state,
        reason=unmet.reason,
        title=f"{event.action.value}: {unmet.title}" if unmet.title else "",
        seconds=spent(),
    )


def _seen(look: Look) -> str:
    view = look.view
    return (
        f"present {format_list(view.present)}, online {format_list(view.online)}, "
        f"MemTotal {view.memory_kb // 1024} MiB"
    )


def _refuse(numbers: tuple[int, ...], what: str) -> None:
    if numbers:
        listed = format_list(numbers)
        raise Unmet(EventState.FAILED, f"{what} {listed}: the kernel refuses", f"{what} refused")


# --------------------------------------------------------------------------- vCPUs


def _vcpu_add(actor: Actor, event: Event, scope: Scope, over: threading.Event) -> Done:
    if not actor.setting.architecture.vcpu_hotplug:
        return _held_back(actor, event, scope, over)
    before = actor.look(scope)
    total = len(before.host.vcpus) + event.count
    if len(before.host.free) < event.count:
        raise Unmet(EventState.NOT_RUN, f"there is room for {len(before.host.free)} more vCPUs")
    _check_room(actor, before, total)
    _check_qemu(actor)
    spent, limit = stopwatch(), scope.child(actor.seconds(event.count))
    plugged = _plug(actor, before, event.count)
    seen = actor.until(lambda look: len(look.view.present) >= total, limit, scope)
    fresh = seen.view.present - before.view.present
    _bring(actor, fresh - seen.view.online, scope, online=True)
    wanted = replace(before.wanted, vcpus=total, online=before.view.online | fresh)
    after = actor.agreed(wanted, limit, scope)
    return Done(
        host=f"QEMU added vCPUs {format_list(plugged)}", guest=_seen(after), seconds=spent()
    )


def _check_room(actor: Actor, before: Look, total: int) -> None:
    setting = actor.setting
    cause = agree.no_room(
        before.view,
        total,
        architecture=setting.architecture,
        accelerator=setting.accelerator,
        overridden=setting.overridden,
    )
    if cause:
        raise Unmet(EventState.UNSUPPORTED, cause)


def _check_qemu(actor: Actor) -> None:
    """Seen with QEMU 7.2.22 in every second guest or so: "malloc(): unsorted double linked list
    corrupted", when a vCPU is added after one was removed. Where it does not show, nothing is
    known of what else lies in the damaged memory."""
    version = actor.qemu_version() if actor.removed else None
    if version in BREAKS_AFTER_REMOVAL and actor.setting.accelerator == "tcg":
        raise Unmet(
            EventState.UNSUPPORTED,
            f"QEMU {version[0]}.{version[1]} under TCG damages its own memory when a vCPU is "
            "removed, and most often dies when one is added after that",
        )


def _plug(actor: Actor, before: Look, count: int) -> list[int]:
    """Through libvirt, but where it has lost count (see `agree`): then as it would itself."""
    machine, chosen = actor.guest.machine, sorted(before.host.free)[:count]
    if machine.vcpus() == len(before.host.vcpus):
        machine.set_vcpus(len(before.host.vcpus) + count)
    else:
        for number in chosen:
            machine.qmp("device_add", id=f"vcpu{number}", **before.host.free[number])
    return chosen


def _held_back(actor: Actor, event: Event, scope: Scope, over: threading.Event) -> Done:
    name = actor.setting.architecture
    done = _cpu_online(actor, event, scope, over)
    words = f"QEMU's {name.name} {name.machine} has no vCPU hotplug: maxcpus= held CPUs back"
    return replace(done, host=f"{words}, sysfs brought them online")


def _vcpu_remove(actor: Actor, event: Event, scope: Scope, over: threading.Event) -> Done:
    if not actor.setting.architecture.vcpu_hotplug:
        done = _cpu_offline(actor, event, scope, over)
        return replace(done, host="this machine has no vCPU hotplug: sysfs took CPUs offline")
    before = actor.look(scope)
    chosen = sorted(before.host.removable, reverse=True)[: event.count]
    if len(chosen) < event.count:
        raise Unmet(
            EventState.NOT_RUN, f"{len(chosen)} vCPUs can be removed: those that were added"
        )
    spent = stopwatch()
    after = before
    for number in chosen:
        after = _unplug(actor, number, after, scope)
    return Done(
        host=f"QEMU removed vCPUs {format_list(chosen)}", guest=_seen(after), seconds=spent()
    )


def _unplug(actor: Actor, number: int, before: Look, scope: Scope) -> Look:
    """device_del, as libvirt does it, but without its wait of 5 s for an event that QEMU 7.2
    does not send, with the monitor held. Where the event comes libvirt takes note of it.
    Guests number CPUs in the order in which they come, which is QEMU's: see `_plug`."""
    gone = frozenset({number})
    if not gone <= before.view.present:
        # Taking out one that is online would hang a 5.10 guest.
        words = f"the guest has no CPU {number}: which of its CPUs is QEMU's vCPU {number}?"
        raise Unmet(EventState.UNSUPPORTED, words)
    _bring(actor, gone & before.view.online, scope, online=False)
    actor.guest.machine.qmp("device_del", id=before.host.removable[number])
    actor.removed = True
    wanted = replace(
        before.wanted, vcpus=len(before.host.vcpus) - 1, online=before.view.online - gone
    )
    return actor.agreed(wanted, scope.child(actor.seconds(1)), scope)


def _bring(actor: Actor, cpus: frozenset[int], scope: Scope, *, online: bool) -> None:
    if cpus:
        command = sysfs.cpus(sorted(cpus, reverse=not online), online=online)
        reply = actor.run(command, scope, actor.seconds(len(cpus)))
        _refuse(sysfs.refused(reply.text), "onlining CPUs" if online else "offlining CPUs")


# --------------------------------------------------------------------------- CPUs in the guest


def _cpu_offline(actor: Actor, event: Event, scope: Scope, _over: threading.Event) -> Done:
    before = actor.look(scope)
    return _switch(actor, event, before, sorted(before.view.online - {0}, reverse=True), scope)


def _cpu_online(actor: Actor, event: Event, scope: Scope, _over: threading.Event) -> Done:
    before = actor.look(scope)
    return _switch(actor, event, before, sorted(before.view.present - before.view.online), scope)


def _too_few_cpus(before: Look, words: str) -> Unmet:
    if before.view.kernel_max == 0:
        return Unmet(EventState.UNSUPPORTED, "the kernel is built for 1 CPU")
    return Unmet(EventState.NOT_RUN, words)


def _switch(actor: Actor, event: Event, before: Look, able: list[int], scope: Scope) -> Done:
    online = event.action in {Action.CPU_ONLINE, Action.VCPU_ADD}
    word = "online" if online else "offline"
    if len(able) < event.count:
        raise _too_few_cpus(before, f"{len(able)} CPUs can go {word}, not {event.count}")
    chosen, spent = frozenset(able[: event.count]), stopwatch()
    _bring(actor, chosen, scope, online=online)
    now = before.view.online | chosen if online else before.view.online - chosen
    limit = scope.child(actor.seconds(event.count))
    after = actor.agreed(replace(before.wanted, online=now), limit, scope)
    return Done(
        host=f"CPUs {format_list(chosen)} {word} through sysfs",
        guest=_seen(after),
        seconds=spent(),
    )


def _cpu_storm(actor: Actor, event: Event, scope: Scope, over: threading.Event) -> Done:
    before = actor.look(scope)
    cpus = sorted(before.view.online - {0})
    if not cpus:
        raise _too_few_cpus(before, "CPU 0 alone is online")
    steps = events.storm(event.seed, cpus, round(STORM_STEPS * event.seconds) + 1)
    spent, done = stopwatch(), 0
    while (left := event.seconds - spent()) > 0 and not over.is_set() and done < len(steps):
        command = sysfs.storm(steps[done : done + STORM_STEPS], min(left, STORM_SECONDS))
        reply = actor.run(command, scope, STORM_SECONDS + actor.seconds())
        _refuse(sysfs.refused(reply.text), "storm of CPUs")
        done += sysfs.steps_done(reply.text)
    stormed = spent()
    _bring(actor, frozenset(cpus), scope, online=True)
    after = actor.agreed(before.wanted, scope.child(actor.seconds(len(cpus))), scope)
    cut = ", cut short by the workload's end" if stormed < event.seconds - STORM_SECONDS else ""
    words = f"{done} steps of seed {event.seed} over CPUs {format_list(cpus)} in {stormed:.1f} s"
    return Done(host=words + cut, guest=_seen(after), seconds=spent())


# --------------------------------------------------------------------------- memory

DIMM = (
    "<memory model='dimm'><target><size unit='MiB'>{size}</size><node>{node}</node></target>"
    "</memory>"
)


def _needs_acpi(actor: Actor) -> None:
    target, shape = actor.setting.architecture, actor.setting.shape
    if not target.acpi and target.name not in shape.firmware:
        raise Unmet(
            EventState.UNSUPPORTED,
            f"DIMMs are announced through ACPI, which an {target.name} guest has only with UEFI "
            f"firmware: the shape {shape.name} boots without",
        )


def _check_blocks(before: Look) -> None:
    if not before.view.block_bytes:
        raise Unmet(EventState.UNSUPPORTED, "the kernel has no memory hotplug")


def _memory_add(actor: Actor, event: Event, scope: Scope, _over: threading.Event) -> Done:
    _needs_acpi(actor)
    before = actor.look(scope)
    view, block = before.view, before.view.block_bytes
    size = event.memory * agree.MIB
    _check_blocks(before)
    if size % block:
        words = f"the kernel takes memory in blocks of {block // agree.MIB} MiB"
        raise Unmet(EventState.UNSUPPORTED, f"{words}: {event.memory} MiB are no whole number")
    added = event.count * size
    spent, limit = stopwatch(), scope.child(actor.seconds(added // block + event.count))
    for _ in range(event.count):
        actor.guest.machine.attach(DIMM.format(size=event.memory, node=event.node))
    total = view.blocks_total + added // block
    seen = actor.until(lambda look: look.view.blocks_total >= total, limit, scope)
    offline = [n for n, state in seen.view.blocks.items() if state == "offline"]
    fresh = sorted(set(offline) - set(view.blocks))
    if fresh:
        command = sysfs.blocks(fresh, actor.setting.zone)
        reply = actor.run(command, scope, actor.seconds(len(fresh)))
        _refuse(sysfs.refused(reply.text), "onlining memory blocks")
    wanted = replace(
        before.wanted,
        memory=before.host.memory + added,
        blocks_online=view.blocks_online + added // block,
        memory_kb=view.memory_kb + added // 1024,
    )
    after = actor.agreed(wanted, limit, scope)
    words = f"QEMU added {event.count} DIMM(s) of {event.memory} MiB"
    return Done(host=f"{words}, brought {actor.setting.zone}", guest=_seen(after), seconds=spent())


def _memory_remove(actor: Actor, event: Event, scope: Scope, _over: threading.Event) -> Done:
    _needs_acpi(actor)
    before = actor.look(scope)
    chosen = sorted(before.host.dimms, key=lambda dimm: dimm.address)[-event.count :]
    if len(chosen) < event.count:
        raise Unmet(EventState.NOT_RUN, f"there are {len(chosen)} DIMMs")
    spent, after = stopwatch(), before
    for dimm in reversed(chosen):
        after = _unplug_dimm(actor, dimm, after, scope)
    return Done(
        host=f"QEMU removed {', '.join(dimm.id for dimm in chosen)}",
        guest=_seen(after),
        seconds=spent(),
    )


def _unplug_dimm(actor: Actor, dimm: agree.Dimm, before: Look, scope: Scope) -> Look:
    view = before.view
    blocks = [n for n in agree.blocks_of([dimm], view.block_bytes) if view.blocks.get(n)]
    online = [n for n in blocks if view.blocks[n] == "online"]
    limit = scope.child(actor.seconds(len(blocks)))
    while online:  # a block that is in use at that moment is given up the next time
        reply = actor.run(sysfs.blocks(online, "offline"), scope, actor.seconds(len(online)))
        online = list(sysfs.refused(reply.text))
        if online and limit.expired:
            _refuse(tuple(online), "offlining memory blocks")
    actor.guest.machine.detach(dimm.id)
    were = sum(view.blocks[n] == "online" for n in blocks)
    wanted = replace(
        before.wanted,
        memory=before.host.memory - dimm.size,
        blocks_online=view.blocks_online - were,
        memory_kb=view.memory_kb - were * view.block_bytes // 1024,
    )
    return actor.agreed(wanted, scope.child(actor.seconds(len(blocks))), scope)


def _memory_offline(actor: Actor, event: Event, scope: Scope, _over: threading.Event) -> Done:
    before = actor.look(scope)
    online = sorted((n for n, s in before.view.blocks.items() if s == "online"), reverse=True)
    _check_blocks(before)
    if len(online) <= event.count:
        block = before.view.block_bytes // agree.MIB
        words = f"{len(online)} block(s) of {block} MiB are online, and one has to stay"
        raise Unmet(EventState.UNSUPPORTED, words)
    reply = actor.run(sysfs.zones(online), scope, actor.seconds())
    movable = [int(word) for word in reply.text.split() if word.isdigit()]
    spent = stopwatch()
    chosen = movable if len(movable) >= event.count else online
    command = sysfs.offline_blocks(chosen, event.count)
    reply = actor.run(command, scope, actor.seconds(len(chosen)))
    refused = sysfs.refused(reply.text)
    if len(chosen) - len(refused) < event.count:
        if chosen is movable:
            _refuse(refused, "offlining memory blocks")
        words = "pages that cannot be moved lie in every block (none is in the movable zone)"
        raise Unmet(EventState.UNSUPPORTED, words)
    return _blocks_done(actor, before, -event.count, scope, spent)


def _memory_online(actor: Actor, event: Event, scope: Scope, _over: threading.Event) -> Done:
    before = actor.look(scope)
    offline = sorted(n for n, state in before.view.blocks.items() if state == "offline")
    if len(offline) < event.count:
        raise Unmet(EventState.NOT_RUN, f"{len(offline)} memory blocks are offline")
    spent, chosen = stopwatch(), offline[: event.count]
    reply = actor.run(sysfs.blocks(chosen, actor.setting.zone), scope, actor.seconds(len(chosen)))
    _refuse(sysfs.refused(reply.text), "onlining memory blocks")
    return _blocks_done(actor, before, event.count, scope, spent)


def _blocks_done(
    actor: Actor, before: Look, change: int, scope: Scope, spent: Callable[[], float]
) -> Done:
    wanted = replace(
        before.wanted,
        blocks_online=before.view.blocks_online + change,
        memory_kb=before.view.memory_kb + change * before.view.block_bytes // 1024,
    )
    after = actor.agreed(wanted, scope.child(actor.seconds(abs(change))), scope)
    word = "online" if change > 0 else "offline"
    return Done(
        host=f"{abs(change)} memory block(s) {word} through sysfs",
        guest=_seen(after),
        seconds=spent(),
    )


DEEDS: Mapping[Action, Deed] = {
    Action.VCPU_ADD: _vcpu_add,
    Action.VCPU_REMOVE: _vcpu_remove,
    Action.MEMORY_ADD: _memory_add,
    Action.MEMORY_REMOVE: _memory_remove,
    Action.CPU_OFFLINE: _cpu_offline,
    Action.CPU_ONLINE: _cpu_online,
    Action.MEMORY_OFFLINE: _memory_offline,
    Action.MEMORY_ONLINE: _memory_online,
    Action.CPU_STORM: _cpu_storm,
}
