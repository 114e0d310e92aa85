"""The tests that a workload reported itself, as a boot's results. Pure, but for the console's file.

They are read from what the workload printed or, of tests that run inside the kernel, from the
console. Beside KTAP a workload may print what it means to run, so that a guest that dies before
a test's turn does not make it vanish, and what it cannot:

    ktrial: planned COLLECTION:TEST
    ktrial: left-out COLLECTION:TEST why

Names are made of parts joined by "/": kselftest's "selftests: timers: nanosleep" becomes
"timers/nanosleep". A name that comes twice (another module, a second run) gets a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import ktap, metrics
from pipeline.ktap import Report, Status
from pipeline.model import Output, Phase, TestResult, WorkloadRun

CONSOLE, BOOT = "console", "boot"  # besides "output", where `WorkloadSpec.ktap` has tests read
MOST_SAID = 400  # characters of a test's diagnostics
MOST_PROBLEMS = 5  # of one document; damage repeats itself
NOTHING = "it reported no tests"

_PLANNED = re.compile(r"^ktrial: planned (\S+)\s*$", re.M)
_LEFT_OUT = re.compile(r"^ktrial: left-out (\S+) ?(.*)$", re.M)
_RUNNER = re.compile(r"^selftests: (?P<collection>\S+): (?P<test>.*)$")


@dataclass(frozen=True, kw_only=True)
class Told:
    """`results` in the order in which the tests were reported, then those that were not.

    `problems`: why there is nothing to judge, worded as `metrics.problem` does. `notes`: what is
    odd about a report whose tests speak for themselves: many of the tree's own count badly.
    """

    results: tuple[TestResult, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def of(
    run: WorkloadRun | None, outputs: Sequence[Output], console: Path, *, off: bool | None = None
) -> Told:
    """The tests of a boot. Nothing where its workload has none, or never had its turn and the
    console is not where they are. `off`: whether the guest powered off when it was asked to;
    None where it came to another end."""
    if run is None or not run.spec.ktap:
        return Told()
    if run.spec.ktap == BOOT:
        return Told(results=(_power_off(off),))
    text = next((each.text for each in outputs if each.phase is Phase.WORKLOAD), None)
    if run.spec.ktap == CONSOLE:
        with console.open("rb") as lines:  # it may have a gigabyte
            return told(run.label, ktap.parse(lines))
    return Told() if text is None else told(run.label, ktap.parse_text(text), text)


def told(label: str, report: Report, text: str = "") -> Told:
    """`text`: where the lines of what is planned and left out are looked for."""
    reported = list(_reported(report))
    names = {result.name for result in reported}
    results = tuple(_unique((*reported, *_unreported(text, names))))
    return Told(
        results=results,
        problems=() if results else (metrics.problem(label, Phase.WORKLOAD, NOTHING),),
        notes=tuple(_notes(label, report)),
    )


def _power_off(off: bool | None) -> TestResult:
    status = Status.NOT_RUN if off is None else Status.PASSED if off else Status.FAILED
    detail = "" if off is not False else "the guest did not power off when it was asked to"
    return TestResult(name="power-off", status=status.value, detail=detail)


def _reported(report: Report) -> Iterator[TestResult]:
    for case in report.cases:
        yield TestResult(
            name="/".join(_parts(case.path)),
            status=case.status.value,
            detail=case.detail or " ".join(case.said)[:MOST_SAID],
        )


def _parts(path: Sequence[str]) -> Iterator[str]:
    for part in path:
        found = _RUNNER.match(part)
        yield from (found["collection"], found["test"]) if found else (part,)


def _unreported(text: str, names: set[str]) -> Iterator[TestResult]:
    """What was left out, and what was planned and neither it nor a part of it was reported."""
    left_out = {_name(word): why.strip() for word, why in _LEFT_OUT.findall(text)}
    for name, why in left_out.items():
        yield TestResult(name=name, status=Status.SKIPPED.value, detail=why)
    begun = names | {"/".join(name.split("/")[:2]) for name in names}
    for name in dict.fromkeys(_name(word) for word in _PLANNED.findall(text)):
        if name not in begun and name not in left_out:
            yield TestResult(name=name, status=Status.NOT_RUN.value, detail="its turn never came")


def _name(word: str) -> str:
    return word.replace(":", "/", 1)


def _unique(results: Iterable[TestResult]) -> Iterator[TestResult]:
    taken: set[str] = set()
    last: dict[str, int] = {}  # the number that a name had last: a run may repeat one 10,000 times
    for result in results:
        name, number = result.name, last.get(result.name, 1)
        while name in taken:
            number += 1
            name = f"{result.name} ({number})"
        taken.add(name)
        last[result.name] = number
        yield TestResult(name=name, status=result.status, detail=result.detail)


def _notes(label: str, report: Report) -> Iterator[str]:
    for text in report.problems[:MOST_PROBLEMS]:
        yield f"{label}: {text}"
    if (more := len(report.problems) - MOST_PROBLEMS) > 0:
        yield f"{label}: {more} more oddities of its report"
