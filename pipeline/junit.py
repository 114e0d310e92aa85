"""`junit.xml`, in the dialect of Jenkins or of Ant. Pure.

"jenkins" is valid against the schema of Jenkins' xunit plugin (junit-10.xsd), "ant" against that
of Ant's junitreport (windyroad's JUnit.xsd). No document can use all of both: Ant's has no
system-out in a testcase and no further attempts, so that those stand in the suite's system-out,
each under the name of its case.

The junit-xml package makes the elements; what it writes beyond a schema is mended here (1.9
always writes testsuite@disabled, and times with any number of decimals, where Jenkins' schema
allows three). Consumers differ; what they have in common is kept to:

- names are unique: GitLab drops the second case of one name
- only characters of XML 1.0, whatever a console gave: one other and Jenkins rejects the file
- texts are cut to `LIMIT` characters, less where there are very many, with a line that says so:
  GitLab refuses nodes over 10 MB and files over 30 MB
- counts are those of the children, times have a point, are never negative, NaN or inf
- a run in which nothing was judged is not green: where no case tells of it, one is added

An attempt at a boot that was made again stays, as Maven Surefire has it: a case that came out
good in the end has a flakyFailure or flakyError for it, any other a rerunFailure or rerunError.
"""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from junit_xml import TestCase, TestSuite

from pipeline import bootnotes, outcomes, slots
from pipeline.attempts import counted
from pipeline.model import (
    BootResult,
    Build,
    Case,
    CaseId,
    Cell,
    Outcome,
    Revision,
    Run,
    Stop,
)
from pipeline.slots import What
from pipeline.text import clean, cut

DIALECTS = ("jenkins", "ant")
LIMIT = 20_000
TOTAL_LIMIT = 10_000_000
MESSAGE_LIMIT = 1_000
UNNAMED = "unnamed"
NOT_JUDGED = "nothing was judged: no case says anything of the series"

