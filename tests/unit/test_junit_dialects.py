"""Both dialects, whatever came of a run: valid, complete, unique, red where it is no success."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import xmlschema
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped]

from pipeline import junit, outcomes, verdict
from pipeline.model import (
    Case,
    CaseId,
    Evidence,
    Outcome,
    Plan,
    Run,
    Stop,
    TestResult,
)
from tests import reports, runs

FOLDER = Path(__file__).parents[1] / "schemas"
XSDS = {"jenkins": "jenkins-junit-10.xsd", "ant": "windyroad-JUnit.xsd"}
RUNS = [reports.good, reports.broken, reports.varied, reports.with_every_outcome]
BAD = {"failure", "error"}
AGAIN = {"flakyFailure", "flakyError", "rerunFailure", "rerunError"}

dialects = pytest.mark.parametrize("dialect", junit.DIALECTS)


@cache
def schemas(dialect: str) -> tuple[xmlschema.XMLSchema, Any]:
    """Two implementations, since each is lenient somewhere."""
    path = FOLDER / XSDS[dialect]
    return xmlschema.XMLSchema(path), etree.XMLSchema(etree.parse(path))


def checked(run: Run, dialect: str) -> Any:
    """The document, which is valid."""
    text = junit.render(run, dialect)
    ours, libxml = schemas(dialect)
    ours.validate(text)
    root = etree.fromstring(text.encode("utf-8"))
    libxml.assertValid(root)
    return root


def names(root: Any) -> list[tuple[str, str]]:
    return [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]


def is_red(root: Any) -> bool:
    return any(child.tag in BAD for case in root.iter("testcase") for child in case)


def only(outcome: Outcome, **more: Any) -> Run:
    """A run of one case."""
    case = Case(id=CaseId(suite="a.b", name="boot"), outcome=outcome, **more)
    return replace(reports.good(), cases=(case,))


@dialects
@pytest.mark.parametrize("make", RUNS)
def test_it_is_valid_and_counts_its_children(make: Callable[[], Run], dialect: str) -> None:
    run = make()
    root = checked(run, dialect)
    for suite in root.iter("testsuite"):
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(count)) == len(suite.findall(f"testcase/{tag}"))
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
    assert len(names(root)) == len(set(names(root))) == len(run.cases)


@pytest.mark.parametrize("make", RUNS)
def test_ants_document_is_valid_for_jenkins_too_but_not_the_reverse(
    make: Callable[[], Run],
) -> None:
    assert schemas("jenkins")[0].is_valid(junit.render(make(), "ant"))
    assert not schemas("ant")[0].is_valid(junit.render(make(), "jenkins"))


@dialects
@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e-7, 12.34567, 1e9])
def test_odd_times_and_texts(seconds: float, dialect: str) -> None:
    wild = reports.WILD
    checked(only(Outcome.ERROR, reason=wild, detail=wild, seconds=seconds), dialect)
    checked(only(Outcome.PASSED, reason=wild, detail=wild, seconds=seconds), dialect)


@dialects
def test_what_a_passed_case_says_is_kept(dialect: str) -> None:
    root = checked(only(Outcome.PASSED, detail="host: added 2"), dialect)
    said = [element.text for element in root.iter("system-out")]
    assert any("host: added 2" in (text or "") for text in said)


def test_ants_suites_are_numbered_and_named_by_package() -> None:
    suites = list(checked(reports.good(), "ant").iter("testsuite"))
    assert [suite.get("id") for suite in suites] == [str(n) for n in range(len(suites))]
    for suite in suites:
        full = f"{suite.get('package')}.{suite.get('name')}"
        assert {case.get("classname") for case in suite.findall("testcase")} == {full}


@dialects
def test_names_that_readers_take_for_one_are_told_apart(dialect: str) -> None:
    odd = ("a  b", "a b", "a\tb", " a b ", "a b (2)", "", " ", "\x1b[1m")
    cases = tuple(Case(id=CaseId(suite=s, name=n)) for n in odd for s in ("x.y", "x.y ", "", "z"))
    found = names(checked(replace(reports.good(), cases=cases), dialect))
    folded = {(" ".join(suite.split()), " ".join(name.split())) for suite, name in found}
    assert len(folded) == len(found) == len(cases) + 1  # and that nothing was judged
    assert all(name for _, name in folded)


@dialects
def test_an_empty_reason_hides_no_failure(dialect: str) -> None:
    for reason in ("", " ", "\n", "\x1b[0m"):
        assert is_red(checked(only(Outcome.FAILED, reason=reason), dialect))


def test_very_many_long_texts_stay_below_what_consumers_take() -> None:
    cases = tuple(
        Case(
            id=CaseId(suite="a", name=str(number)),
            outcome=Outcome.FAILED,
            detail="x" * 50_000,
            evidence="cells/a",
        )
        for number in range(2_000)
    )
    text = junit.render(replace(reports.good(), cases=cases))
    assert len(text) < 20_000_000
    assert text.count("characters cut; all of it is in cells/a") == 2_000


# --------------------------------------------------------------------------- never green


@dialects
@pytest.mark.parametrize("outcome", list(Outcome))
def test_it_is_red_just_where_the_run_is_no_success(outcome: Outcome, dialect: str) -> None:
    run = only(outcome)
    assert is_red(checked(run, dialect)) == (outcomes.run_exit(run.cases) != outcomes.GOOD)


@dialects
def test_a_run_of_nothing_is_an_error(dialect: str) -> None:
    root = checked(replace(reports.good(), cases=()), dialect)
    (error,) = root.iter("error")
    assert error.get("message") == junit.NOT_JUDGED


# --------------------------------------------------------------------------- attempts


def tried_again(**last: Any) -> tuple[Run, str]:
    """A run of one boot of each kernel, in which QEMU died under fix; and the case's suite."""
    made = runs.plan()
    evidence = runs.good_evidence(made)
    (good,) = [each for each in evidence.boots if each.boot.kernel == "fix"]
    folder = good.folder.with_name("fix.block0.boot1")
    lost = replace(good, stop=Stop.INFRA, reason=f"QEMU died {reports.WILD}")
    second = replace(good, boot=replace(good.boot, boot=1), folder=folder, **last)
    others = tuple(each for each in evidence.boots if each is not good)
    run = runs.run(made, replace(evidence, boots=(*others, lost, second)))
    return run, "num_present_cpus.x86_64.smp2of8.hackbench.fix"


