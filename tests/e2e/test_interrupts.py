"""Whoever stops a run finds nothing left of it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import FAULTS, TREE, Ktrial

pytestmark = pytest.mark.e2e

LONG = ("--workload", "hackbench:loops=100000,groups=2", "--guest", "smp1")


def processes() -> dict[int, tuple[int, str]]:
    """Parent and name of every process that is not dead."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            head, tail = (path / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        state, parent = tail.split()[:2]
        if state != "Z":
            found[int(path.name)] = (int(parent), head.split("(", 1)[1])
    return found


def below(pid: int) -> dict[int, str]:
    """Names of the processes below one."""
    everyone, found = processes(), {pid: ""}
    while more := {
        each: name
        for each, (parent, name) in everyone.items()
        if parent in found and each not in found
    }:
        found |= more
    del found[pid]
    return found


def test_ctrl_c_while_it_builds(ktrial: Ktrial) -> None:
    at_work: dict[int, str] = {}

    def building(pid: int) -> bool:
        at_work.update(below(pid))
        return "cc1" in at_work.values()

    patch = FAULTS / "interrupted-build.patch"
    ran = ktrial.interrupted("run", str(patch), "--tree", TREE, *LONG, when=building)
    assert ran.exit_code == 130, ran.explain()
    alive = processes()
    assert not [name for pid, name in at_work.items() if alive.get(pid, (0, ""))[1] == name]


def test_ctrl_c_while_a_guest_runs(ktrial: Ktrial) -> None:
    ran = ktrial.interrupted(
        "run", "--rev", "HEAD", "--tree", TREE, *LONG, when=lambda _: bool(ktrial.qemus())
    )
    assert ran.exit_code == 130, ran.explain()
    assert not ktrial.qemus()


def test_sigterm_is_the_same(ktrial: Ktrial) -> None:
    ran = ktrial.interrupted(
        "run",
        *("--rev", "HEAD", "--tree", TREE, *LONG),
        when=lambda _: bool(ktrial.qemus()),
        signum=signal.SIGTERM,
    )
    assert ran.exit_code == 143, ran.explain()


def test_after_kill_9_the_next_start_ends_what_was_left(ktrial: Ktrial) -> None:
    ran = ktrial.interrupted(
        "run",
        *("--rev", "HEAD", "--tree", TREE, *LONG),
        when=lambda _: bool(ktrial.qemus()),
        signum=signal.SIGKILL,
    )
    assert ran.exit_code == -signal.SIGKILL
    left = ktrial.qemus()
    assert left, "the guest outlives a killed run: this is what is to be cleaned up"
    quick = ("--workload", "hackbench:loops=20,groups=1", "--guest", "smp1")
    again = ktrial("run", "--rev", "HEAD", "--tree", TREE, *quick)
    assert again.exit_code == 0, again.explain()
    assert "left by a dead run" in again.err
    assert not set(left) & set(ktrial.qemus())
