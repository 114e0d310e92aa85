"""Histograms and profiles in the summary."""

from __future__ import annotations

from dataclasses import replace

from pipeline import distributions
from pipeline.figures import Numbers, numbers
from pipeline.model import Better, Phase, Sample, Table
from tests import runs

AFTER = Phase.AFTER
PROFILE = Table(title="Profile", layout="profile", source="perf-profile", most=2)


def test_a_histogram_has_every_bucket_between_its_ends() -> None:
    found = Numbers(
        source="func-latency",
        values={
            ("base", AFTER, "rmqueue_bulk:1024ns.calls"): (10.0, 30.0),
            ("base", AFTER, "rmqueue_bulk:4096ns.calls"): (80.0, 80.0),
            ("base", AFTER, "rmqueue_bulk.mean"): (3000.0, 3000.0),
            ("base", AFTER, "rmqueue_bulk.calls"): (90.0, 110.0),
        },
        units={"rmqueue_bulk.mean": "ns", "rmqueue_bulk.calls": "1"},
    )
    lines = distributions.histograms(found, ("base", "fix"), (AFTER,))
    assert [line.split() for line in lines[:5]] == [
        ["rmqueue_bulk,", "base:", "mean", "of", "2", "boots"],
        ["nsecs", ":", "count", "distribution"],
        ["1024", "->", "2047", ":", "20", "|**********", "|"],
        ["2048", "->", "4095", ":", "0", "|", "|"],
        ["4096", "->", "8191", ":", "80", "|" + "*" * 40 + "|"],
    ]
    assert lines[5] == "  avg = 3000 ns, count = 100 [90 … 110]"
    assert not any("fix" in line for line in lines)


def test_a_histogram_of_nothing_says_so() -> None:
    empty = Numbers(source="func-latency", values={}, units={})
    assert distributions.histograms(empty, ("base",), ()) == ["  no call was seen"]


def test_a_profile_is_sorted_by_the_largest_share_and_tells_the_difference() -> None:
    found = Numbers(
        source="perf-profile",
        values={
            ("base", AFTER, "clear_page.share"): (5.0,),
            ("base", AFTER, "slowpath.share"): (93.0,),
            ("fix", AFTER, "clear_page.share"): (20.0, 24.0),
            ("base", AFTER, "rare.share"): (0.2,),
        },
        units={},
    )
    lines = distributions.profile(PROFILE, found, ("base", "fix"), (AFTER,))
    assert [line.split() for line in lines] == [
        ["base", "fix", "fix", "-", "base"],
        ["slowpath", "93.00%", "-", "-93.00%"],
        ["clear_page", "5.00%", "22.00%", "+17.00%"],
        ["and", "1", "with", "smaller", "shares"],
    ]


def test_numbers_that_no_table_names_get_the_layout_that_they_ask_for() -> None:
    def of(*metrics: str) -> str:
        values = {("base", AFTER, metric): (1.0,) for metric in metrics}
        return distributions.layout_of(Numbers(source="x", values=values, units={}))

    assert of("vfree.calls", "vfree:64ns.calls") == "histogram"
    assert of("total.ticks", "vfree.share") == "profile"
    assert of("kmalloc-64.objects", "vfree.share") == ""


def test_what_was_measured_several_times_in_a_boot_is_averaged_first() -> None:
    plan = runs.plan()
    boot = plan.boots[0]
    twice = tuple(
        Sample(
            source="hackbench",
            phase=Phase.WORKLOAD,
            metric="time",
            value=value,
            unit="s",
            better=Better.LOWER,
        )
        for value in (1.0, 3.0)
    )
    one, other = (runs.good_boot(each) for each in (boot, plan.boots[1]))
    results = [replace(one, samples=twice), other]
    found = numbers(results, "hackbench")
    assert found.values[boot.kernel, Phase.WORKLOAD, "time"][0] == 2.0
