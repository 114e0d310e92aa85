from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import estimate
from pipeline.estimate import DEFAULT, MEASURED, MIXED, BuildKind, Expectation
from pipeline.model import GuestShape, WorkloadRun
from tests.runs import HACKBENCH

SMP2 = GuestShape(name="smp2", description="", vcpus=2, max_vcpus=2, memory=512)
SMP64 = replace(SMP2, name="smp64", vcpus=64, max_vcpus=64)
RUN = WorkloadRun(spec=HACKBENCH, parameters={"loops": 500}, label="hackbench")


def boot_key(run: WorkloadRun | None = None, shape: GuestShape = SMP2) -> str:
    return estimate.boot_key(
        architecture="x86_64", accelerator="tcg", shape=shape, image="bench", run=run
    )


def workload_key(run: WorkloadRun = RUN) -> str:
    return estimate.workload_key(architecture="x86_64", accelerator="tcg", shape=SMP2, run=run)


def boot(
    known: estimate.Known, run: WorkloadRun | None = None, shape: GuestShape = SMP2
) -> Expectation:
    return estimate.boot(
        known, architecture="x86_64", accelerator="tcg", shape=shape, image="bench", run=run
    )


def test_what_was_measured_here_wins_and_one_slow_day_does_not_move_it() -> None:
    known = {boot_key(): (3.0, 3.2, 90.0, 3.1, 2.9)}
    assert boot(known) == Expectation(seconds=3.1, source=MEASURED)


def test_without_measurements_there_is_a_default_by_vcpus() -> None:
    few, many = boot({}), boot({}, shape=SMP64)
    assert few.source == many.source == DEFAULT
    assert 2 < few.seconds < 5 < many.seconds < 20


def test_a_boot_with_a_workload_is_put_together_from_what_is_known() -> None:
    alone, its = {boot_key(): (3.0,)}, {workload_key(): (20.0,)}
    assert boot(alone | its, RUN) == Expectation(seconds=23.0, source=MEASURED)
    assert boot(alone, RUN).source == MIXED
    assert boot(its, RUN).seconds > 20
    assert boot({}, RUN).source == DEFAULT
    assert boot(alone | its | {boot_key(RUN): (25.0,)}, RUN).seconds == 25.0


def test_a_workload_takes_at_most_its_deadline_where_nothing_is_known() -> None:
    short = replace(RUN, spec=replace(HACKBENCH, deadline=2.0))
    assert boot({}, short).seconds == pytest.approx(boot({}).seconds + 2)


def test_keys_tell_apart_what_takes_its_own_time_but_not_labels() -> None:
    other = replace(RUN, parameters={"loops": 9})
    renamed = replace(RUN, label="hackbench-2")
    reordered = replace(RUN, parameters={"groups": 1, "loops": 500})
    again = replace(RUN, parameters={"loops": 500, "groups": 1})
    assert boot_key(RUN) == boot_key(renamed)
    assert boot_key(reordered) == boot_key(again)
    assert len({boot_key(), boot_key(RUN), boot_key(other), boot_key(RUN, SMP64)}) == 4
    grown = replace(SMP2, max_vcpus=8)  # a shape that a user changed under the same name
    assert boot_key(RUN) != boot_key(RUN, grown)


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("clean build", BuildKind.CLEAN),
        ("increment on base", BuildKind.INCREMENT),
        ("increment", BuildKind.INCREMENT),
        ("cached", BuildKind.CACHED),
    ],
)
def test_builds_are_known_by_how_they_are_made(how: str, kind: BuildKind) -> None:
    def key(*fragments: str, tree: str = "debian:5.10") -> str:
        return estimate.build_key(architecture="x86_64", fragments=fragments, tree=tree, kind=kind)

    known = {key("kasan"): (7.0,)}
    assert estimate.kind_of(how) is kind
    found = estimate.build(known, key("kasan", "kasan"), kind)
    assert found == Expectation(seconds=7.0, source=MEASURED)
    for other in (key(), key("kasan", tree="debian:6.12"), key("kasan", "lockdep")):
        fresh = estimate.build(known, other, kind)
        assert fresh == Expectation(seconds=estimate.BUILD_SECONDS[kind], source=DEFAULT)


def test_a_guest_that_only_boots_needs_less_than_its_vcpus_and_a_busy_one_needs_all() -> None:
    assert estimate.cores(SMP2, None) < 1 < estimate.cores(SMP64, None) < 4
    assert estimate.cores(SMP2, RUN) == 2
    assert estimate.cores(replace(SMP2, max_vcpus=8), RUN) == 8
