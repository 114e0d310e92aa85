"""Tests that a workload reported: a case each, and whose their failures are."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import junit, outcomes, verdict
from pipeline.model import (
    BootResult,
    Case,
    Comparison,
    Evidence,
    Outcome,
    Plan,
    Stop,
    WorkloadRun,
    WorkloadSpec,
)
from pipeline.model import TestResult as Result
from tests import runs

KUNIT = WorkloadSpec(
    name="kunit",
    description="tests in the kernel",
    command="true",
    parameters=(),
    needs=(),
    deadline=60.0,
    readings=(),
    ktap="output",
)
CELL = "num_present_cpus.x86_64.smp2of8.kunit"
STATUSES = ("passed", "failed", "skipped", "todo", "xfail", "timeout", "error", "not-run")


def planned(boots: int = 1) -> Plan:
    scenario = runs.scenario((runs.BASE, runs.PATCHED), probes=(), labels=("kunit",), boots=boots)
    work = WorkloadRun(spec=KUNIT, parameters={}, label="kunit")
    return runs.plan(replace(scenario, workloads=(work,)))


def tap(**statuses: str) -> tuple[Result, ...]:
    """By name, with __ for /."""
    return tuple(
        Result(name=name.replace("__", "/"), status=status, detail=f"{status} it is")
        for name, status in statuses.items()
    )


def evidence(made: Plan, told: Mapping[tuple[str, int], tuple[Result, ...]]) -> Evidence:
    good = runs.good_evidence(made)
    boots = tuple(replace(b, tests=told.get((b.boot.kernel, b.boot.block), ())) for b in good.boots)
    return replace(good, boots=boots)


def judged(made: Plan, found: Evidence) -> dict[str, Case]:
    """By what is behind the cell: “patched.suite / name”."""
    return {
        f"{case.id.suite.removeprefix(CELL + '.')} / {case.id.name}": case
        for case in verdict.judge(made, found, root=runs.ROOT)
    }


def pair(base: tuple[Result, ...], patched: tuple[Result, ...]) -> dict[str, Case]:
    made = planned()
    return judged(made, evidence(made, {("base", 0): base, ("patched", 0): patched}))


@pytest.mark.parametrize(
    ("base", "patched", "outcome"),
    [
        ("passed", "passed", Outcome.PASSED),
        ("passed", "xfail", Outcome.PASSED),
        ("passed", "failed", Outcome.FAILED),
        ("passed", "timeout", Outcome.FAILED),
        ("passed", "error", Outcome.FAILED),
        ("failed", "failed", Outcome.BASE_BROKEN),
        ("timeout", "failed", Outcome.BASE_BROKEN),
        ("failed", "passed", Outcome.PASSED),
        ("skipped", "failed", Outcome.INCONCLUSIVE),
        ("passed", "skipped", Outcome.UNSUPPORTED),
        ("passed", "not-run", Outcome.NOT_RUN),
        ("passed", "a word that nobody knows", Outcome.NOT_RUN),
    ],
)
def test_a_test_is_held_against_base(base: str, patched: str, outcome: Outcome) -> None:
    cases = pair(tap(list__add=base), tap(list__add=patched))
    case = cases["patched.list / add"]
    assert case.outcome is outcome
    assert case.outcome is Outcome.PASSED or case.reason
    if base == "failed":
        assert cases["base.list / add"].outcome is Outcome.BASE_BROKEN


def test_the_workload_fails_with_a_test_of_its_own() -> None:
    both = tap(list__add="passed", list__del="failed")
    cases = pair(both, tap(list__add="failed", list__del="failed"))
    work = cases["patched / kunit"]
    assert work.outcome is Outcome.FAILED
    assert work.reason == "1 of 2 tests: add: failed: failed it is"
    assert cases["base / kunit"].outcome is Outcome.PASSED, "it came to its end"
    assert pair(both, both)["patched / kunit"].outcome is Outcome.PASSED


def test_a_test_that_vanishes_is_still_there() -> None:
    cases = pair(tap(list__add="passed", list__del="passed"), tap(list__add="passed"))
    case = cases["patched.list / del"]
    assert (case.outcome, case.reason) == (Outcome.NOT_RUN, "it reported no result")


def test_a_test_that_the_series_adds_keeps_no_commit_from_being_judged() -> None:
    cases = pair(tap(old="passed"), tap(old="passed", new="passed", left="skipped"))
    assert cases["base / new"].outcome is Outcome.UNSUPPORTED
    assert cases["base / new"].reason == "base has no such test"
    assert cases["patched / new"].outcome is Outcome.PASSED
    work = [case for case in cases.values() if case.id.name != "warnings"]
    assert outcomes.bisect_exit(work) == outcomes.run_exit(work) == 0


@pytest.mark.parametrize("stop", [Stop.KERNEL, Stop.INFRA])
def test_a_guest_that_died_says_why_its_tests_are_not_there(stop: Stop) -> None:
    made = planned()
    both = tap(list__add="passed", list__del="passed")
    found = evidence(made, {("base", 0): both, ("patched", 0): both[:1]})
    died = {"stop": stop, "reason": "the guest left"}
    case = judged(made, runs.change_boot(found, "patched", died))["patched.list / del"]
    assert (case.outcome, case.reason) == (Outcome.NOT_RUN, f"{stop.value}: the guest left")


def test_what_fails_as_its_host_does_is_not_charged() -> None:
    made = planned()
    told = {("base", 0): tap(a="passed"), ("patched", 0): tap(a="failed")}
    lost = {"stop": Stop.INFRA, "reason": "disk full"}
    case = judged(made, runs.change_boot(evidence(made, told), "patched", lost))["patched / a"]
    assert (case.outcome, case.reason) == (Outcome.NOT_RUN, "infrastructure fault: disk full")


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ((), Outcome.ERROR),
        (tap(a="not-run"), Outcome.ERROR),
        (tap(a="skipped", b="skipped"), Outcome.UNSUPPORTED),
        (tap(a="skipped", b="passed"), Outcome.PASSED),
    ],
)
def test_a_workload_without_a_test_that_ran_is_no_pass(
    told: tuple[Result, ...], outcome: Outcome
) -> None:
    assert pair(tap(a="passed"), told)["patched / kunit"].outcome is outcome


def test_no_pass_where_one_boot_has_no_result() -> None:
    made = planned(boots=2)
    told = {(kernel, 0): tap(a="passed") for kernel in ("base", "patched")}
    case = judged(made, evidence(made, told))["patched / a"]
    assert (case.outcome, case.reason) == (
        Outcome.NOT_RUN,
        "1 of 2 boots: it reported no result",
    )


def failing(boots: int, patched: int, base: int) -> Case:
    made = planned(boots)
    told = {
        (kernel, block): tap(a="failed" if block < bad else "passed")
        for kernel, bad in (("patched", patched), ("base", base))
        for block in range(boots)
    }
    return judged(made, evidence(made, told))["patched / a"]


@pytest.mark.parametrize(
    ("patched", "base", "outcome"),
    [
        (10, 0, Outcome.FAILED),
        (6, 0, Outcome.FAILED),  # p = 0.011
        (2, 0, Outcome.INCONCLUSIVE),
        (9, 2, Outcome.FAILED),  # p = 0.0055
        (4, 2, Outcome.BASE_BROKEN),
    ],
)
def test_what_fails_on_some_boots_only(patched: int, base: int, outcome: Outcome) -> None:
    case = failing(10, patched, base)
    assert case.outcome is outcome
    if patched < 10:
        assert f"{patched} of 10 patched, {base} of 10 base, p = " in case.reason
    if outcome is Outcome.INCONCLUSIVE:
        assert "--odds 0.2" in case.reason


def test_an_identical_kernel_has_identical_tests() -> None:
    made = planned()
    found = evidence(made, {("base", 0): tap(a="passed")})
    found = replace(
        found,
        boots=tuple(b for b in found.boots if b.boot.kernel == "base"),
        comparisons={("x86_64", "patched"): Comparison(below="base", identical=True)},
    )
    cases = judged(made, found)
    for name in ("boot", "kunit", "a"):
        assert cases[f"patched / {name}"].outcome is Outcome.IDENTICAL
        assert cases[f"patched / {name}"].reason == "skipped: image identical to base"


def test_names_are_one_of_a_kind() -> None:
    names = ("boot", "kunit", "a", "a/b", "v1.0", "v1_0", "/")
    told = tuple(Result(name=name, status="passed") for name in names)
    made = planned()
    found = evidence(made, {("base", 0): told, ("patched", 0): told})
    ids = [case.id for case in verdict.judge(made, found)]
    assert len(set(ids)) == len(ids)
    assert all(each.name and "." not in each.name for each in ids)
    assert set(verdict.planned(made)) <= set(ids)


NAMES = st.sampled_from(["a", "b", "a/b", "a/b/c", "boot", "x.y", "x_y"])
TOLD = st.lists(st.builds(Result, name=NAMES, status=st.sampled_from(STATUSES)), max_size=6).map(
    tuple
)


@st.composite
def results(draw: st.DrawFn) -> tuple[Plan, Evidence]:
    """Boots of which any may be missing, lost or dead, in any order, some behind a lost attempt."""
    made = planned(draw(st.integers(1, 3)))
    boots: list[BootResult] = []
    for boot in runs.good_evidence(made).boots:
        one = replace(boot, tests=draw(TOLD), stop=draw(st.sampled_from(list(Stop))))
        if draw(st.booleans()):
            lost = replace(one, stop=Stop.INFRA, tests=draw(TOLD))
            boots += [lost, replace(one, boot=replace(one.boot, boot=1))]
        elif draw(st.booleans()):
            boots.append(one)
    found = replace(
        runs.good_evidence(made),
        boots=tuple(draw(st.permutations(boots))),
        cut=draw(st.booleans()),
    )
    return made, found


@settings(max_examples=300, deadline=None)
@given(results())
def test_planned_cases_are_reported_and_every_test_with_them(made: tuple[Plan, Evidence]) -> None:
    plan, found = made
    cases = verdict.judge(plan, found)
    ids = verdict.planned(plan)
    assert tuple(case.id for case in cases[: len(ids)]) == ids
    assert len({case.id for case in cases}) == len(cases)
    last = {replace(b.boot, boot=0): b for b in sorted(found.boots, key=lambda b: b.boot.boot)}
    names = {test.name for boot in last.values() for test in boot.tests}
    assert len(cases) - len(ids) == 2 * len(names), "each for both kernels"
    ran = {"passed", "xfail", "todo"}
    for case in cases[len(ids) :]:
        kernel = "base" if ".kunit.base" in case.id.suite else "patched"
        mine = [b for place, b in last.items() if place.kernel == kernel]
        if case.outcome is Outcome.PASSED:
            assert any(t.status in ran for b in mine for t in b.tests)
        else:
            assert case.reason
        assert kernel == "patched" or case.outcome is not Outcome.FAILED
    if outcomes.run_exit(cases) == 0:
        assert any(c.on_trial and c.outcome is Outcome.PASSED for c in cases)


@settings(max_examples=100, deadline=None)
@given(results())
def test_the_order_in_which_results_come_says_nothing(made: tuple[Plan, Evidence]) -> None:
    plan, found = made
    turned = replace(found, boots=tuple(reversed(found.boots)))
    one, other = verdict.judge(plan, found), verdict.judge(plan, turned)
    assert {c.id: (c.outcome, c.reason) for c in one} == {
        c.id: (c.outcome, c.reason) for c in other
    }


def calls(work: Callable[[], object]) -> int:
    """How many functions were called: what a program does, whatever the host does beside it."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("status", ["passed", "failed"])
