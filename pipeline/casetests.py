"""The tests that workloads reported themselves (KTAP), each as a case beside the planned ones. Pure.

Their names are those that any kernel of the cell reported: what base has and the patched kernel
lacks is not run, not gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline import bootnotes, odds
from pipeline import plan as plans
from pipeline.model import (
    BootResult,
    Case,
    CaseId,
    Cell,
    Evidence,
    KernelPlan,
    Outcome,
    Plan,
    Role,
    TestResult,
)

GOOD = frozenset({"passed", "xfail", "todo"})
BAD = frozenset({"failed", "timeout", "error"})
SKIPPED = "skipped"
NOT_RUN = "not-run"


def cases(plan: Plan, evidence: Evidence, *, root: Path | None = None) -> tuple[Case, ...]:
    """A case for each kernel and test, in the order of cells, kernels and tests."""
    counted = [each for each in bootnotes.counted(evidence.boots)]
    return tuple(
        _case(plan, cell, kernel, name, boots, root)
        for cell in dict.fromkeys(plan.cells)
        if (boots := [each for each in counted if each.boot.cell == cell])
        for kernel in plan.scenario.kernels
        if kernel.boots
        for name in _names(boots)
    )


def _names(boots: Sequence[BootResult]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(test.name for boot in boots for test in boot.tests))


def _case(
    plan: Plan,
    cell: Cell,
    kernel: KernelPlan,
    name: str,
    boots: Sequence[BootResult],
    root: Path | None,
) -> Case:
    mine = _results(boots, kernel.name, name)
    outcome, reason = _outcome(plan, kernel, name, boots)
    folder = next((boot.folder for boot in boots if boot.boot.kernel == kernel.name), None)
    shown = next((test.detail for test in mine if test.status in BAD), "")
    return Case(
        id=_id(plan, cell, kernel.name, name),
        outcome=outcome,
        reason=reason,
        detail=shown,
        evidence=_relative(folder, root),
        on_trial=kernel.role is Role.PATCHED,
    )


def _outcome(
    plan: Plan, kernel: KernelPlan, name: str, boots: Sequence[BootResult]
) -> tuple[Outcome, str]:
    mine = _results(boots, kernel.name, name)
    bad = [test for test in mine if test.status in BAD]
    if bad:
        below = plans.below(plan.scenario, kernel)
        return _charged(
            kernel, below, bad, mine, _results(boots, below.name, name) if below else []
        )
    gone = next((test for test in mine if test.status == NOT_RUN), None)
    if gone or not mine:
        return Outcome.NOT_RUN, (gone.detail if gone else "") or "it reported no result"
    skipped = [test for test in mine if test.status == SKIPPED]
    if len(skipped) == len(mine):
        return Outcome.UNSUPPORTED, f"skipped by the test: {skipped[0].detail}".rstrip(": ")
    return Outcome.PASSED, ""


def _charged(
    kernel: KernelPlan,
    below: KernelPlan | None,
    bad: Sequence[TestResult],
    mine: Sequence[TestResult],
    its: Sequence[TestResult],
) -> tuple[Outcome, str]:
    """Whose fault a test is that failed."""
    words = f"{bad[0].status}{f': {bad[0].detail}' if bad[0].detail else ''}"
    if len(mine) > 1:
        words = f"{len(bad)} of {len(mine)} boots: {words}"
    if kernel.role is not Role.PATCHED:
        return Outcome.BASE_BROKEN, f"{kernel.name} is broken: {words}"
    if below is None:
        return Outcome.FAILED, words
    told = [test for test in its if test.status in GOOD | BAD]
    if not told:
        return Outcome.INCONCLUSIVE, f"{words}; {below.name} has no result of it"
    failed = sum(test.status in BAD for test in told)
    if failed == 0 and len(bad) == len(mine):
        return Outcome.FAILED, words
    p = odds.chance(len(bad), len(mine), failed, len(told))
    rates = f"{len(bad)} of {len(mine)} patched, {failed} of {len(told)} {below.name}, p = {p:.2g}"
    if p < odds.ALPHA and len(bad) * len(told) > failed * len(mine):
        return Outcome.FAILED, f"{words}; {rates}"
    if failed:
        return Outcome.BASE_BROKEN, f"{below.name} fails it too: {words}"
    return Outcome.INCONCLUSIVE, f"{words}; {rates}"


def _results(boots: Sequence[BootResult], kernel: str, name: str) -> list[TestResult]:
    """What each boot of a kernel says of a test; of several lines of one name the worst."""
    return list(_worst_of_each(boots, kernel, name))


def _worst_of_each(boots: Sequence[BootResult], kernel: str, name: str) -> Iterator[TestResult]:
    for boot in boots:
        if boot.boot.kernel == kernel:
            these = [test for test in boot.tests if test.name == name]
            if these:
                yield max(these, key=_badness)


def _badness(test: TestResult) -> int:
    order = (*sorted(GOOD), SKIPPED, NOT_RUN, *sorted(BAD))
    return order.index(test.status) if test.status in order else len(order)


def _id(plan: Plan, cell: Cell, kernel: str, name: str) -> CaseId:
    """Dots separate the parts of a suite, so that those of a name become underscores."""
    path = (plan.scenario.name, *cell.target.split("."), cell.guest, cell.workload, kernel)
    *outer, last = (part.replace(".", "_") for part in name.split("/"))
    places = [part.replace(".", "_") for part in path]
    return CaseId(suite=".".join([*places, *outer]), name=last)


def _relative(folder: Path | None, root: Path | None) -> str:
    if folder is None:
        return ""
    return str(folder.relative_to(root)) if root and folder.is_relative_to(root) else str(folder)