def boot_case(root: Any, suite: str) -> Any:
    (found,) = root.xpath(f'//testcase[@classname="{suite}"][@name="boot"]')
    return found


def test_an_attempt_before_a_good_one_is_flaky() -> None:
    run, suite = tried_again()
    case = boot_case(checked(run, "jenkins"), suite)
    (again,) = [child for child in case if child.tag in AGAIN]
    assert again.tag == "flakyError"
    assert "QEMU died" in again.get("message")
    assert "evidence: cells/" in again.findtext("system-out")
    assert "fix.block0.boot0" in again.findtext("system-out")


def test_an_attempt_before_a_bad_one_is_a_rerun() -> None:
    run, suite = tried_again(stop=Stop.KERNEL, findings=(runs.finding(),))
    case = boot_case(checked(run, "jenkins"), suite)
    assert [child.tag for child in case if child.tag in AGAIN] == ["rerunError"]
    assert [child.tag for child in case if child.tag in BAD] == ["failure"]


def test_ant_has_the_attempts_as_text() -> None:
    run, suite = tried_again()
    out = boot_case(checked(run, "ant"), suite).getparent().findtext("system-out")
    assert "boot 1, attempt 1: QEMU died" in out
    assert "fix.block0.boot0" in out


def test_an_attempt_that_left_no_result_is_shown_too() -> None:
    run, suite = tried_again(notes=("booted once more, since the first attempt did not start",))
    boots = tuple(each for each in run.evidence.boots if each.stop is not Stop.INFRA)
    run = replace(run, evidence=replace(run.evidence, boots=boots))
    (again,) = boot_case(checked(run, "jenkins"), suite).findall("flakyError")
    assert "did not start" in again.get("message")


@pytest.mark.parametrize("make", [reports.good, reports.broken])
def test_boots_that_are_no_second_attempts_are_no_retries(make: Callable[[], Run]) -> None:
    assert not {child.tag for child in checked(make(), "jenkins").iter()} & AGAIN


# --------------------------------------------------------------------------- complete


PLANS = [
    runs.plan(runs.scenario(boots=2)),
    runs.plan(runs.scenario(architectures=("x86_64", "aarch64"), events=("add", "again"))),
    runs.plan(runs.scenario(guests=("smp1", "smp1.x"), labels=("a.b", "a_b"), probes=("boot",))),
]


@st.composite
def came_back(draw: st.DrawFn) -> tuple[Plan, Evidence]:
    """Any part of what a plan may come to, in any order, with guests that crash or go lost."""
    plan = draw(st.sampled_from(PLANS))
    whole = runs.good_evidence(plan)

    def some(table: Any) -> Any:
        kept = draw(st.sets(st.sampled_from(sorted(table)))) if table else set()
        return {key: table[key] for key in table if key in kept}

    changes: list[dict[str, Any]] = [
        {},
        {"stop": Stop.KERNEL, "findings": (runs.finding(),), "outputs": ()},
        {"stop": Stop.INFRA, "reason": "QEMU died", "outputs": (), "ready": None},
        {"stop": Stop.CUT, "outputs": ()},
        {"tests": (TestResult(name="boot", status="failed"), TestResult(name="x/y", status="??"))},
        {"boot": 1},
    ]
    boots = []
    for each in draw(st.permutations(whole.boots))[: draw(st.integers(0, len(whole.boots)))]:
        change = draw(st.sampled_from(changes))
        if "boot" in change:
            change = {"boot": replace(each.boot, boot=1)}
        boots.append(replace(each, **change))
    return plan, Evidence(
        tree=whole.tree if draw(st.booleans()) else None,
        revisions=some(whole.revisions),
        builds=some(whole.builds),
        images=some(whole.images),
        accelerators=some(whole.accelerators),
        boots=tuple(boots),
        cut=draw(st.booleans()),
    )


@settings(max_examples=60, deadline=None)
@given(came_back())
def test_every_planned_case_is_reported_whatever_came_back(given_: tuple[Plan, Evidence]) -> None:
    plan, evidence = given_
    run = replace(runs.run(plan, evidence), cases=verdict.judge(plan, evidence, root=runs.ROOT))
    planned = [(each.suite, each.name) for each in verdict.planned(plan)]
    for dialect in junit.DIALECTS:
        root = checked(run, dialect)
        found = names(root)
        assert len(set(found)) == len(found)
        assert set(planned) <= set(found)
        assert is_red(root) == (outcomes.run_exit(run.cases) != outcomes.GOOD)
