"""What the reports say of single boots: notes, second attempts, events."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from pipeline import bootnotes, junit, summary
from pipeline.attempts import counted
from pipeline.model import Action, BootResult, Event, EventResult, EventState, Run, Stop
from tests import runs

AGAIN = "booted once more, afresh, since in the first attempt QEMU was ended by SIGKILL"
EVENTS = (
    Event(label="add", action=Action.VCPU_ADD, when="at start"),
    Event(label="off", action=Action.CPU_OFFLINE, when="after 1 s"),
)


def happened(result: BootResult) -> BootResult:
    """Its events; the patched kernel's second one is not good."""
    seconds = 0.5 + result.boot.block / 4
    bad = result.boot.kernel == "patched"
    return replace(
        result,
        events=(
            EventResult(label="add", state=EventState.GOOD, seconds=seconds),
            EventResult(label="off", state=EventState.FAILED if bad else EventState.GOOD),
        ),
        notes=("its CPU is cortex-a57",),
    )


@pytest.fixture
def run() -> Run:
    """Two boots of each kernel; base's first one was made again."""
    scenario = runs.scenario((runs.BASE, runs.PATCHED), guests=("smp2", "smp4"), boots=2)
    made = runs.plan(replace(scenario, events=EVENTS, tables=()))
    evidence = runs.good_evidence(made)
    first, *others = map(happened, evidence.boots)
    dead = replace(first, stop=Stop.INFRA, reason="QEMU was ended by SIGKILL", events=(), notes=())
    second = replace(first, boot=replace(first.boot, boot=1), notes=(*first.notes, AGAIN))
    return runs.run(made, replace(evidence, boots=(second, dead, *others)))


def test_the_last_attempt_alone_counts(run: Run) -> None:
    last = counted(run.evidence.boots)
    assert len(last) == len(run.evidence.boots) - 1
    assert all(each.stop is Stop.COMPLETED for each in last)


def test_numbers_of_an_attempt_that_was_made_again_are_in_no_table(run: Run) -> None:
    dead = run.evidence.boots[1]
    wild = replace(dead, samples=(runs.sample("slab-memory", "Slab", 1e9, unit="kB"),))
    boots = (run.evidence.boots[0], wild, *run.evidence.boots[2:])
    text = summary.render(replace(run, evidence=replace(run.evidence, boots=boots)))
    assert "1000000000" not in text
    assert "9300" in text


def test_the_summary_has_each_note_once_with_its_cells(run: Run) -> None:
    lines = [line for line in summary.render(run).splitlines() if line.startswith("note on ")]
    assert lines == [
        "note on x86_64.smp2.hackbench, x86_64.smp4.hackbench: its CPU is cortex-a57",
        f"note on x86_64.smp2.hackbench: {AGAIN}",
    ]


def test_junit_has_the_notes_of_a_suite_as_properties(run: Run) -> None:
    found = {
        suite.get("name", ""): [
            each.get("value")
            for each in suite.iter("property")
            if each.get("name", "").startswith("note.")
        ]
        for suite in ET.fromstring(junit.render(run)).iter("testsuite")
    }
    assert found["num_present_cpus.x86_64.smp2.hackbench.base"] == ["its CPU is cortex-a57", AGAIN]
    assert found["num_present_cpus.x86_64.smp4.hackbench.patched"] == ["its CPU is cortex-a57"]
    assert found["num_present_cpus.patched"] == []


def test_events_have_a_table_with_times_or_what_became_of_them(run: Run) -> None:
    rows = bootnotes.events(run, run.plan.cells[0])[1:4]
    assert [row.split() for row in rows] == [
        ["base", "patched"],
        ["add", *["0.62", "[0.50", "…", "0.75]"] * 2],
        ["off", "0.00", "failed"],
    ]
    assert len(set(map(len, rows))) == 1
    assert (
        bootnotes.events(runs.run(runs.plan(), runs.good_evidence(runs.plan())), run.plan.cells[0])
        == []
    )
