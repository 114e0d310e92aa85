"""Whom faults on some boots, known ones, and those of checks are charged to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from pipeline import odds, outcomes, verdict
from pipeline.model import (
    Case,
    Checked,
    Comparison,
    Diagnostic,
    Evidence,
    Outcome,
    Phase,
    Plan,
    Stop,
    Verified,
)
from pipeline.observation import IDENTICAL
from tests import runs

PAIR = (runs.BASE, runs.PATCHED)
WARNS = {"findings": (runs.finding("warning", "mm/slub.c {f}", fatal=False),)}
PANICS = runs.PANICS_AT_BOOT
EXITS = {
    "outputs": (
        runs.output("slab-orders", Phase.AFTER_BOOT),
        runs.output("hackbench", status=1, text="wrong result"),
    )
}
LOST = {"stop": Stop.INFRA, "reason": "QEMU died", "ready": None, "outputs": (), "samples": ()}
SAID = Diagnostic(
    tool="checkpatch",
    file="mm/slub.c",
    line=9,
    function="",
    text="no blank",
    kind="WARNING:SPACING",
)


def planned(boots: int = 1, **more: object) -> Plan:
    return replace(runs.plan(runs.scenario(PAIR, boots=boots)), **more)  # type: ignore[arg-type]


def judged(made: Plan, evidence: Evidence) -> dict[str, Case]:
    cases = verdict.judge(made, evidence, root=runs.ROOT)
    return {f"{case.id.suite.rpartition('.')[2]} {case.id.name}": case for case in cases}


def on(evidence: Evidence, kernel: str, change: object, blocks: Iterable[int]) -> Evidence:
    for block in blocks:
        evidence = runs.change_boot(evidence, kernel, change, block=block)  # type: ignore[arg-type]
    return evidence


# --------------------------------------------------------------------------- on some boots only


@pytest.mark.parametrize(
    ("change", "name"), [(PANICS, "boot"), (WARNS, "boot"), (EXITS, "hackbench")]
)
@pytest.mark.parametrize(
    ("patched", "base", "outcome"),
    [
        (1, 0, Outcome.INCONCLUSIVE),
        (5, 0, Outcome.INCONCLUSIVE),  # p = 0.056
        (11, 0, Outcome.FAILED),
        (50, 0, Outcome.FAILED),
        (11, 10, Outcome.BASE_BROKEN),
        (30, 5, Outcome.FAILED),
        (5, 30, Outcome.BASE_BROKEN),
    ],
)
def test_fifty_boots_a_side(
    change: object, name: str, patched: int, base: int, outcome: Outcome
) -> None:
    made = planned(50)
    evidence = on(runs.good_evidence(made), "patched", change, range(patched))
    case = judged(made, on(evidence, "base", change, range(base)))[f"patched {name}"]
    assert case.outcome is outcome
    rates = f"{patched} of 50 patched, {base} of 50 base, p = "
    if outcome is not Outcome.BASE_BROKEN and patched < 50:
        assert rates in case.reason
    if outcome is Outcome.INCONCLUSIVE:
        rate = patched / 50
        assert f"takes {odds.boots_for(rate)} boots of each (--odds {rate:.2g})" in case.reason


def test_the_reason_says_that_the_boots_were_fixed_beforehand() -> None:
    made = planned(50, rate=0.2)
    evidence = on(runs.good_evidence(made), "patched", WARNS, range(11))
    reason = judged(made, evidence)["patched boot"].reason
    assert reason.startswith("11 of 50 boots: mm/slub.c {f}; 11 of 50 patched, 0 of 50 base, p = 0")
    assert reason.endswith("; the 50 boots of each are for a rate of 0.2")


def test_boots_that_the_host_lost_tell_nothing_on_either_side() -> None:
    """Eight boots of each came to an end: 8 of 8, not 8 of 10."""
    made = planned(10)
    evidence = on(runs.good_evidence(made), "patched", WARNS, range(8))
    evidence = on(evidence, "patched", LOST, (8, 9))
    assert judged(made, evidence)["patched boot"].outcome is Outcome.FAILED
    evidence = on(evidence, "base", LOST, (0, 1))
    case = judged(made, evidence)["patched boot"]
    assert case.outcome is Outcome.FAILED, "those of base that came to an end are enough"
    assert judged(made, evidence)["base boot"].outcome is Outcome.ERROR, "and it is not hidden"
    evidence = on(evidence, "base", LOST, range(10))
    assert judged(made, evidence)["patched boot"].outcome is Outcome.INCONCLUSIVE
    evidence = on(runs.good_evidence(made), "patched", WARNS, range(4))
    evidence = on(on(evidence, "patched", LOST, (9,)), "base", LOST, (0,))
    assert "4 of 9 patched, 0 of 9 base" in judged(made, evidence)["patched boot"].reason


# --------------------------------------------------------------------------- known, identical


def known(title: str, note: str = "") -> object:
    return replace(runs.finding("warning", title, fatal=False), known=note)


@pytest.mark.parametrize(
    ("notes", "outcome", "starts"),
    [
        (("an old one", "older"), Outcome.KNOWN, "an old one: A"),
        (("", "older"), Outcome.FAILED, "A"),
        (("an old one", ""), Outcome.FAILED, "B"),
    ],
)
def test_known_and_new(notes: tuple[str, str], outcome: Outcome, starts: str) -> None:
    made = planned()
    findings = tuple(map(known, "AB", notes))
    evidence = runs.change_boot(runs.good_evidence(made), "patched", {"findings": findings})
    cases = judged(made, evidence)
    assert cases["patched boot"].outcome is outcome
    assert cases["patched boot"].reason.startswith(starts)
    assert "BUG: A" in cases["patched boot"].detail, "it is not hidden"
    on_base = runs.change_boot(evidence, "base", {"findings": findings})
    expected = Outcome.KNOWN if outcome is Outcome.KNOWN else Outcome.BASE_BROKEN
    assert judged(made, on_base)["base boot"].outcome is expected


def test_one_that_is_known_is_no_more_often_than_below() -> None:
    made = planned(50)
    findings = {"findings": (known("A", "an old one"), known("B"))}
    evidence = on(runs.good_evidence(made), "patched", findings, range(30))
    evidence = on(evidence, "base", findings, range(1))
    evidence = on(evidence, "base", {"findings": (known("B"),)}, range(1, 30))
    assert judged(made, evidence)["patched boot"].outcome is Outcome.BASE_BROKEN


def test_an_identical_kernel_is_judged_without_a_boot() -> None:
    made = planned()
    good = runs.good_evidence(made)
    evidence = replace(
        good,
        boots=(),
        comparisons={("x86_64", "patched"): Comparison(below="base", identical=True)},
        spared={boot.name: IDENTICAL.format("base") for boot in made.boots},
    )
    cases = judged(made, evidence)
    for kernel in ("base", "patched"):
        for name in ("boot", "shape", "hackbench", "probe slab-orders"):
            assert cases[f"{kernel} {name}"].outcome is Outcome.IDENTICAL
            assert cases[f"{kernel} {name}"].reason == "skipped: image identical to base"
    assert outcomes.run_exit(cases.values()) == 0
    other = replace(
        evidence, comparisons={("x86_64", "patched"): Comparison(below="base", identical=False)}
    )
    assert judged(made, replace(other, spared={}))["patched boot"].outcome is Outcome.ERROR


# --------------------------------------------------------------------------- checks


def checking(*, patches: bool) -> Plan:
    scenario = replace(runs.scenario(PAIR), checks=("checkpatch",))
    return replace(runs.plan(scenario), patch_checks=("checkpatch",) if patches else ())


@pytest.mark.parametrize("patches", [True, False])
@pytest.mark.parametrize(
    ("found", "outcome", "reason"),
    [
        (Checked(check="checkpatch", read=1), Outcome.PASSED, ""),
        (
            Checked(check="checkpatch", new=(SAID,)),
            Outcome.FAILED,
            "patch 1/1 “mm/slub: let number of present CPUs determine the slub page order”: "
            "1 new checkpatch: mm/slub.c:9: no blank [WARNING:SPACING]",
        ),
        (
            Checked(check="checkpatch", problem="there is no perl"),
            Outcome.UNSUPPORTED,
            "there is no perl",
        ),
        (None, Outcome.ERROR, "no result came back"),
    ],
)
def test_a_check(patches: bool, found: Checked | None, outcome: Outcome, reason: str) -> None:
    made = checking(patches=patches)
    place = ("" if patches else "x86_64", "patched", "checkpatch")
    evidence = replace(runs.good_evidence(made), checked={place: found} if found else {})
    case = judged(made, evidence)["patched check checkpatch"]
    assert (case.outcome, case.reason) == (outcome, reason)
    assert not case.on_trial


def test_a_kernel_that_is_not_what_a_clean_build_gives_is_our_fault() -> None:
    made = planned(verify=True)
    good = runs.good_evidence(made)
    places = [("x86_64", kernel.name) for kernel in PAIR]
    same = replace(good, verified={place: Verified() for place in places})
    assert judged(made, same)["patched verify"].outcome is Outcome.PASSED
    other = {**same.verified, places[1]: Verified(differing=("vmlinux",))}
    case = judged(made, replace(same, verified=other))["patched verify"]
    assert case.outcome is Outcome.ERROR
    assert case.reason == "not what a clean build gives: vmlinux"
    assert judged(made, good)["patched verify"].outcome is Outcome.ERROR, "no word is no pass"


def test_a_series_without_new_warnings_has_not_been_tried_where_nothing_was_booted() -> None:
    made = planned()
    both_panic = runs.change_boot(runs.good_evidence(made), "patched", PANICS)
    cases = judged(made, runs.change_boot(both_panic, "base", PANICS))
    assert cases["patched warnings"].outcome is Outcome.PASSED
    assert outcomes.run_exit(cases.values()) == 3
    assert outcomes.bisect_exit(cases.values()) == 125
