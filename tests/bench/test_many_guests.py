"""Sixteen cells at once, which only boot: how near a run comes to what the cores allow.

The wall time of the whole command, against the lower bound: the CPU seconds of all guests over
the cores, or the longest cell. Aim: at most 1.15 times. And the most memory that all QEMUs
together had, against what the plan said and against the budget, which must hold.

Cores that other programs of this host used meanwhile are told, and the bound with what they left.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import TREE, Ktrial

CELLS = 16
PAUSE = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
CORES = len(os.sched_getaffinity(0))


@dataclass
class Seen:
    """What /proc said of the guests of a run: CPU seconds by process, and bytes at most."""

    cpu: dict[int, float] = field(default_factory=dict)
    memory: int = 0
    at_once: int = 0


def usage(pid: int) -> tuple[float, int]:
    """CPU seconds and resident bytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * PAGE


def busy() -> float:
    """CPU seconds that all programs of the host have had."""
    user, nice, system, _, _, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / TICKS


def children() -> float:
    """CPU seconds of the commands that this process has waited for, their QEMUs included."""
    times = os.times()
    return times.children_user + times.children_system


def look(ktrial: Ktrial, seen: Seen) -> None:
    memory, count = 0, 0
    for pid in ktrial.qemus():
        with suppress(OSError):  # it may end while it is looked at
            if ktrial.is_guest(pid):
                seen.cpu[pid], resident = usage(pid)
                memory, count = memory + resident, count + 1
    seen.memory, seen.at_once = max(seen.memory, memory), max(seen.at_once, count)


@contextmanager
def watched(ktrial: Ktrial) -> Iterator[Seen]:
    seen, over = Seen(), threading.Event()

    def watch() -> None:
        while not over.wait(PAUSE):
            look(ktrial, seen)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def shapes(share: Path) -> list[str]:
    """Guest shapes with one and two CPUs, in a root of one's own: a cell for each."""
    folder = share / "vm_images" / "guests"
    folder.mkdir(parents=True)
    names = []
    for number in range(CELLS):
        vcpus = 1 + number % 2
        names.append(f"bench{number:02}-smp{vcpus}")
        text = f'description = "one of many"\nvcpus = {vcpus}\nmax_vcpus = {vcpus}\nmemory = 512\n'
        (folder / f"{names[-1]}.toml").write_text(text)
    return names


def planned(text: str) -> tuple[int, int]:
    """MiB that a plan expects, and those that it may have."""
    found = re.search(r"^memory: at most (\d+) of (\d+) MiB", text, re.MULTILINE)
    assert found, text
    return int(found[1]), int(found[2])


def line(text: str, word: str) -> str:
    (found,) = [each for each in text.splitlines() if each.startswith(word)]
    return found


def chain(boots: list[dict[str, Any]]) -> float:
    """Seconds of the longest cell: its boots come one after the other."""
    cells: Counter[str] = Counter()
    for boot in boots:
        cells[boot["boot"]["cell"]["guest"]] += boot["ended"] - boot["started"]
    return max(cells.values())


@pytest.mark.parametrize("repeats", [1, 4])
def test_sixteen_cells(repeats: int, ktrial: Ktrial, tmp_path: Path) -> None:
    guests = [word for name in shapes(tmp_path / "share") for word in ("--guest", name)]
    common = (
        *("--rev", "HEAD", "--tree", TREE, "--image", "minimal", "--workload", "none"),
        *("--accel", "tcg", "--boots", str(repeats), "--share", str(tmp_path / "share")),
    )
    arguments = (*common, *guests)
    warm = ktrial("run", *common, "--guest", "smp1")
    assert warm.exit_code == 0, warm.explain()  # kernel and image are in the cache now
    plan = ktrial("plan", *arguments)
    assert plan.exit_code == 0, plan.explain()
    expected, budget = planned(plan.out)

    started, all_before, ours_before = time.monotonic(), busy(), children()
    with watched(ktrial) as seen:
        ran = ktrial("run", *arguments)
    wall, ours = time.monotonic() - started, children() - ours_before
    others = busy() - all_before - ours
    assert ran.exit_code == 0, ran.explain()
    boots = ran.result["run"]["evidence"]["boots"]
    assert len(boots) == CELLS * repeats == len(seen.cpu)

    cpu = sum(seen.cpu.values())
    longest = chain(boots)
    bound = max(cpu / CORES, longest)
    print(
        f"\n{CELLS} cells of {repeats} boots on {CORES} cores, up to {seen.at_once} guests at once"
    )
    print(f"guests had {cpu:.1f} s of CPU, the longest cell {longest:.1f} s: bound {bound:.1f} s")
    print(f"wall time: {wall:.1f} s")
    print(f"wall / bound: {wall / bound:.2f} (aim: at most 1.15)")
    left = CORES - others / wall
    print(
        f"ktrial itself had {ours - cpu:.1f} s of CPU, others {others:.1f} s: {left:.2f} cores left"
    )
    print(f"wall / bound with those: {wall / max(cpu / left, longest):.2f}")
    print(f"the plan said: {line(plan.out, 'time: ')}")
    peak = seen.memory / MIB
    print(f"memory: {peak:.0f} MiB at most, {expected} planned, {budget} allowed")
    assert peak <= expected <= budget
