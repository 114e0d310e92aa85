"""Tests that a workload reported itself, as a boot's results."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import binding, guesttests, ktap
from pipeline.catalog import Catalog
from pipeline.model import Output, Phase, WorkloadRun
from pipeline.settings import PACKAGE, shipped_root

SHELF = Catalog(data=PACKAGE / "data", share=(shipped_root(),))

RUNNER = """\
ktrial: left-out mm:migration did not build
ktrial: planned timers:posix_timers
ktrial: planned timers:nanosleep
ktrial: planned timers:raw_skew
ktrial: planned cpu-hotplug:cpu-on-off-test.sh
TAP version 13
1..3
# selftests: timers: posix_timers
# TAP version 13
# 1..2
# ok 1 check_itimer
# ok 2 check_timer
ok 1 selftests: timers: posix_timers
# selftests: timers: nanosleep
not ok 2 selftests: timers: nanosleep # TIMEOUT 45 seconds
# selftests: timers: raw_skew
"""


def run(name: str) -> WorkloadRun:
    return binding.bind(SHELF.workloads[name], name, {})


def output(text: str) -> Output:
    return Output(source="x", phase=Phase.WORKLOAD, exit_status=None, text=text, seconds=1.0)


def statuses(told: guesttests.Told) -> dict[str, str]:
    return {result.name: result.status for result in told.results}


def test_a_run_that_stops_in_the_middle_keeps_what_was_finished_and_loses_no_test(
    tmp_path: Path,
) -> None:
    told = guesttests.of(run("kselftest"), [output(RUNNER)], tmp_path / "console.log")
    assert statuses(told) == {
        "timers/posix_timers/check_itimer": "passed",
        "timers/posix_timers/check_timer": "passed",
        "timers/posix_timers": "passed",
        "timers/nanosleep": "timeout",
        "timers/raw_skew": "not-run",
        "mm/migration": "skipped",
        "cpu-hotplug/cpu-on-off-test.sh": "not-run",
    }
    assert {r.detail for r in told.results if r.name == "mm/migration"} == {"did not build"}


def test_kunit_is_read_from_the_console(tmp_path: Path) -> None:
    console = tmp_path / "console.log"
    console.write_bytes(
        b"[    0.1] KTAP version 1\r\n[    0.1] 1..2\r\n"
        b"[    0.1]     KTAP version 1\r\n[    0.1]     # Subtest: list_sort\r\n"
        b"[    0.1]     1..1\r\n[    0.1]     ok 1 list_sort_test\r\n"
        b"[    0.1] ok 1 list_sort\r\n[    0.2] Kernel panic - not syncing: here\r\n"
    )
    told = guesttests.of(run("kunit"), [], console)
    assert statuses(told) == {"list_sort/list_sort_test": "passed", "2": "not-run"}
    assert told.notes and not told.problems


@pytest.mark.parametrize(
    ("off", "status"), [(True, "passed"), (False, "failed"), (None, "not-run")]
)
def test_a_boot_is_to_end_in_power_off(off: bool | None, status: str, tmp_path: Path) -> None:
    told = guesttests.of(run("boot"), [], tmp_path / "none", off=off)
    assert statuses(told) == {"power-off": status}


def test_nothing_reported_is_a_problem(tmp_path: Path) -> None:
    told = guesttests.of(run("rcutorture"), [output("hello\n")], tmp_path / "none")
    assert told.results == ()
    assert told.problems == (f"rcutorture (workload): {guesttests.NOTHING}",)


def test_a_workload_that_never_had_its_turn_says_nothing(tmp_path: Path) -> None:
    assert guesttests.of(run("kselftest"), [], tmp_path / "none") == guesttests.Told()
    assert guesttests.of(run("hackbench"), [output(RUNNER)], tmp_path) == guesttests.Told()
    assert guesttests.of(None, [], tmp_path) == guesttests.Told()


def test_names_are_unique() -> None:
    text = "TAP version 13\n1..3\nok 1 a\nnot ok 2 a\nok 3 a\n"
    told = guesttests.told("x", ktap.parse_text(text))
    assert statuses(told) == {"a": "passed", "a (2)": "failed", "a (3)": "passed"}


def test_oddities_are_few_and_the_rest_is_counted() -> None:
    text = "TAP version 13\n" + "ok 7 same\n" * 50
    notes = guesttests.told("x", ktap.parse_text(text)).notes
    assert len(notes) == guesttests.MOST_PROBLEMS + 1
    assert notes[-1].endswith("more oddities of its report")


@pytest.mark.parametrize("end", ["rcu", "rcu # RCU_HOTPLUG"])
def test_rcutorture_says_how_it_ended(end: str, tmp_path: Path) -> None:
    good = "#" not in end
    text = f"KTAP version 1\n1..1\n{'ok' if good else 'not ok'} 1 {end}\n"
    told = guesttests.of(run("rcutorture"), [output(text)], tmp_path)
    assert statuses(told) == {"rcu": "passed" if good else "failed"}
