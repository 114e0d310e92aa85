"""CPUs and memory that come and go while a workload runs: the real thing, under whatever there is.

The scenarios lie in share/patches; `wrong-answer.patch` in them only changes the system's name.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline import host
from tests.e2e.conftest import HERE, TREE, Ktrial, Ran

pytestmark = pytest.mark.e2e

SHARE = ("--share", str(HERE / "share"))


def cases(ran: Ran, ending: str, kernel: str = "renamed") -> list[str]:
    """The states of a kernel's cases whose names end so."""
    found = [
        state
        for name, state in ran.junit.items()
        if f".{kernel}/" in name and name.endswith(f"/{ending}")
    ]
    assert found, list(ran.junit)
    return found


def boots(ran: Ran, kernel: str = "renamed") -> list[dict[str, Any]]:
    """All attempts at a kernel's boots."""
    found = ran.result["run"]["evidence"]["boots"]
    return [each for each in found if each["boot"]["kernel"] == kernel]


def events(ran: Ran, kernel: str = "renamed") -> dict[str, str]:
    """Label of an event -> what became of it, in the last attempt at a boot."""
    return {each["label"]: each["state"] for boot in boots(ran, kernel) for each in boot["events"]}


def test_cpus_and_memory_come_and_go(ktrial: Ktrial) -> None:
    """… on 5.10: vCPUs and DIMMs by QEMU, CPUs through sysfs, a storm, and the workload passes."""
    ran = ktrial("run", "hotplug", *SHARE)
    assert ran.exit_code == 0, ran.explain()
    labels = {"add-2", "remove-1", "dimm", "off", "on", "no-dimm", "storm"}
    assert events(ran) == dict.fromkeys(labels, "good"), ran.explain()
    assert set(ran.junit.values()) == {"passed"}, ran.junit


@pytest.mark.parametrize("override", [True, False])
def test_a_newer_kernel_sees_vcpus_by_other_tables(ktrial: Ktrial, override: bool) -> None:
    ran = ktrial("run", "hotplug-newer", *SHARE, *(() if override else ("--no-table-override",)))
    (state,) = cases(ran, "event add")
    if override or boots(ran)[0]["accelerator"]["name"] == "kvm":
        assert ran.exit_code == 0, ran.explain()
        assert state == "passed"
    else:
        assert state.startswith("skipped: "), state
        assert "table_override" in state


def test_a_panic_ends_the_event(ktrial: Ktrial) -> None:
    ran = ktrial("run", "hotplug-panics", *SHARE)
    assert ran.exit_code == 1, ran.explain()
    (state,) = cases(ran, "event add", "patched")
    assert state.startswith("failure: ")
    assert "a fault for tests: a CPU comes online" in state
    assert cases(ran, "event add", "base") == ["passed"]


def test_a_hang_ends_the_event_in_seconds(ktrial: Ktrial) -> None:
    crowded = host.crowding()
    ran = ktrial("run", "hotplug-hangs", *SHARE)
    assert ran.exit_code == 1, ran.explain()
    (state,) = cases(ran, "event add", "patched")
    assert state.startswith("failure: ")
    assert "no answer" in state or "does not answer" in state
    assert cases(ran, "event add", "base") == ["passed"]
    (boot,) = boots(ran, "patched")
    (event,) = boot["events"]
    assert event["seconds"] < 25 * max(crowded, host.crowding()) + 10


@pytest.fixture
def killed(ktrial: Ktrial) -> Iterator[list[int]]:
    """Ends the first guest three seconds after it is ready: its event is under way then."""
    ended: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            consoles = ktrial.results.glob("*/cells/*/*/console.log")
            guests = [pid for pid in ktrial.qemus() if ktrial.is_guest(pid)]
            if guests and any(b"ktrial: ready" in path.read_bytes() for path in consoles):
                time.sleep(3)
                os.kill(guests[0], signal.SIGKILL)
                ended.append(guests[0])
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield ended
    stop.set()
    thread.join(10)


def test_qemu_killed_in_an_event_is_booted_afresh(ktrial: Ktrial, killed: list[int]) -> None:
    storm = ("--workload", "busy:seconds=12", "--guest", "smp2of8")
    ran = ktrial("run", "hotplug", *SHARE, *storm, "--event", "cpu-storm:when=at start,seconds=60")
    assert killed
    assert ran.exit_code == 0, ran.explain()
    attempts = [*boots(ran, "base"), *boots(ran)]
    (first,) = [each for each in attempts if each["stop"] == "infrastructure fault"]
    assert [each["state"] for each in first["events"]] == ["harness"]
    again = {**first["boot"], "boot": first["boot"]["boot"] + 1}
    assert [each["stop"] for each in attempts if each["boot"] == again] == ["completed"]
    assert "booted once more, afresh, since in the first attempt QEMU was ended" in ran.out
    assert set(ran.junit.values()) == {"passed"}, ran.junit


def test_ctrl_c_in_a_storm_leaves_nothing(ktrial: Ktrial) -> None:
    def storming(_: int) -> bool:
        consoles = ktrial.results.glob("*/cells/*/*/console.log")
        return any(b"CPU 1 is now offline" in path.read_bytes() for path in consoles)

    storm = ("--event", "cpu-storm:when=before workload,seconds=60")
    alone = ("--rev", "HEAD", "--tree", TREE, "--workload", "none", "--guest", "smp2")
    ran = ktrial.interrupted("run", *alone, *storm, when=storming)
    assert ran.exit_code == 130, ran.explain()
    assert not ktrial.qemus()
