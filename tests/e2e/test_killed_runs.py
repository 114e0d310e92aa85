"""A run that is killed with SIGKILL half way leaves a report that nobody takes for a good one."""

from __future__ import annotations

import signal
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.e2e.conftest import TREE, Ktrial, Ran

pytestmark = pytest.mark.e2e

# Timed: one guest at a time.
WORK = ("--rev", "HEAD", "--tree", TREE, "--workload", "hackbench:loops=20,groups=1")
SHAPES = {"smp1", "smp2"}
GUESTS = tuple(word for shape in sorted(SHAPES) for word in ("--guest", shape))


def over(results: Path) -> set[str]:
    """The shapes of the cells in which the workload ran to its end."""
    done = results.glob("*/cells/*/*/outputs/*-hackbench.workload.txt")
    return {path.parents[2].name.split(".")[1] for path in done}


def half_way(ktrial: Ktrial) -> bool:
    """Whether one cell is over, and the guest of the other one runs."""
    rest = SHAPES - over(ktrial.results)
    return len(rest) == 1 and any(
        ktrial.is_guest(pid) and all(shape.encode() in command(pid) for shape in rest)
        for pid in ktrial.qemus()
    )


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it ended


def states(ran: Ran) -> dict[str, str]:
    """The first word of each case: passed, failure, error, skipped."""
    return {name: state.split(":")[0] for name, state in ran.junit.items()}


def test_junit_of_a_run_that_is_killed_half_way(ktrial: Ktrial) -> None:
    killed = ktrial.interrupted(
        "run", *WORK, *GUESTS, when=lambda _: half_way(ktrial), signum=signal.SIGKILL
    )
    assert killed.exit_code == -signal.SIGKILL, killed.explain()
    assert killed.folder is not None
    left = [pid for pid in ktrial.qemus() if ktrial.is_guest(pid)]
    assert left, "the guest outlives the run"
    assert not (killed.folder / "result.json").exists()
    assert (ktrial.results / "latest").resolve() == killed.folder.resolve()

    root = ET.parse(killed.folder / "junit.xml").getroot()
    assert int(root.get("tests", "0")) == len(list(root.iter("testcase")))
    assert int(root.get("errors", "0")) > 0, "half a run is not green"

    found = states(killed)
    (done,) = over(ktrial.results)
    (other,) = SHAPES - {done}
    passed = {name for name, state in found.items() if state == "passed"}
    assert any(f".{done}." in name and name.endswith("/hackbench") for name in passed), found
    assert not [name for name in passed if f".{other}." in name], "none passes that was not run"
    assert {state for name, state in found.items() if f".{other}." in name} == {"error"}

    again = ktrial("run", *WORK, *GUESTS)
    assert again.exit_code == 0, again.explain()
    assert "left by a dead run" in again.err
    assert not set(left) & set(ktrial.qemus())
    assert set(again.junit) == set(found), "the same names, whether it is killed or not"