def test_twice_as_many_tests_are_twice_the_work(status: str) -> None:
    """KUnit has thousands of tests in a boot, and each is judged each time junit.xml is written."""

    def work(tests: int) -> int:
        made = planned(boots=2)
        told = tuple(Result(name=f"s{n // 50}/t{n}", status=status) for n in range(tests))
        each = {(kernel, block): told for kernel in ("base", "patched") for block in range(2)}
        found = evidence(made, each)
        return calls(lambda: verdict.judge(made, found, root=runs.ROOT))

    work(10)  # what is done once
    assert work(1000) < 2.2 * work(500)


def test_the_file_has_every_planned_case_and_every_test_once() -> None:
    """… also where a kernel died in the middle of them, and the run was cut."""
    made = planned()
    told = {("base", 0): tap(a="passed", b__c="failed"), ("patched", 0): tap(a="passed")}
    died = {"stop": Stop.KERNEL, "reason": "BUG: it died"}
    found = replace(runs.change_boot(evidence(made, told), "patched", died), cut=True)
    cases = verdict.judge(made, found, root=runs.ROOT)
    run = replace(runs.run(made, found), cases=cases)
    elements = ET.fromstring(junit.render(run).encode()).iter("testcase")
    written = [(str(each.get("classname")), str(each.get("name"))) for each in elements]
    assert len(set(written)) == len(written)
    assert {(each.suite, each.name) for each in verdict.planned(made)} <= set(written)
    assert {f"{CELL}.{kernel}" for kernel in ("base", "patched")} <= {
        suite for suite, name in written if name == "a"
    }
    assert (f"{CELL}.patched.b", "c") in written, "base has it: not run here, not gone"
