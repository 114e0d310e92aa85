"""What events do and what becomes of them, on a simulated machine; and how they are timed."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import actor as actor_module
from pipeline import conductor as conductor_module
from pipeline.actions import perform
from pipeline.actor import Actor
from pipeline.conductor import Conductor
from pipeline.model import Action, Event, EventResult, EventState
from pipeline.scope import Scope
from pipeline.session import Reply
from tests.conftest import QuietStep
from tests.simulated import Simulated, simulated


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor_module, "SECONDS", {"tcg": (0.3, 0.0)})
    monkeypatch.setattr(actor_module, "DOUBT_SECONDS", {"tcg": 0.1})
    monkeypatch.setattr(actor_module, "AFRESH_SECONDS", {"tcg": 0.1})
    monkeypatch.setattr(actor_module, "DEATH_SECONDS", 0.3)


def event(action: Action, when: str = "before workload", **more: object) -> Event:
    made = Event(label=f"{action.value} {when}", action=action, when=when, memory=256)
    return replace(made, **more)  # type: ignore[arg-type]


def do(made: Simulated, action: Action, scope: Scope, **more: object) -> EventResult:
    return perform(made.actor, event(action, **more), scope=scope, over=threading.Event())  # type: ignore[arg-type]


def good(result: EventResult) -> EventResult:
    assert (result.state, result.reason, result.title) == (EventState.GOOD, "", "")
    return result


def test_vcpus_come_and_go(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    added = good(do(made, Action.VCPU_ADD, scope, count=2))
    assert added.host == "QEMU added vCPUs 2-3"
    assert "present 0-3, online 0-3" in added.guest
    removed = good(do(made, Action.VCPU_REMOVE, scope))
    assert "present 0-2, online 0-2" in removed.guest
    assert made.machine.calls == ["set_vcpus 4", "device_del vcpu3"]


def test_vcpus_come_back_where_libvirt_lost_count(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    for action in (Action.VCPU_ADD, Action.VCPU_REMOVE, Action.VCPU_ADD):
        good(do(made, action, scope))
    assert made.machine.calls == ["set_vcpus 3", "device_del vcpu2", "device_add vcpu2"]


def test_a_qemu_that_dies_of_it_is_not_asked_to_add_after_a_removal(
    tmp_path: Path, scope: Scope
) -> None:
    made = simulated(tmp_path)
    made.machine.version = (7, 2)
    good(do(made, Action.VCPU_ADD, scope))
    good(do(made, Action.VCPU_REMOVE, scope))
    again = do(made, Action.VCPU_ADD, scope)
    assert again.state is EventState.UNSUPPORTED
    assert "QEMU 7.2 under TCG" in again.reason
    assert made.machine.calls == ["set_vcpus 3", "device_del vcpu2"]


def test_a_boot_without_time_says_nothing_of_the_guest(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    made.machine.blind = True
    result = do(made, Action.VCPU_ADD, scope.child(0.05))
    assert result.state is EventState.HARNESS
    assert "the boot as a whole" in result.reason


def test_what_does_not_fit_is_not_run(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    for action in (Action.VCPU_REMOVE, Action.CPU_ONLINE, Action.MEMORY_REMOVE):
        assert do(made, action, scope).state is EventState.NOT_RUN
    assert do(made, Action.VCPU_ADD, scope, count=3).reason == "there is room for 2 more vCPUs"
    assert do(made, Action.CPU_OFFLINE, scope, count=2).state is EventState.NOT_RUN
    assert made.machine.calls == []


def test_a_kernel_that_passes_over_vcpus(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    made.machine.blind, made.kernel.release = True, "6.12.117"
    result = do(made, Action.VCPU_ADD, scope)
    assert result.state is EventState.UNSUPPORTED
    assert "table_override" in result.reason
    assert made.machine.calls == []


@pytest.mark.parametrize(("release", "overridden"), [("5.10.262", False), ("6.12.117", True)])
def test_a_kernel_that_does_not_see_them_without_a_cause(
    release: str, overridden: bool, tmp_path: Path, scope: Scope
) -> None:
    made = simulated(tmp_path, overridden=overridden)
    made.machine.blind, made.kernel.release = True, release
    result = do(made, Action.VCPU_ADD, scope)
    assert result.state is EventState.FAILED
    assert result.title == "vcpu-add: the guest has 2 present CPUs, not 3"


def test_memory_comes_and_goes(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    added = good(do(made, Action.MEMORY_ADD, scope, count=2))
    assert added.guest.endswith("MemTotal 1004 MiB")
    assert good(do(made, Action.MEMORY_OFFLINE, scope)).guest.endswith("MemTotal 876 MiB")
    assert good(do(made, Action.MEMORY_ONLINE, scope)).guest.endswith("MemTotal 1004 MiB")
    removed = good(do(made, Action.MEMORY_REMOVE, scope, count=2))
    assert removed.host == "QEMU removed dimm0, dimm1"
    assert removed.guest.endswith("MemTotal 492 MiB")


def test_memory_in_odd_sizes(tmp_path: Path, scope: Scope) -> None:
    result = do(simulated(tmp_path), Action.MEMORY_ADD, scope, memory=100)
    assert result.state is EventState.UNSUPPORTED
    assert "blocks of 128 MiB" in result.reason


def test_what_a_kernel_cannot_do_by_its_make_is_unsupported(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    all_of_it = do(made, Action.MEMORY_OFFLINE, scope, count=4)
    assert all_of_it.state is EventState.UNSUPPORTED
    assert all_of_it.reason == "4 block(s) of 128 MiB are online, and one has to stay"
    made.kernel.kernel_max, made.kernel.online = 0, {0}
    for action in (Action.CPU_OFFLINE, Action.CPU_STORM):
        result = do(made, action, scope)
        assert result.state is EventState.UNSUPPORTED
        assert result.reason == "the kernel is built for 1 CPU"


def test_arm_has_no_vcpu_hotplug_and_no_dimms_without_firmware(
    tmp_path: Path, scope: Scope
) -> None:
    made = simulated(tmp_path, architecture="aarch64")
    made.machine.plugged, made.kernel.online = {0, 1, 2, 3}, {0, 1}
    added = good(do(made, Action.VCPU_ADD, scope))
    assert "maxcpus=" in added.host
    assert "present 0-3, online 0-2" in added.guest
    assert good(do(made, Action.VCPU_REMOVE, scope)).guest.startswith("present 0-3, online 0-1")
    memory = do(made, Action.MEMORY_ADD, scope)
    assert memory.state is EventState.UNSUPPORTED
    assert "ACPI" in memory.reason


def test_cpus_on_and_off_and_a_kernel_that_refuses(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    assert "online 0," in good(do(made, Action.CPU_OFFLINE, scope)).guest
    assert "online 0-1," in good(do(made, Action.CPU_ONLINE, scope)).guest
    made.kernel.refuses = frozenset({1})
    refused = do(made, Action.CPU_OFFLINE, scope)
    assert refused.state is EventState.FAILED
    assert refused.title == "cpu-offline: offlining CPUs refused"


def test_a_storm_ends_with_the_workload(tmp_path: Path, scope: Scope) -> None:
    made, over = simulated(tmp_path), threading.Event()
    over.set()
    storm = event(Action.CPU_STORM, seconds=60.0, seed=3)
    result = good(perform(made.actor, storm, scope=scope, over=over))
    assert result.host.startswith("0 steps of seed 3 over CPUs 1")
    assert "cut short" in result.host


def test_no_answer_of_a_guest_that_lives(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    made.kernel.mute = "echo 1"
    result = do(made, Action.VCPU_ADD, scope)
    assert (result.state, result.title) == (EventState.FAILED, "vcpu-add: no answer")
    assert "the guest answers others" in result.reason
    assert made.actor.stuck
    assert not made.kernel.guest.died.is_set()


def test_no_answer_of_a_guest_that_is_dead(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path, answers=False)
    made.kernel.mute = "echo 1"
    result = do(made, Action.VCPU_ADD, scope)
    assert (result.state, result.title) == (EventState.FAILED, "vcpu-add: no answer")
    assert made.kernel.guest.end().stop.value == "no answer"


def test_a_command_that_came_back_late_gives_no_guest_up(tmp_path: Path, scope: Scope) -> None:
    """The question whether the guest answers is still open then; it may be powering off."""
    made = simulated(tmp_path)

    class Late:
        def run(self, command: str, *, scope: Scope) -> Reply:
            time.sleep(0.15)
            return made.kernel.run(command, scope=scope)

    over = threading.Event()

    def answers(_: Scope) -> bool:
        over.wait(60)  # open until the command is back, however busy the host
        return False

    actor = Actor(made.kernel.guest, Late(), made.actor.setting, answers)
    actor.run(":", scope, 5.0)
    over.set()
    time.sleep(0.3)
    assert not made.kernel.guest.died.is_set()


def test_a_panic_in_an_event(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    made.kernel.mute = "echo 1"
    panic = "[    1.0] Kernel panic - not syncing: tested\n[    1.1] Call Trace:\n[    1.2] end\n"
    with made.kernel.guest.console.open("a") as console:
        console.write(panic)
    result = do(made, Action.VCPU_ADD, scope)
    assert result.state is EventState.FAILED
    assert result.title.startswith("vcpu-add: kernel panic: ")
    assert "tested" in result.title


def test_qemu_dies_in_an_event(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    made.kernel.kills = "echo 1"
    result = do(made, Action.VCPU_ADD, scope)
    assert result.state is EventState.HARNESS
    assert "SIGKILL" in result.reason
    assert "last words" in result.reason


# --------------------------------------------------------------------------- the timeline


def play(made: Simulated, scope: Scope, *planned: Event, seconds: float) -> list[EventResult]:
    conductor = Conductor(made.actor, planned, expected=seconds)
    conductor.before(scope=scope, step=QuietStep())
    with conductor.during(scope=scope):
        made.kernel.guest.died.wait(seconds)
    return list(conductor.results)


def test_events_come_in_their_time(tmp_path: Path, scope: Scope) -> None:
    before, during, late = play(
        simulated(tmp_path),
        scope,
        event(Action.VCPU_ADD),
        event(Action.CPU_OFFLINE, "at 50 %"),
        event(Action.CPU_ONLINE, "after 30 s"),
        seconds=0.6,
    )
    assert before.state is during.state is EventState.GOOD
    assert before.at is not None
    assert before.at <= 0
    assert during.at == pytest.approx(0.3, abs=0.25)
    assert (late.state, late.at) == (EventState.NOT_RUN, None)
    assert "before it was due" in late.reason


def test_an_event_that_comes_again_ends_where_nothing_is_left(tmp_path: Path, scope: Scope) -> None:
    (result,) = play(simulated(tmp_path), scope, event(Action.VCPU_ADD, "every 0.1 s"), seconds=1.0)
    good(result)
    assert result.host.startswith("2 times, the last time: QEMU added vCPUs 3; then: ")


def test_an_event_that_another_kept_waiting_says_so(tmp_path: Path, scope: Scope) -> None:
    storm = event(Action.CPU_STORM, "at start", seconds=60.0)
    off = event(Action.CPU_OFFLINE, "after 0.1 s")
    _, waited = play(simulated(tmp_path), scope, storm, off, seconds=0.5)
    assert waited.state is EventState.NOT_RUN
    assert waited.reason.startswith("it was due after 0.1 s, when other events were under way")
    assert "after 0.5 s" in waited.reason


def test_what_needs_an_event_that_is_unsupported_is_so_too(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    made.machine.blind, made.kernel.release = True, "6.12.117"
    planned = (event(Action.VCPU_ADD), event(Action.VCPU_REMOVE), event(Action.CPU_ONLINE))
    added, removed, online = play(made, scope, *planned, seconds=0.1)
    assert added.state is removed.state is EventState.UNSUPPORTED
    assert removed.reason == f"needs event {planned[0].label}: {added.reason}"
    assert online.state is EventState.NOT_RUN
    assert online.reason == "0 CPUs can go online, not 1"


def test_an_event_that_cannot_come_again_keeps_what_it_did(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    made.machine.version = (7, 2)
    again = (event(Action.VCPU_ADD, "every 0.2 s"), event(Action.VCPU_REMOVE, "every 0.25 s"))
    added, removed = play(made, scope, *again, seconds=1.5)
    assert added.state is removed.state is EventState.GOOD
    assert "then: QEMU 7.2 under TCG" in added.host


def test_behind_a_command_that_never_came_back_nothing_is_run(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    made.kernel.mute = "echo 1"
    stuck, after = play(
        made, scope, event(Action.VCPU_ADD), event(Action.CPU_OFFLINE, "at start"), seconds=0.3
    )
    assert stuck.state is EventState.FAILED
    assert (after.state, after.reason) == (EventState.NOT_RUN, conductor_module.STUCK)


def test_a_dead_guest_has_no_more_events(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    made.kernel.kills = "echo 1"
    started = time.monotonic()
    dead, after = play(
        made,
        scope,
        event(Action.VCPU_ADD, "at start"),
        event(Action.CPU_OFFLINE, "after 0.1 s"),
        seconds=60,
    )
    assert time.monotonic() - started < 30
    assert dead.state is EventState.HARNESS
    assert (after.state, after.reason) == (EventState.NOT_RUN, conductor_module.GONE)


def test_nobody_knows_how_long_it_takes(tmp_path: Path, scope: Scope) -> None:
    made = simulated(tmp_path)
    conductor = Conductor(made.actor, [event(Action.CPU_OFFLINE, "at 10 %")], expected=None)
    with conductor.during(scope=scope):
        time.sleep(0.5)
    (result,) = conductor.results
    assert "nobody knew how long the workload takes" in good(result).host


def test_a_defect_in_an_event_is_not_swallowed(
    tmp_path: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = simulated(tmp_path)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(made.machine, "qmp", broken)
    conductor = Conductor(made.actor, [event(Action.VCPU_ADD, "at start")], expected=1.0)
    with pytest.raises(ZeroDivisionError), conductor.during(scope=scope):
        time.sleep(0.2)


def test_a_vcpu_that_the_guest_numbers_otherwise_is_not_taken_out(
    tmp_path: Path, scope: Scope
) -> None:
    made = simulated(tmp_path)
    made.machine.blind = True  # the guest has CPUs 0-1, QEMU 0-2
    made.machine.plugged.add(2)
    result = do(made, Action.VCPU_REMOVE, scope)
    assert result.state is EventState.UNSUPPORTED
    assert made.machine.calls == []
