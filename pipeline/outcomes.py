"""The one list of outcomes: what each means, how JUnit shows it, what it makes of the exit code.

Everything that has to decide on an outcome (JUnit, summary, exit code, `git bisect run`)
asks this table; nobody else tells outcomes apart by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pipeline.model import Case, Outcome

GOOD = 0
BAD = 1
FAULT = 3
SKIP = 125  # `git bisect run`: this commit cannot be judged


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One row of the table. `junit`: element below <testcase>, "" for none."""

    means: str
    junit: str
    exit: int
    bisect: int


RULES: Mapping[Outcome, Rule] = MappingProxyType(
    {
        Outcome.PASSED: Rule(means="", junit="", exit=GOOD, bisect=GOOD),
        Outcome.FAILED: Rule(
            means="charged to the series: does not apply, does not build, crashes, test fails",
            junit="failure",
            exit=BAD,
            bisect=BAD,
        ),
        Outcome.BASE_BROKEN: Rule(
            means="the same fault without the series", junit="skipped", exit=GOOD, bisect=SKIP
        ),
        Outcome.KNOWN: Rule(
            means="in the known-issues file", junit="skipped", exit=GOOD, bisect=GOOD
        ),
        Outcome.INCONCLUSIVE: Rule(
            means="a trial that could not tell", junit="skipped", exit=GOOD, bisect=SKIP
        ),
        Outcome.UNSUPPORTED: Rule(
            means="this host, QEMU or kernel cannot", junit="skipped", exit=GOOD, bisect=SKIP
        ),
        # Its exit is that of its cause, which is a case of its own.
        Outcome.NOT_RUN: Rule(
            means="a prerequisite failed", junit="skipped", exit=GOOD, bisect=SKIP
        ),
        Outcome.ERROR: Rule(
            means="harness or host, or the run was cut", junit="error", exit=FAULT, bisect=SKIP
        ),
    }
)

_JUDGED = frozenset({Outcome.PASSED, Outcome.FAILED, Outcome.KNOWN})


def judged(cases: Iterable[Case]) -> bool:
    """True where at least one case says something of the code on trial."""
    return any(case.on_trial and case.outcome in _JUDGED for case in cases)


def case_exit(case: Case, *, strict: bool = False) -> int:
    if strict and case.outcome is Outcome.INCONCLUSIVE:
        return BAD
    return RULES[case.outcome].exit


def case_bisect(case: Case) -> int:
    return SKIP if case.unjudgeable else RULES[case.outcome].bisect


def run_exit(cases: Iterable[Case], strict: bool = False) -> int:
    """Exit code of a run: 1 beats 3 beats 0; a run in which nothing was judged is never 0."""
    cases = tuple(cases)
    exits = {case_exit(case, strict=strict) for case in cases}
    if BAD in exits:
        return BAD
    return GOOD if exits == {GOOD} and judged(cases) else FAULT


def bisect_exit(cases: Iterable[Case]) -> int:
    """Exit code for `git bisect run`: 1 beats 125 beats 0; no judged case is 125."""
    cases = tuple(cases)
    exits = {case_bisect(case) for case in cases}
    if BAD in exits:
        return BAD
    return GOOD if exits == {GOOD} and judged(cases) else SKIP