# Of junit-10.xsd; an attribute that is not here makes the document invalid.
_SUITE_ATTRIBUTES = frozenset(
    {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id"}
    | {"group", "package", "file", "log", "url", "version"}
)
_CASE_ATTRIBUTES = frozenset({"name", "time", "classname", "group"})
_HARNESS = frozenset({Stop.INFRA, Stop.CUT})


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """An attempt at a boot that was made again. `kind`: Failure or Error, as elements end."""

    kind: str
    type: str
    message: str
    text: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """A case as it is written."""

    case: Case
    name: str
    body: str
    attempts: tuple[_Attempt, ...]


@dataclass(frozen=True, kw_only=True)
class _Suite:
    name: str
    cases: tuple[_Shown, ...]
    properties: Mapping[str, str]


def render(run: Run, dialect: str = "jenkins") -> str:
    """The document as text, to be written as UTF-8: a suite for each suite of the cases."""
    assert dialect in DIALECTS
    suites = _suites(run)
    root = ET.Element("testsuites")
    for number, suite in enumerate(suites):
        element = _suite_element(suite, run)
        (_for_ant if dialect == "ant" else _for_jenkins)(element, suite, number)
        root.append(element)
    if dialect == "jenkins":
        _count(root, run)
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


# --------------------------------------------------------------------------- what is written


def _suites(run: Run) -> list[_Suite]:
    cases = (*run.cases, *_not_green(run))
    by_suite: dict[str, list[Case]] = {}
    for case in cases:
        by_suite.setdefault(_name(case.id.suite), []).append(case)
    texts = sum(bool(case.detail) for case in cases)
    limit = max(MESSAGE_LIMIT, min(LIMIT, TOTAL_LIMIT // max(texts, 1)))
    boots: dict[tuple[Cell, str], list[BootResult]] = {}
    for boot in run.evidence.boots:
        boots.setdefault((boot.boot.cell, boot.boot.kernel), []).append(boot)
    properties = _unique_keys(_properties(run))
    notes = _notes(run, boots)
    attempts = _attempts(run, boots)
    return [
        _Suite(
            name=name,
            cases=tuple(
                _Shown(
                    case=case,
                    name=shown,
                    body=_body(case, limit),
                    attempts=attempts.get(case.id, ()),
                )
                for case, shown in zip(its, _names(its), strict=True)
            ),
            properties={**properties, **notes.get(name, {})},
        )
        for name, its in by_suite.items()
    ]


def _not_green(run: Run) -> Iterator[Case]:
    """A case of its own where the run is no success and none of its cases would say so."""
    red = any(outcomes.RULES[case.outcome].junit in {"failure", "error"} for case in run.cases)
    if not red and outcomes.run_exit(run.cases) != outcomes.GOOD:
        name = CaseId(suite=run.plan.scenario.name, name="verdict")
        yield Case(id=name, outcome=Outcome.ERROR, reason=NOT_JUDGED)


def _unique_keys(pairs: Iterator[tuple[str, str]]) -> dict[str, str]:
    return {_name(name): _short(value) for name, value in pairs}


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


def _notes(
    run: Run, boots: Mapping[tuple[Cell, str], Sequence[BootResult]]
) -> Mapping[str, Mapping[str, str]]:
    """By suite, what a reader must know of the boots behind it: further properties."""
    about = {_name(each.id.suite): (each.cell, each.kernel.name) for each in slots.slots(run.plan)}
    found: dict[str, Mapping[str, str]] = {}
    for suite, (cell, kernel) in about.items():
        its = boots.get((cell, kernel), ()) if cell else ()
        numbered = enumerate(bootnotes.of(its), start=1)
        found[suite] = {f"note.{number}": _short(note) for number, note in numbered}
    return found


# --------------------------------------------------------------------------- attempts


def _attempts(
    run: Run, boots: Mapping[tuple[Cell, str], Sequence[BootResult]]
) -> Mapping[CaseId, tuple[_Attempt, ...]]:
    """By the name of a `boot` case, the attempts at its boots that do not count."""
    found: dict[CaseId, tuple[_Attempt, ...]] = {}
    for slot in slots.slots(run.plan):
        if slot.what is What.BOOT and slot.cell:
            its = boots.get((slot.cell, slot.kernel.name), ())
            if made := tuple(_made_again(its, run)):
                found[slot.id] = made
    return found


def _made_again(boots: Sequence[BootResult], run: Run) -> Iterator[_Attempt]:
    for last in counted(boots):
        earlier = {b.boot.boot: b for b in boots if b.boot.block == last.boot.block}
        for number in range(last.boot.boot):
            before = earlier.get(number)
            yield _attempt(before, run) if before else _not_started(last, number)


def _attempt(boot: BootResult, run: Run) -> _Attempt:
    inside = boot.folder.is_relative_to(run.folder)
    folder = str(boot.folder.relative_to(run.folder) if inside else boot.folder)
    reports = "\n\n".join(each.decoded or each.excerpt for each in boot.findings)
    return _Attempt(
        kind="Error" if boot.stop in _HARNESS else "Failure",
        type=boot.stop.value,
        message=_short(f"{_which(boot, boot.boot.boot)}: {boot.reason or boot.stop.value}"),
        text=clean(cut(reports or boot.reason or boot.stop.value, MESSAGE_LIMIT, where=folder)),
        folder=clean(folder),
    )


def _not_started(last: BootResult, number: int) -> _Attempt:
    """An attempt that left no result: libvirt or QEMU refused it, as a note of the next says."""
    why = next((note for note in last.notes if note.startswith("booted once more")), "no result")
    message = _short(f"{_which(last, number)}: {why}")
    return _Attempt(kind="Error", type=Stop.INFRA.value, message=message, text=message, folder="")


def _which(boot: BootResult, number: int) -> str:
    return f"boot {boot.boot.block + 1}, attempt {number + 1}"


# --------------------------------------------------------------------------- elements


def _suite_element(suite: _Suite, run: Run) -> ET.Element:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(run.started))
    made = TestSuite(
        suite.name,
        [_test_case(shown, suite.name) for shown in suite.cases],
        timestamp=stamp,
        properties=dict(suite.properties),
    )
    element: ET.Element = made.build_xml_doc()
    seconds = sum(each.case.seconds for each in suite.cases if _finite(each.case.seconds))
    element.set("time", _time(seconds))
    for child, shown in zip(element.iter("testcase"), suite.cases, strict=True):
        _keep(child, _CASE_ATTRIBUTES)
        child.set("time", _time(shown.case.seconds))
    return element


def _test_case(shown: _Shown, suite: str) -> TestCase:
    case, body = shown.case, shown.body
    kind = outcomes.RULES[case.outcome].junit
    message = _message(case)
    made = TestCase(shown.name, classname=suite, stdout=None if kind else body)
    if kind == "failure":
        made.add_failure_info(message, body, case.outcome.value)
    elif kind == "error":
        made.add_error_info(message, body, case.outcome.value)
    elif kind == "skipped":
        made.add_skipped_info(message, body)
    return made


def _for_jenkins(element: ET.Element, suite: _Suite, _: int) -> None:
    _keep(element, _SUITE_ATTRIBUTES)
    for child, shown in zip(element.iter("testcase"), suite.cases, strict=True):
        prefix = "flaky" if shown.case.outcome is Outcome.PASSED else "rerun"
        for attempt in shown.attempts:
            about = {"message": attempt.message, "type": attempt.type}
            again = ET.SubElement(child, prefix + attempt.kind, about)
            ET.SubElement(again, "stackTrace").text = attempt.text
            if attempt.folder:
                ET.SubElement(again, "system-out").text = f"evidence: {attempt.folder}"


def _for_ant(element: ET.Element, suite: _Suite, number: int) -> None:
    """What Ant's schema wants more, what it forbids, and its order of children."""
    said: list[str] = []
    for child, shown in zip(element.iter("testcase"), suite.cases, strict=True):
        for out in child.findall("system-out"):
            said.append(f"{shown.name}: {out.text or ''}")
            child.remove(out)
        for skipped in child.findall("skipped"):
            skipped.attrib.pop("type", None)
        said += [
            f"{shown.name}: {each.message} ({each.type})\n"
            + "\n".join(filter(None, (f"evidence: {each.folder}" * bool(each.folder), each.text)))
            for each in shown.attempts
        ]
    counts = {key: element.get(key, "0") for key in ("tests", "failures", "errors", "skipped")}
    package, _, name = suite.name.rpartition(".")
    about = {
        "id": str(number),
        "package": package,
        "name": name or suite.name,
        "hostname": "localhost",  # the schema's word where it is not told
        "timestamp": element.get("timestamp", ""),
        **counts,
        "time": element.get("time", ""),
    }
    element.attrib.clear()
    element.attrib.update(about)
    if element.find("properties") is None:
        element.insert(0, ET.Element("properties"))
    ET.SubElement(element, "system-out").text = "\n".join(said)
    ET.SubElement(element, "system-err")


def _count(root: ET.Element, run: Run) -> None:
    """Attributes of the root, which Ant's schema has none of."""
    root.set("name", clean(f"ktrial {run.plan.scenario.name}"))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    root.set("time", _time(sum(case.seconds for case in run.cases if _finite(case.seconds))))


# --------------------------------------------------------------------------- texts


def _names(cases: Sequence[Case]) -> list[str]:
    """The cases' names; one that came out as another did has a number behind it."""
    taken: dict[str, None] = {}
    last: dict[str, int] = {}
    for case in cases:
        name = shown = _name(case.id.name)
        while shown in taken:
            last[name] = last.get(name, 1) + 1
            shown = f"{name} ({last[name]})"
        taken[shown] = None
    return list(taken)


def _name(text: str) -> str:
    """One line; readers fold white space in attributes, so that it tells no names apart."""
    return _short(text) or UNNAMED


def _message(case: Case) -> str:
    """One line. The outcome's name where it is not the reason's or the element's own."""
    reason = case.reason or case.outcome.value
    if case.outcome in {Outcome.KNOWN, Outcome.INCONCLUSIVE, Outcome.UNSUPPORTED, Outcome.NOT_RUN}:
        reason = f"{case.outcome.value}: {case.reason}" if case.reason else reason
    return _short(reason) or case.outcome.value


def _body(case: Case, limit: int) -> str:
    where = f"evidence: {case.evidence}" if case.evidence else ""
    lines = [part for part in (where, case.detail) if part]
    return clean(cut("\n".join(lines), limit, where=case.evidence))


def _short(text: str) -> str:
    return " ".join(clean(cut(text, MESSAGE_LIMIT)).split())


def _keep(element: ET.Element, known: frozenset[str]) -> None:
    for attribute in set(element.attrib) - known:
        del element.attrib[attribute]


def _finite(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds > 0


def _time(seconds: float) -> str:
    return f"{seconds if _finite(seconds) else 0.0:.3f}"
