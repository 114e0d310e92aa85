"""Boots that count are apart from boots that are timed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import counting, plan, slots, trials
from pipeline.errors import UserError
from pipeline.model import Configuration, Phase, ProbeSpec, Scenario, Trial
from tests import runs


def probe(name: str, *, slows: bool, kconfigs: tuple[str, ...] = ()) -> ProbeSpec:
    return ProbeSpec(
        name=name,
        description="",
        command="true",
        phases=(Phase.AFTER,),
        needs=(),
        kconfigs=kconfigs,
        deadline=5,
        readings=(),
        slows=slows,
    )


PROBES = {
    "slab-memory": probe("slab-memory", slows=False),
    "slub-stats": probe("slub-stats", slows=True, kconfigs=("slub-stats",)),
}


def scenario(**changes: object) -> Scenario:
    return replace(runs.scenario(runs.KERNELS), **{"boots": 5, **changes})  # type: ignore[arg-type]


def made(**changes: object) -> Scenario:
    return counting.apart(scenario(**changes), PROBES)


def test_a_slow_probe_gets_a_counted_twin_with_its_own_kernels() -> None:
    found = made(probes=("slab-memory", "slub-stats"))
    assert found.probes == ("slab-memory",)
    assert [(run.label, run.counted, run.probes) for run in found.workloads] == [
        ("hackbench", False, ()),
        ("hackbench-slub-stats", True, ("slub-stats",)),
    ]
    cells = {cell.workload: cell for cell in plan.cells(found)}
    assert cells["hackbench"].configuration == ""
    assert cells["hackbench-slub-stats"].configuration == "slub-stats"
    assert plan.configuration(found, "slub-stats").fragments == ("slub-stats",)
    assert plan.probes_in(found, cells["hackbench"]) == ("slab-memory",)
    assert plan.probes_in(found, cells["hackbench-slub-stats"]) == ("slab-memory", "slub-stats")
    boots = plan.make(found).boots
    assert len({b.block for b in boots if b.cell.workload == "hackbench"}) == 5
    assert len({b.block for b in boots if b.cell.workload != "hackbench"}) == counting.BOOTS


def test_each_slow_probe_has_boots_of_its_own() -> None:
    both = {**PROBES, "func-latency": probe("func-latency", slows=True, kconfigs=("ftrace",))}
    found = counting.apart(scenario(probes=("slub-stats", "func-latency")), both)
    assert {(c.workload, c.configuration) for c in plan.cells(found)} == {
        ("hackbench", ""),
        ("hackbench-slub-stats", "slub-stats"),
        ("hackbench-func-latency", "ftrace"),
    }


def test_doing_it_twice_changes_nothing() -> None:
    once = made(probes=("slub-stats",))
    assert counting.apart(once, PROBES) == once


def test_a_point_of_the_kconfig_axis_has_its_own_counters() -> None:
    points = (Configuration(name="debug", fragments=("lockups",)),)
    found = made(probes=("slub-stats",), configurations=points)
    assert {(c.workload, c.configuration) for c in plan.cells(found)} == {
        ("hackbench", "debug"),
        ("hackbench-slub-stats", "debug-slub-stats"),
    }
    assert plan.configuration(found, "debug-slub-stats").fragments == ("lockups", "slub-stats")
    assert [each.configuration for each in plan.builds(found).targets] == ["debug"]


def test_kernels_that_have_it_anyway_are_not_built_twice() -> None:
    found = made(probes=("slub-stats",), fragments=("slub-stats",))
    assert {cell.configuration for cell in plan.cells(found)} == {""}


def test_a_scenario_names_its_counted_workload_itself() -> None:
    (run,) = scenario().workloads
    own = replace(run, label="short", counted=True, boots=1)
    found = made(probes=("slub-stats",), workloads=(run, own))
    assert [each.probes for each in found.workloads] == [(), ("slub-stats",)]


def test_a_timed_workload_may_not_ask_for_a_slow_probe() -> None:
    (run,) = scenario().workloads
    with pytest.raises(UserError, match="slub-stats slows the kernel"):
        made(workloads=(replace(run, probes=("slub-stats",)),))


def test_without_a_workload_nothing_is_timed() -> None:
    assert made(workloads=(), probes=("slub-stats",)).probes == ("slub-stats",)


def test_a_trial_is_a_case_only_where_it_has_something_to_compare() -> None:
    counts = Trial(name="counts", metrics=("slub-stats/*",))
    times = Trial(name="times", metrics=("hackbench/*",))
    found = made(probes=("slub-stats",), trials=(counts, times))
    by_workload = {
        cell.workload: [each.name for each in trials.in_cell(found, cell)]
        for cell in plan.cells(found)
    }
    assert by_workload == {"hackbench": ["times"], "hackbench-slub-stats": ["counts"]}
    names = [slot.id for slot in slots.slots(plan.make(found)) if slot.what is slots.What.TRIAL]
    assert len(names) == 2 * 1  # one kernel on trial
