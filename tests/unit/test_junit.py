"""junit.xml is valid, whatever a console holds, and says what the outcomes say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xmlschema
from lxml import etree  # type: ignore[import-untyped]

from pipeline import junit, outcomes
from pipeline.model import Case, CaseId, Outcome, Run
from pipeline.text import clean, cut
from tests import reports
from tests.unit.golden import check_golden

XSD = Path(__file__).parents[1] / "schemas" / "jenkins-junit-10.xsd"
RUNS = [reports.good, reports.broken, reports.varied, reports.with_every_outcome]


def parsed(run: Run) -> Any:
    return etree.fromstring(junit.render(run).encode("utf-8"))


def odd(seconds: float, name: str = "boot", text: str = reports.WILD) -> Case:
    return Case(
        id=CaseId(suite="a.b", name=name),
        outcome=Outcome.ERROR,
        reason=text,
        detail=text,
        evidence=text,
        seconds=seconds,
    )


@pytest.mark.parametrize("make", RUNS)
def test_it_is_valid_against_the_schema_of_jenkins(make: Callable[[], Run]) -> None:
    """… by two implementations, since each is lenient somewhere."""
    text = junit.render(make())
    xmlschema.XMLSchema(XSD).validate(text)
    etree.XMLSchema(etree.parse(XSD)).assertValid(etree.fromstring(text.encode("utf-8")))


def test_the_schema_would_refuse_what_junit_xml_writes_by_itself() -> None:
    text = junit.render(reports.good()).replace("<testsuite ", '<testsuite disabled="0" ', 1)
    assert not xmlschema.XMLSchema(XSD).is_valid(text)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e-7, 12.34567, 1e9])
def test_odd_times(seconds: float) -> None:
    text = junit.render(replace(reports.good(), cases=(odd(seconds),)))
    xmlschema.XMLSchema(XSD).validate(text)
    assert set(re.findall(r' time="([^"]*)"', text)) <= {"0.000", "12.346", "1000000000.000"}


def test_every_character_gives_a_document_that_can_be_read() -> None:
    characters = "".join(map(chr, [*range(0x300), *range(0xD7F0, 0xE010), *range(0xFFF0, 0x10010)]))
    run = replace(reports.good(), cases=(odd(1.0, text=characters),), command=characters)
    root = parsed(run)
    assert root.findtext(".//error")
    assert "\\x00" in root.findtext(".//error", "")


def test_control_characters_are_shown_and_escapes_are_taken_out() -> None:
    assert clean("\x1b[1;31mBUG\x1b[0m\x00\r\nnext\rlast") == "BUG\\x00\nnext\nlast"
    assert clean("mm: \u202efdp.c") == "mm: \\u202efdp.c"


@pytest.mark.parametrize("make", RUNS)
def test_counts_are_those_of_the_children(make: Callable[[], Run]) -> None:
    run = make()
    root = parsed(run)
    total: Counter[str] = Counter()
    for suite in root.iter("testsuite"):
        seen = {
            "tests": len(suite.findall("testcase")),
            "failures": len(suite.findall("testcase/failure")),
            "errors": len(suite.findall("testcase/error")),
            "skipped": len(suite.findall("testcase/skipped")),
        }
        assert {name: int(suite.get(name, "-1")) for name in seen} == seen
        total.update(seen)
    assert total["tests"] == len(run.cases)
    assert {name: int(root.get(name, "-1")) for name in ("tests", "failures", "errors")} == {
        name: total[name] for name in ("tests", "failures", "errors")
    }


@pytest.mark.parametrize("make", RUNS)
def test_each_outcome_has_its_element_and_a_message(make: Callable[[], Run]) -> None:
    run = make()
    elements = {(e.get("classname"), e.get("name")): e for e in parsed(run).iter("testcase")}
    assert len(elements) == len(run.cases)
    for case in run.cases:
        element = elements[case.id.suite, case.id.name]
        kinds = [child for child in element if child.tag in {"failure", "error", "skipped"}]
        wanted = outcomes.RULES[case.outcome].junit
        assert [child.tag for child in kinds] == ([wanted] if wanted else [])
        assert all(child.get("message") for child in kinds)


def test_names_that_came_out_alike_are_told_apart() -> None:
    run = replace(reports.good(), cases=(odd(1.0), odd(2.0), odd(3.0, name="boot (2)")))
    names = [element.get("name") for element in parsed(run).iter("testcase")]
    assert len(set(names)) == 3


def test_long_texts_are_cut_and_say_so() -> None:
    case = odd(1.0, text="x" * 30_000_000)
    case = replace(case, evidence="cells/a/console.log")
    text = junit.render(replace(reports.good(), cases=(case,)))
    assert len(text) < 100_000
    assert "characters cut; all of it is in cells/a/console.log" in text


def test_cut_keeps_head_and_tail() -> None:
    assert cut("short", 10) == "short"
    assert cut("a" * 50 + "b" * 50, 20) == "a" * 10 + "\n[… 80 characters cut …]\n" + "b" * 10


def test_properties_say_what_ran_and_on_what() -> None:
    suite = parsed(reports.good()).find("testsuite")
    assert suite is not None
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert properties["accelerator.x86_64"] == "tcg"
    assert "timed boot" in (properties["accelerator.x86_64.reason"] or "")
    assert properties["ktrial.version"] == "0.1.0"
    assert properties["scenario"] == "num_present_cpus"
    assert properties["tree"] == "debian:5.10 5.10.262"
    assert properties["sandbox"] == "yes"
    assert properties["toolchain.x86_64"] == "gcc (Debian 12.2.0-14) 12.2.0"
    for kernel in ("base", "prerequisite", "fix"):
        assert len(properties[f"kernel.{kernel}.commit"] or "") == 40


@pytest.mark.parametrize("name", ["good", "broken"])
def test_golden(name: str) -> None:
    run = {"good": reports.good, "broken": reports.broken}[name]()
    check_golden(f"junit-{name}.xml", junit.render(run))
