"""Each class of failure is told from the others, on real kernels."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from tests.e2e.conftest import FAULTS, HERE, TREE, Ktrial, Ran

pytestmark = pytest.mark.e2e

QUICK = ("--workload", "hackbench:loops=20,groups=1", "--guest", "smp1")


def fault(ktrial: Ktrial, name: str, *more: str) -> Ran:
    return ktrial("run", str(FAULTS / f"{name}.patch"), "--tree", TREE, *(more or QUICK))


def test_does_not_apply(ktrial: Ktrial) -> None:
    ran = ktrial("run", str(FAULTS / "does-not-apply"), "--tree", TREE, *QUICK)
    assert ran.exit_code == 1, ran.explain()
    state = ran.cases("patched/apply")
    assert state.startswith("failure: ")
    assert "2/3" in state
    assert "mm/slub.c" in state
    assert ran.cases("patched/build").startswith("skipped: ")
    assert "does not apply" in ran.out


def test_does_not_build(ktrial: Ktrial) -> None:
    ran = fault(ktrial, "does-not-build")
    assert ran.exit_code == 1, ran.explain()
    state = ran.cases("patched/build")
    assert state.startswith("failure: ")
    assert "this_name_is_not_declared" in state
    assert "mm/slub.c:" in state
    assert ran.cases("base/build") == "passed"
    # Nothing on trial is left to boot, so base is not booted for nothing.
    assert ran.cases("patched/boot").startswith("skipped: ")
    assert ran.cases("base/boot").startswith("skipped: ")


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_panics_at_boot(ktrial: Ktrial, architecture: str) -> None:
    ran = fault(ktrial, "panics-at-boot", *QUICK, "--arch", architecture)
    assert ran.exit_code == 1, ran.explain()
    state = ran.cases("patched/boot")
    assert state.startswith("failure: ")
    assert "a fault for tests: panic at boot" in state
    assert ran.cases("base/boot") == "passed"
    assert ran.cases("patched/hackbench").startswith("skipped: ")


def test_hangs_at_boot(ktrial: Ktrial) -> None:
    ran = fault(ktrial, "hangs-at-boot")
    assert ran.exit_code == 1, ran.explain()
    state = ran.cases("patched/boot")
    assert state.startswith("failure: ")
    assert "did not get ready" in state
    assert ran.cases("base/boot") == "passed"


def test_oopses_in_the_workload(ktrial: Ktrial) -> None:
    ran = fault(ktrial, "oops-in-workload")
    assert ran.exit_code == 1, ran.explain()
    failures = [state for state in ran.junit.values() if state.startswith("failure: ")]
    assert failures
    assert any("unix_socketpair" in state for state in failures), ran.junit
    assert ran.cases("base/hackbench") == "passed"


def test_the_workload_fails(ktrial: Ktrial) -> None:
    """Nothing crashes; a workload of the user's own sees a wrong answer."""
    own = ("--share", str(HERE / "share"), "--workload", "sysname", "--guest", "smp1")
    ran = fault(ktrial, "wrong-answer", *own)
    assert ran.exit_code == 1, ran.explain()
    assert ran.cases("patched/boot") == "passed"
    assert ran.cases("patched/sysname").startswith("failure: ")
    assert ran.cases("base/sysname") == "passed"


def test_qemu_is_killed_and_once_more(ktrial: Ktrial) -> None:
    """The harness's fault, never the patch's, though the boot was tried again."""
    killer = threading.Thread(target=_kill_guests, args=(ktrial, 2), daemon=True)
    killer.start()
    long = ("--workload", "hackbench:loops=100000,groups=2", "--guest", "smp1")
    ran = ktrial("run", "--rev", "HEAD", "--tree", TREE, *long)
    killer.join(5)
    assert ran.exit_code == 3, ran.explain()
    states = ran.junit
    assert not [state for state in states.values() if state.startswith("failure")]
    assert [state for state in states.values() if state.startswith("error: ")]
    assert "booted once more" in ran.out


def _kill_guests(ktrial: Ktrial, count: int) -> None:
    """Kill so many guests, each when it is four seconds old.

    libvirt's probing and the timed boots start a QEMU each too: those end by themselves.
    """
    limit = time.monotonic() + 900
    seen: dict[int, float] = {}
    killed: set[int] = set()
    while time.monotonic() < limit and len(killed) < count:
        seen = {pid: seen.get(pid, time.monotonic()) for pid in ktrial.qemus()}
        for pid, first in seen.items():
            if pid not in killed and time.monotonic() - first > 4 and ktrial.is_guest(pid):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        time.sleep(0.1)
