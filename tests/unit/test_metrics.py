"""Reading numbers out of output, with the shipped data files and with broken output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import pipeline
from pipeline import metrics, schema
from pipeline.model import Better, Phase, ProbeSpec, Reading, Sample, Value, WorkloadSpec
from tests import runs

DATA = Path(pipeline.__file__).parent / "data"

# As Debian 12's hackbench (rt-tests 2.4) printed it.
HACKBENCH = """\
Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)
Each sender will pass 20 messages of 100 bytes
Time: 0.036
"""
MEMINFO = """\
MemTotal:         479012 kB
MemFree:          431900 kB
MemAvailable:     425000 kB
Slab:               9040 kB
SReclaimable:       2660 kB
SUnreclaim:         6380 kB
HugePages_Total:       0
"""


def probe(name: str) -> ProbeSpec:
    return schema.read(DATA / "probes" / f"{name}.toml", ProbeSpec, name=name)


def workload(name: str) -> WorkloadSpec:
    return schema.read(DATA / "workloads" / f"{name}.toml", WorkloadSpec, name=name)


def values(samples: tuple[Sample, ...]) -> dict[str, float]:
    return {sample.metric: sample.value for sample in samples}


def test_the_readings_of_every_shipped_file_are_sound() -> None:
    readings = [workload(p.stem).readings for p in (DATA / "workloads").glob("*.toml")]
    readings += [probe(p.stem).readings for p in (DATA / "probes").glob("*.toml")]
    assert len(readings) >= 3
    assert [metrics.check(each) for each in readings] == [[]] * len(readings)


def test_hackbench() -> None:
    samples, problems = metrics.read(
        workload("hackbench").readings, runs.output("hackbench", text=HACKBENCH)
    )
    assert problems == ()
    assert samples == (
        Sample(
            source="hackbench",
            phase=Phase.WORKLOAD,
            metric="time",
            value=0.036,
            unit="s",
            better=Better.LOWER,
        ),
    )


def test_slab_memory() -> None:
    output = runs.output("slab-memory", Phase.AFTER_BOOT, text=MEMINFO.replace("\n", "\r\n"))
    samples, problems = metrics.read(probe("slab-memory").readings, output)
    assert problems == ()
    assert values(samples) == {
        "Slab": 9040,
        "SReclaimable": 2660,
        "SUnreclaim": 6380,
        "MemFree": 431900,
        "MemTotal": 479012,
    }
    assert {sample.unit for sample in samples} == {"kB"}


def test_slab_orders_take_the_first_name_of_a_merged_cache() -> None:
    text = "kmalloc-1k 16 2 = biovec-64 sgpool-32\n:A-0000192 21 0\ntask_struct 12 3\n"
    output = runs.output("slab-orders", Phase.AFTER_BOOT, text=text)
    samples, problems = metrics.read(probe("slab-orders").readings, output)
    assert problems == ()
    assert values(samples) == {
        "kmalloc-1k.objects": 16,
        "kmalloc-1k.order": 2,
        ":A-0000192.objects": 21,
        ":A-0000192.order": 0,
        "task_struct.objects": 12,
        "task_struct.order": 3,
    }


def test_an_output_without_the_number_is_a_problem() -> None:
    readings = workload("hackbench").readings
    samples, problems = metrics.read(readings, runs.output("hackbench", text="Time: \n"))
    assert samples == ()
    assert len(problems) == 1
    assert "no line matches" in problems[0]
    assert metrics.concerns(problems[0], "hackbench")
    assert not metrics.concerns(problems[0], "hack")


def test_a_reading_that_is_not_required_may_be_absent() -> None:
    readings = tuple(replace(r, required=False) for r in workload("hackbench").readings)
    assert metrics.read(readings, runs.output("hackbench", text="")) == ((), ())


@pytest.mark.parametrize("status", [1, None])
def test_a_bad_exit_gives_no_numbers_however_well_they_look(status: int | None) -> None:
    output = runs.output("hackbench", status=status, text=HACKBENCH)
    assert metrics.read(workload("hackbench").readings, output) == ((), ())


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1.2.3", "", "1e999"])
def test_what_is_no_finite_number_is_a_problem(text: str) -> None:
    value = Value(group="n", name="n", unit="", better=Better.LOWER)
    reading = Reading(pattern="^n=(?P<n>.*)$", values=(value,))
    samples, problems = metrics.read((reading,), runs.output("x", text=f"n={text}"))
    assert samples == ()
    assert "is not a number" in problems[0]


def test_a_metric_that_is_there_twice_is_a_problem() -> None:
    _, problems = metrics.read(
        workload("hackbench").readings, runs.output("hackbench", text=HACKBENCH * 2)
    )
    assert problems == ("hackbench (workload): time is there more than once",)


def test_a_name_with_braces_in_the_output_stays_text() -> None:
    value = Value(group="n", name="{key}.n", unit="", better=Better.LOWER)
    reading = Reading(pattern=r"^(?P<key>\S+) (?P<n>\d+)$", values=(value,))
    samples, _ = metrics.read((reading,), runs.output("x", text="{n.__class__} 3"))
    assert values(samples) == {"{n.__class__}.n": 3}


# --------------------------------------------------------------------------- during


def during(*blocks: tuple[str, int]) -> str:
    return "".join(f"{text}{metrics.end_of_reading(str(status))}\n" for text, status in blocks)


def meminfo(slab: int, free: int) -> str:
    return MEMINFO.replace("9040", str(slab)).replace("431900", str(free))


def test_of_several_readings_the_worst_counts() -> None:
    text = during((meminfo(9000, 500), 0), (meminfo(12000, 300), 0), (meminfo(11000, 400), 0))
    samples, problems = metrics.read(
        probe("slab-memory").readings, runs.output("slab-memory", Phase.DURING, text=text)
    )
    assert problems == ()
    found = values(samples)
    assert (found["Slab"], found["MemFree"], found["MemTotal"]) == (12000, 300, 479012)


def test_a_reading_that_was_not_finished_counts_for_nothing() -> None:
    text = during((meminfo(9000, 500), 0)) + meminfo(99999, 1)
    output = runs.output("slab-memory", Phase.DURING, text=text)
    samples, problems = metrics.read(probe("slab-memory").readings, output)
    assert values(samples)["Slab"] == 9000
    assert problems == ()


@pytest.mark.parametrize("text", ["", MEMINFO])
def test_no_finished_reading_is_a_problem(text: str) -> None:
    output = runs.output("slab-memory", Phase.DURING, text=text)
    samples, problems = metrics.read(probe("slab-memory").readings, output)
    assert samples == ()
    assert problems == ("slab-memory (during): no reading was finished while the workload ran",)


def test_a_reading_that_failed_is_a_problem() -> None:
    text = during((meminfo(9000, 500), 0), ("cat: cannot open\n", 1))
    output = runs.output("slab-memory", Phase.DURING, text=text)
    _, problems = metrics.read(probe("slab-memory").readings, output)
    assert problems == ("slab-memory (during): a reading ended with status 1",)


# --------------------------------------------------------------------------- differences


def sample(source: str, phase: Phase, metric: str, value: float) -> Sample:
    return Sample(
        source=source, phase=phase, metric=metric, value=value, unit="1", better=Better.LOWER
    )


def test_a_counter_counts_from_before_the_workload() -> None:
    samples = (
        sample("stat", Phase.AFTER_BOOT, "ctxt", 5),
        sample("stat", Phase.BEFORE, "ctxt", 100),
        sample("memory", Phase.BEFORE, "Slab", 7000),
        sample("hackbench", Phase.WORKLOAD, "time", 0.5),
        sample("stat", Phase.AFTER, "ctxt", 160),
        sample("stat", Phase.AFTER, "new", 3),
        sample("memory", Phase.AFTER, "Slab", 9000),
        sample("stat", Phase.AFTER_DROP, "ctxt", 90),
    )
    assert metrics.differences(samples, {"stat"}) == (
        sample("stat", Phase.AFTER_BOOT, "ctxt", 5),
        sample("memory", Phase.BEFORE, "Slab", 7000),
        sample("hackbench", Phase.WORKLOAD, "time", 0.5),
        sample("stat", Phase.AFTER, "ctxt", 60),
        sample("stat", Phase.AFTER, "new", 3),
        sample("memory", Phase.AFTER, "Slab", 9000),
        sample("stat", Phase.AFTER_DROP, "ctxt", -10),
    )


def test_a_counter_that_was_not_read_before_tells_nothing() -> None:
    samples = (
        sample("stat", Phase.AFTER, "ctxt", 160),
        sample("other", Phase.BEFORE, "ctxt", 1),
        sample("other", Phase.AFTER, "ctxt", 4),
    )
    found = metrics.differences(samples, {"stat", "other"})
    assert found == (sample("other", Phase.AFTER, "ctxt", 3),)


# --------------------------------------------------------------------------- bad data files


@pytest.mark.parametrize(
    ("pattern", "values_", "words"),
    [
        ("(", "n", "is not a regular expression"),
        ("(?P<n>x)", "m", "no group named “m”"),
        ("(?P<n>x)", "", "has no values"),
    ],
)
def test_readings_that_cannot_work_are_told(pattern: str, values_: str, words: str) -> None:
    value = Value(group="n", name=f"{{{values_}}}", unit="", better=Better.LOWER)
    reading = Reading(pattern=pattern, values=(value,) if values_ else ())
    assert words in metrics.check([reading])[0]
