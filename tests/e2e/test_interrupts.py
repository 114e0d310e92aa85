"""Whoever stops a run finds nothing left of it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import FAULTS, TREE, Ktrial

pytestmark = pytest.mark.e2e

LONG = ("--workload", "hackbench:loops=100000,groups=2", "--guest", "smp1")


def building() -> bool:
    """Whether a compiler of ours is at work."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"cc1\0" in path.read_bytes():
                return True
        except OSError:
            continue
    return False


def test_ctrl_c_while_it_builds(ktrial: Ktrial) -> None:
    patch = FAULTS / "interrupted-build.patch"
    ran = ktrial.interrupted("run", str(patch), "--tree", TREE, *LONG, when=building)
    assert ran.exit_code == 130, ran.explain()
    assert not building()


def test_ctrl_c_while_a_guest_runs(ktrial: Ktrial) -> None:
    ran = ktrial.interrupted(
        "run", "--rev", "HEAD", "--tree", TREE, *LONG, when=lambda: bool(ktrial.qemus())
    )
    assert ran.exit_code == 130, ran.explain()
    assert not ktrial.qemus()


def test_sigterm_is_the_same(ktrial: Ktrial) -> None:
    ran = ktrial.interrupted(
        "run",
        *("--rev", "HEAD", "--tree", TREE, *LONG),
        when=lambda: bool(ktrial.qemus()),
        signum=signal.SIGTERM,
    )
    assert ran.exit_code == 143, ran.explain()


def test_after_kill_9_the_next_start_ends_what_was_left(ktrial: Ktrial) -> None:
    ran = ktrial.interrupted(
        "run",
        *("--rev", "HEAD", "--tree", TREE, *LONG),
        when=lambda: bool(ktrial.qemus()),
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
