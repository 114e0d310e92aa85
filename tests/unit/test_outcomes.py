"""The table of the issue, and how outcomes add up."""

from __future__ import annotations

import itertools

import pytest

from pipeline import outcomes
from pipeline.model import Case, CaseId, Outcome
from pipeline.settings import shipped_root


def case(outcome: Outcome, *, unjudgeable: bool = False, on_trial: bool = True) -> Case:
    return Case(
        id=CaseId(suite="s", name="n"),
        outcome=outcome,
        unjudgeable=unjudgeable,
        on_trial=on_trial,
    )


TABLE = {
    # outcome: (JUnit, exit, bisect) with a passed case beside it
    Outcome.PASSED: ("", 0, 0),
    Outcome.FAILED: ("failure", 1, 1),
    Outcome.BASE_BROKEN: ("skipped", 0, 125),
    Outcome.KNOWN: ("skipped", 0, 0),
    Outcome.IDENTICAL: ("skipped", 0, 0),
    Outcome.INCONCLUSIVE: ("skipped", 0, 125),
    Outcome.UNSUPPORTED: ("skipped", 0, 125),
    Outcome.NOT_RUN: ("skipped", 0, 125),
    Outcome.ERROR: ("error", 3, 125),
}


def test_every_outcome_has_its_rule() -> None:
    assert set(outcomes.RULES) == set(Outcome) == set(TABLE)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_one_outcome_beside_a_passed_case(outcome: Outcome) -> None:
    junit, code, bisect = TABLE[outcome]
    cases = [case(Outcome.PASSED), case(outcome)]
    assert outcomes.RULES[outcome].junit == junit
    assert outcomes.run_exit(cases) == code
    assert outcomes.bisect_exit(cases) == bisect


def test_not_applying_fails_a_run_but_cannot_be_bisected() -> None:
    cases = [case(Outcome.FAILED, unjudgeable=True), case(Outcome.NOT_RUN)]
    assert outcomes.run_exit(cases) == 1
    assert outcomes.bisect_exit(cases) == 125


def test_what_could_not_be_looked_at_beside_the_trial_keeps_no_commit_from_being_judged() -> None:
    skipped = case(Outcome.UNSUPPORTED, on_trial=False)
    assert outcomes.bisect_exit([case(Outcome.PASSED), skipped]) == 0
    assert outcomes.bisect_exit([case(Outcome.PASSED), case(Outcome.UNSUPPORTED)]) == 125
    assert outcomes.bisect_exit([skipped]) == 125


def test_strict_counts_inconclusive_as_a_failure() -> None:
    cases = [case(Outcome.PASSED), case(Outcome.INCONCLUSIVE)]
    assert outcomes.run_exit(cases, strict=True) == 1


@pytest.mark.parametrize(
    "kinds",
    [
        (),
        (Outcome.BASE_BROKEN,),
        (Outcome.UNSUPPORTED, Outcome.NOT_RUN),
        (Outcome.INCONCLUSIVE,),
        (Outcome.NOT_RUN,),
    ],
)
def test_nothing_judged_is_never_good(kinds: tuple[Outcome, ...]) -> None:
    """… not even where the cases before the trial (base's, the build) have passed."""
    cases = [case(kind) for kind in kinds] + [case(Outcome.PASSED, on_trial=False)]
    for these in (cases, cases[:-1]):
        assert outcomes.run_exit(these) == 3
        assert outcomes.bisect_exit(these) == 125


def test_mixed_one_beats_three_beats_zero() -> None:
    for kinds in itertools.product(Outcome, repeat=3):
        cases = [case(kind) for kind in kinds]
        code, bisect = outcomes.run_exit(cases), outcomes.bisect_exit(cases)
        if Outcome.FAILED in kinds:
            assert (code, bisect) == (1, 1)
        elif Outcome.ERROR in kinds:
            assert (code, bisect) == (3, 125)
        else:
            assert code in {0, 3}
            assert bisect in {0, 125}
            assert (code == 0) >= (bisect == 0), "good for bisect but not for the run"


def readme() -> dict[str, list[str]]:
    """The rows of README.md's table of outcomes: JUnit, exit, --bisect-exit."""
    text = (shipped_root() / "README.md").read_text(encoding="utf-8")
    lines = text[text.index("| Outcome | Means |") :].splitlines()[2:]
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in rows]
    return {name: shown for name, _, *shown in cells}


@pytest.mark.parametrize("outcome", Outcome)
def test_the_readme_says_the_same_of_each_outcome(outcome: Outcome) -> None:
    rule, (junit, code, bisect) = outcomes.RULES[outcome], readme()[outcome.value]
    assert junit.startswith(f"`{rule.junit}`" if rule.junit else "plain case")
    assert code.startswith("as the cause" if outcome is Outcome.NOT_RUN else str(rule.exit))
    assert bisect.startswith(str(rule.bisect))
