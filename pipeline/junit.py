"""`junit.xml`, valid against the schema of Jenkins' xunit plugin (junit-10.xsd). Pure.

The junit-xml package makes the document; what it writes beyond the schema is mended here (1.9
always writes testsuite@disabled, and times with any number of decimals, where three are
allowed). Consumers differ: the stricter schema of Ant (windyroad) forbids system-out in a
testcase and is not met. What they have in common is kept to:

- names are unique: GitLab drops the second case of one name
- only characters of XML 1.0, whatever a console gave: one other and Jenkins rejects the file
- texts are cut to `LIMIT` characters, with a line that says so: GitLab refuses nodes over 10 MB
- counts are those of the children, times have a point, are never negative, NaN or inf
"""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence

from junit_xml import TestCase, TestSuite

from pipeline import bootnotes, outcomes, slots
from pipeline.model import Build, Case, Outcome, Revision, Run
from pipeline.text import clean, cut

LIMIT = 20_000
MESSAGE_LIMIT = 1_000

# Of junit-10.xsd; an attribute that is not here makes the document invalid.
_SUITE_ATTRIBUTES = frozenset(
    {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id"}
    | {"group", "package", "file", "log", "url", "version"}
)
_CASE_ATTRIBUTES = frozenset({"name", "time", "classname", "group"})


def render(run: Run) -> str:
    """The document as text, to be written as UTF-8: a suite for each suite of the cases."""
    properties = {clean(name): _short(value) for name, value in _properties(run)}
    by_suite: dict[str, list[Case]] = {}
    for case in run.cases:
        by_suite.setdefault(case.id.suite, []).append(case)
    notes = _notes(run)
    suites = [
        _suite_element(name, cases, {**properties, **notes.get(name, {})}, run)
        for name, cases in by_suite.items()
    ]
    root = ET.Element("testsuites", {"name": clean(f"ktrial {run.plan.scenario.name}")})
    root.extend(suites)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    root.set("time", _time(sum(case.seconds for case in run.cases if _finite(case.seconds))))
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _properties(run: Run) -> Iterator[tuple[str, str]]:
    """What was run, on what, and by what: the same in each suite of the run."""
    scenario, evidence = run.plan.scenario, run.evidence
    yield "ktrial.version", run.host.get("ktrial", "unknown")
    yield "run", run.id
    yield "command", run.command
    yield "scenario", scenario.name
    if scenario.variant:
        yield "scenario.variant", scenario.variant
    tree = evidence.tree
    yield "tree", f"{tree.name} {tree.version}".strip() if tree else scenario.tree.name
    yield "tree.base", tree.base if tree else scenario.tree.base
    for kernel in scenario.kernels:
        found = evidence.revisions.get(kernel.name)
        yield f"kernel.{kernel.name}.role", kernel.role.value
        if isinstance(found, Revision):
            yield f"kernel.{kernel.name}.commit", found.commit
    for architecture, accelerator in evidence.accelerators.items():
        yield f"accelerator.{architecture}", accelerator.name
        yield f"accelerator.{architecture}.reason", accelerator.reason
    builds = [found for found in evidence.builds.values() if isinstance(found, Build)]
    for build in builds:
        yield f"toolchain.{build.architecture}", build.compiler
    if builds:
        yield "sandbox", "yes" if all(build.sandboxed for build in builds) else "no"
    for name, value in run.host.items():
        if name != "ktrial":
            yield f"host.{name}", value


def _notes(run: Run) -> Mapping[str, Mapping[str, str]]:
    """By suite, what a reader must know of the boots behind it: further properties."""
    about = {each.id.suite: (each.cell, each.kernel.name) for each in slots.slots(run.plan)}
    found: dict[str, Mapping[str, str]] = {}
    for suite, (cell, kernel) in about.items():
        boots = [b for b in run.evidence.boots if (b.boot.cell, b.boot.kernel) == (cell, kernel)]
        numbered = enumerate(bootnotes.of(boots), start=1)
        found[suite] = {f"note.{number}": _short(note) for number, note in numbered}
    return found


def _suite_element(
    name: str, cases: Sequence[Case], properties: Mapping[str, str], run: Run
) -> ET.Element:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(run.started))
    names = _names(cases)
    suite = TestSuite(
        clean(name),
        [_test_case(case, shown) for case, shown in zip(cases, names, strict=True)],
        timestamp=stamp,
        properties=dict(properties),
    )
    element: ET.Element = suite.build_xml_doc()
    _keep(element, _SUITE_ATTRIBUTES)
    element.set("time", _time(sum(case.seconds for case in cases if _finite(case.seconds))))
    for child, case in zip(element.iter("testcase"), cases, strict=True):
        _keep(child, _CASE_ATTRIBUTES)
        child.set("time", _time(case.seconds))
    return element


def _names(cases: Sequence[Case]) -> list[str]:
    """The cases' names; one that came out as another did has a number behind it."""
    names: list[str] = []
    for case in cases:
        name = shown = clean(case.id.name)
        number = 1
        while shown in names:
            number += 1
            shown = f"{name} ({number})"
        names.append(shown)
    return names


def _test_case(case: Case, name: str) -> TestCase:
    kind = outcomes.RULES[case.outcome].junit
    message, body = _message(case), _body(case)
    made = TestCase(name, classname=clean(case.id.suite), stdout=None if kind else body)
    if kind == "failure":
        made.add_failure_info(message, body, case.outcome.value)
    elif kind == "error":
        made.add_error_info(message, body, case.outcome.value)
    elif kind == "skipped":
        made.add_skipped_info(message, body)
    return made


def _message(case: Case) -> str:
    """One line. The outcome's name where it is not the reason's or the element's own."""
    reason = case.reason or case.outcome.value
    if case.outcome in {Outcome.KNOWN, Outcome.INCONCLUSIVE, Outcome.UNSUPPORTED, Outcome.NOT_RUN}:
        reason = f"{case.outcome.value}: {case.reason}" if case.reason else reason
    return _short(reason)


def _body(case: Case) -> str:
    where = f"evidence: {case.evidence}" if case.evidence else ""
    lines = [part for part in (where, case.detail) if part]
    return clean(cut("\n".join(lines), LIMIT, where=case.evidence))


def _short(text: str) -> str:
    return " ".join(clean(cut(text, MESSAGE_LIMIT)).split())


def _keep(element: ET.Element, known: frozenset[str]) -> None:
    for attribute in set(element.attrib) - known:
        del element.attrib[attribute]


def _finite(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds > 0


def _time(seconds: float) -> str:
    return f"{seconds if _finite(seconds) else 0.0:.3f}"
