"""What the nodes came to, as it is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import evidence, scheduler, verdict
from pipeline.model import BuildFailure, Evidence, Outcome, Plan, Stop
from pipeline.scheduler import Done
from tests import runs
from tests.runs import BASE, PATCHED


def plan() -> Plan:
    return runs.plan(runs.scenario((BASE, PATCHED), configurations=("plain", "debug")))


def done(found: Evidence) -> tuple[Done, ...]:
    """Every node with what it came to, as the scheduler gives it."""
    return (
        Done(id="tree", value=found.tree),
        *(Done(id=f"apply.{name}", value=value) for name, value in found.revisions.items()),
        *(Done(id=f"image.{name}", value=value) for name, value in found.images.items()),
        *(Done(id=f"accelerator.{n}", value=value) for n, value in found.accelerators.items()),
        *(Done(id=f"build.{t}.{k}", value=value) for (t, k), value in found.builds.items()),
        *(Done(id=result.boot.name, value=(result,)) for result in found.boots),
    )


def test_everything_that_came_back_is_evidence() -> None:
    made = plan()
    good = runs.good_evidence(made)
    assert evidence.gather(made, done(good)) == good


def test_every_attempt_at_a_boot_is_evidence() -> None:
    made = plan()
    first = runs.good_evidence(made).boots[0]
    second = replace(first, boot=replace(first.boot, boot=1))
    given = Done(id=first.boot.name, value=(first, second))
    assert evidence.gather(made, (Done(id="tree"), given)).boots == (first, second)


def test_a_fault_that_ends_the_run_early_is_told_by_every_case_behind_it() -> None:
    """… though the case that it belongs to was never come to."""
    made = plan()
    given = {each.id: each for each in done(runs.good_evidence(made))}
    nodes = {
        name: Done(id=name, blocked_by="image.x86_64", reason=scheduler.FAIL_FAST) for name in given
    }
    nodes |= {
        "tree": given["tree"],
        "image.x86_64": Done(id="image.x86_64", fault="no space left"),
    }
    cases = verdict.judge(made, evidence.gather(made, tuple(nodes.values())))
    assert {case.outcome for case in cases} == {Outcome.NOT_RUN}
    assert all("first failure: see image.x86_64, no space left" in case.reason for case in cases)


def test_a_cut_node_cuts_the_run() -> None:
    made = plan()
    assert evidence.gather(made, (Done(id="tree", cut=True),)).cut
    assert not evidence.gather(made, (Done(id="tree"),)).cut


# --------------------------------------------------------------------------- the first failure


def failing(made: Plan, found: Evidence, *, over: int) -> bool:
    """Whether a run ends early once the first `over` boots are done, and all before them."""
    whole = done(found)
    boots = {boot.name for boot in made.boots}
    before = [each for each in whole if each.id not in boots]
    after = [each for each in whole if each.id in boots][:over]
    return evidence.failed(made, [each.id for each in whole], [*before, *after])


PANIC = {"stop": Stop.KERNEL, "findings": (runs.finding(),), "ready": None, "outputs": ()}
WARNS = {"findings": (runs.finding("warning", "mm/slub.c:99", fatal=False),)}


def two() -> Plan:
    return runs.plan(runs.scenario((BASE, PATCHED), boots=2))


@pytest.mark.parametrize("over", [0, 1, 2, 4])
def test_nothing_has_failed_as_long_as_all_is_good(over: int) -> None:
    assert not failing(two(), runs.good_evidence(two()), over=over)


def test_a_fault_of_the_series_fails_as_soon_as_base_has_come_through() -> None:
    """The boots are in the order base, patched, base, patched."""
    found = runs.change_boot(runs.good_evidence(two()), "patched", PANIC)
    assert [failing(two(), found, over=n) for n in (1, 2)] == [False, True]
    turned = replace(found, boots=(found.boots[1], found.boots[0], *found.boots[2:]))
    assert [failing(two(), turned, over=n) for n in (1, 2)] == [False, True]


@pytest.mark.parametrize("change", [PANIC, WARNS])
def test_what_base_does_wrong_too_does_not_end_the_run(change: dict[str, object]) -> None:
    found = runs.change_boot(runs.good_evidence(two()), "base", change)
    assert not failing(two(), runs.change_boot(found, "patched", change), over=4)


def test_a_fault_of_the_host_ends_the_run() -> None:
    lost = {"stop": Stop.INFRA, "reason": "QEMU died", "ready": None, "outputs": ()}
    assert failing(two(), runs.change_boot(runs.good_evidence(two()), "base", lost), over=1)
    nodes = ["tree", "image.x86_64"]
    assert evidence.failed(two(), nodes, [Done(id="image.x86_64", fault="no space left")])


def test_a_series_that_does_not_build_ends_the_run() -> None:
    good = runs.good_evidence(two())
    log = runs.ROOT / "build.log"
    bad = BuildFailure(
        kernel="patched", architecture="x86_64", error="e", file="a.c", line=1, log=log
    )
    assert failing(two(), replace(good, builds={**good.builds, ("x86_64", "patched"): bad}), over=0)
