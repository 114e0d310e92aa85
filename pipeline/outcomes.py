"""The one list of outcomes: how JUnit shows each, and what it makes of the exit code.

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

    junit: str
    exit: int
    bisect: int


# README.md says what each means.
RULES: Mapping[Outcome, Rule] = MappingProxyType(
    {
        Outcome.PASSED: Rule(junit="", exit=GOOD, bisect=GOOD),
        Outcome.FAILED: Rule(junit="failure", exit=BAD, bisect=BAD),
        Outcome.BASE_BROKEN: Rule(junit="skipped", exit=GOOD, bisect=SKIP),
        Outcome.KNOWN: Rule(junit="skipped", exit=GOOD, bisect=GOOD),
        Outcome.IDENTICAL: Rule(junit="skipped", exit=GOOD, bisect=GOOD),
        Outcome.INCONCLUSIVE: Rule(junit="skipped", exit=GOOD, bisect=SKIP),
        Outcome.UNSUPPORTED: Rule(junit="skipped", exit=GOOD, bisect=SKIP),
        # Its exit is that of its cause, which is a case of its own.
        Outcome.NOT_RUN: Rule(junit="skipped", exit=GOOD, bisect=SKIP),
        Outcome.ERROR: Rule(junit="error", exit=FAULT, bisect=SKIP),
    }
)

# An identical kernel is proof that the series changes nothing there.
_JUDGED = frozenset({Outcome.PASSED, Outcome.FAILED, Outcome.KNOWN, Outcome.IDENTICAL})


def judged(cases: Iterable[Case]) -> bool:
    """True where at least one case says something of the code on trial."""
    return any(case.on_trial and case.outcome in _JUDGED for case in cases)


def case_exit(case: Case, *, strict: bool = False) -> int:
    """What a case alone asks for as a run's exit code."""
    if strict and case.outcome is Outcome.INCONCLUSIVE:
        return BAD
    return RULES[case.outcome].exit


def case_bisect(case: Case) -> int:
    """What a case alone says of a commit to `git bisect run`.

    What could not be looked at beside the trial (a test that is skipped, a check whose program is
    not here) keeps nobody from judging the commit.
    """
    if case.outcome is Outcome.UNSUPPORTED and not case.on_trial:
        return GOOD
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
