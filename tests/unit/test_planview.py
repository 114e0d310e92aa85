from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pipeline import planview
from pipeline.budget import Budget
from pipeline.estimate import DEFAULT, MEASURED, BuildKind, Expectation
from pipeline.model import Action, Cell, Event, GuestShape
from pipeline.planview import BuildOutlook, CellOutlook, Outlook
from pipeline.scheduler import Forecast
from tests import runs

SHAPE = GuestShape(name="smp2of8", description="", vcpus=2, max_vcpus=8, memory=1024)
BUDGET = Budget(cores=2, memory=20000)
FORECAST = Forecast(seconds=400, memory=2600, cores=2, starts={})
HUGE = "it wants 64000 MiB, and this host has 20000"


def cell_outlook(cell: Cell, seconds: float, source: str = MEASURED) -> CellOutlook:
    return CellOutlook(
        cell=cell,
        shape=replace(SHAPE, name=cell.guest),
        expected=Expectation(seconds=seconds, source=source),
        memory=1300,
        exclusive=cell.workload != "boot",
        boots=6,
    )


def build_outlook(
    kernel: str, kind: BuildKind, seconds: float, source: str = MEASURED
) -> BuildOutlook:
    return BuildOutlook(
        target="x86_64",
        kernel=kernel,
        kind=kind,
        expected=Expectation(seconds=seconds, source=source),
    )


def small() -> Outlook:
    scenario = runs.scenario(guests=("smp2of8", "huge"), labels=("boot", "hackbench"), boots=2)
    cells = runs.plan(scenario).cells
    return Outlook(
        plan=runs.plan(
            replace(
                scenario,
                events=(Event(label="vcpu-add", action=Action.VCPU_ADD, when="at start"),),
            ),
            {cell: HUGE for cell in cells if cell.guest == "huge"},
        ),
        builds=(
            build_outlook("base", BuildKind.CLEAN, 300, DEFAULT),
            build_outlook("prerequisite", BuildKind.INCREMENT, 15),
            build_outlook("fix", BuildKind.INCREMENT, 8.25),
        ),
        cells=(cell_outlook(cells[0], 3.456), cell_outlook(cells[1], 130, DEFAULT)),
        budget=BUDGET,
        forecast=FORECAST,
        notes=("firmware tables are replaced",),
    )


SMALL = f"""\
num_present_cpus: mm/slub: let number of present CPUs determine the slub page order
tree: debian:5.10 (base debian/5.10)
kernels: base (base), prerequisite (prerequisite), fix (patched)
events: vcpu-add (at start)
note: the prerequisite is not on trial
note: firmware tables are replaced

x86_64: 2 cells, 12 boots
  clean build: base (5 min?)
  increment: prerequisite, fix (8.2 s … 15 s)
  guest    vCPUs   memory    workload   boots  each    in all
  smp2of8  2 of 8  1300 MiB  boot       6      3.5 s   21 s
  smp2of8  2 of 8  1300 MiB  hackbench  6      2 min?  13 min  alone

skipped: 2 cells
  x86_64.huge.boot, x86_64.huge.hackbench
    {HUGE}

in all: 3 builds, 2 cells, 12 boots
time: about 7 min (one after the other: 19 min)
memory: at most 2600 of 20000 MiB; cores: 2
alone: times are measured, so that nothing else runs meanwhile
?: not measured on this host yet, or not all of it
"""


def test_a_small_plan_is_told_cell_by_cell() -> None:
    assert planview.render(small()) == SMALL


def test_where_all_is_measured_there_is_no_question_mark() -> None:
    outlook = small()
    cells = tuple(
        replace(each, expected=Expectation(seconds=1, source=MEASURED)) for each in outlook.cells
    )
    assert "?" not in planview.render(replace(outlook, builds=outlook.builds[1:], cells=cells))


def large(guests: int, workloads: int, targets: int = 2) -> Outlook:
    cells = [
        Cell(
            architecture="x86_64",
            guest=f"guest{guest}",
            workload=f"workload{workload}",
            configuration=f"c{target}",
        )
        for target in range(targets)
        for guest in range(guests)
        for workload in range(workloads)
    ]
    odd = {cell: f"cause {cell.guest[-1]}" for cell in cells if int(cell.guest[5:]) % 7 == 3}
    plan = replace(runs.plan(), cells=tuple(cells), unsupported=odd)
    those = tuple(cell_outlook(cell, 2 + i) for i, cell in enumerate(cells) if cell not in odd)
    return Outlook(plan=plan, builds=(), cells=those, budget=BUDGET, forecast=FORECAST)


@pytest.mark.parametrize(("guests", "workloads"), [(10, 10), (100, 1), (2, 50)])
def test_hundreds_of_cells_are_told_in_groups(guests: int, workloads: int) -> None:
    outlook = large(guests, workloads)
    lines = planview.render(outlook).splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) <= 105
    total = sum(each.boots for each in outlook.cells)
    assert f"in all: 0 builds, {len(outlook.cells)} cells, {total} boots" in lines
    boots = [re.search(r" MiB .*  (\d+) +\d+\.?\d* (?:s|min)", line) for line in lines]
    assert sum(int(found[1]) for found in boots if found) == total


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((0.04, "0.0 s"), (9.94, "9.9 s"), (45, "45 s"), (119, "119 s"), (121, "2 min")),
        *((3600, "60 min"), (7260, "2 h 01 min"), (90000, "25 h 00 min")),
    ],
)
def test_durations_are_told_as_people_do(seconds: float, words: str) -> None:
    assert planview.duration(seconds) == words
