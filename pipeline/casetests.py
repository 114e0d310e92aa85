"""The tests that workloads reported (KTAP), each as a case beside the planned ones. Pure.

Their names are those that any kernel of the cell reported: what base has and the patched kernel
lacks is not run, not gone. A test passes where it did in each boot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from pipeline import odds
from pipeline import plan as plans
from pipeline.attempts import counted
from pipeline.bootview import FAILS, PASSES, SKIPPED
from pipeline.model import (
    BootResult,
    Case,
    CaseId,
    Cell,
    Comparison,
    Evidence,
    KernelPlan,
    Outcome,
    Plan,
    Role,
    Stop,
    TestResult,
)
from pipeline.observation import IDENTICAL
from pipeline.slots import part, unique

NOT_RUN = "not-run"
# Of several lines of one name the worst counts; a status of which nobody knows is worse.
_BADNESS = {
    status: n for n, status in enumerate((*sorted(PASSES), SKIPPED, NOT_RUN, *sorted(FAILS)))
}


@dataclass(frozen=True, kw_only=True)
class Told:
    """The case of a test, and where it was run."""

    cell: Cell
    kernel: str
    case: Case


@dataclass(frozen=True)
class _Boot:
    """What one boot says of each test."""

    result: BootResult

    @cached_property
    def tests(self) -> Mapping[str, TestResult]:
        worst: dict[str, TestResult] = {}
        for test in self.result.tests:
            if test.name not in worst or _badness(test) > _badness(worst[test.name]):
                worst[test.name] = test
        return worst

    def of(self, name: str) -> TestResult:
        """… where a host in trouble makes tests fail: nothing of it is charged."""
        found = self.tests.get(name)
        if found is None:
            return TestResult(name=name, status=NOT_RUN, detail=self._why_none())
        if found.status not in _BADNESS:
            return replace(found, status=NOT_RUN, detail=f"its result is “{found.status}”")
        if found.status in FAILS and self.result.stop in {Stop.INFRA, Stop.CUT}:
            return replace(found, status=NOT_RUN, detail=self._why_none())
        return found

    @property
    def whole(self) -> bool:
        return self.result.stop is Stop.COMPLETED and bool(self.tests)

    def _why_none(self) -> str:
        if self.result.stop is Stop.COMPLETED:
            return ""
        return f"{self.result.stop.value}: {self.result.reason}".rstrip(": ")


def cases(
    plan: Plan, evidence: Evidence, *, taken: Iterable[CaseId] = (), root: Path | None = None
) -> tuple[Told, ...]:
    """A case for each kernel and test, in the order of cells, kernels and tests.

    `taken`: names of other cases, which none of these is to have.
    """
    names = dict.fromkeys(taken, 1)
    return tuple(
        replace(told, case=replace(told.case, id=unique(told.case.id, names)))
        for told in _cases(plan, evidence, root)
    )


def _cases(plan: Plan, evidence: Evidence, root: Path | None) -> Iterator[Told]:
    planned = set(plan.boots)
    found: dict[tuple[Cell, str], list[_Boot]] = {}
    for result in sorted(counted(evidence.boots), key=lambda each: each.boot.block):
        if replace(result.boot, boot=0) in planned:
            found.setdefault((result.boot.cell, result.boot.kernel), []).append(_Boot(result))
    kernels = [kernel for kernel in plan.scenario.kernels if kernel.boots]
    for cell in dict.fromkeys(plan.cells):
        boots = {kernel.name: found.get((cell, kernel.name), []) for kernel in kernels}
        names = dict.fromkeys(n for its in boots.values() for boot in its for n in boot.tests)
        for kernel in kernels:
            same = evidence.comparisons.get(
                (plans.target_of(cell.built_for, kernel).name, kernel.name)
            )
            for name in names:
                case = _case(plan, kernel, name, boots, same)
                id_ = _id(plan, cell, kernel.name, name)
                case = replace(case, id=id_, evidence=_relative(case.evidence, root))
                yield Told(cell=cell, kernel=kernel.name, case=case)


def _case(
    plan: Plan,
    kernel: KernelPlan,
    name: str,
    boots: Mapping[str, Sequence[_Boot]],
    same: Comparison | None,
) -> Case:
    """The case, still without its name."""
    mine = boots[kernel.name]
    results = [boot.of(name) for boot in mine]
    if same and same.identical:
        outcome, reason = Outcome.IDENTICAL, IDENTICAL.format(same.below)
    else:
        outcome, reason = _outcome(plan, kernel, name, boots, results)
    told = [n for n, test in enumerate(results) if test.status in FAILS]
    shown = told[0] if told else 0
    return Case(
        id=CaseId(suite="", name=name),
        outcome=outcome,
        reason=reason,
        detail=results[shown].detail if told else "",
        evidence=str(mine[shown].result.folder) if mine else "",
        # One that is skipped says nothing of the series, nor that it cannot be judged.
        on_trial=kernel.role is Role.PATCHED and outcome is not Outcome.UNSUPPORTED,
    )


def _outcome(
    plan: Plan,
    kernel: KernelPlan,
    name: str,
    boots: Mapping[str, Sequence[_Boot]],
    mine: Sequence[TestResult],
) -> tuple[Outcome, str]:
    if any(test.status in FAILS for test in mine):
        below = plans.below(plan.scenario, kernel)
        its = [boot.of(name) for boot in boots[below.name]] if below else []
        return _charged(kernel, below, mine, its)
    gone = [test for test in mine if test.status == NOT_RUN]
    if gone or not mine:
        if kernel.role is not Role.PATCHED and _never_had(name, boots[kernel.name]):
            return Outcome.UNSUPPORTED, f"{kernel.name} has no such test"
        reason = (gone[0].detail if gone else "") or "it reported no result"
        return Outcome.NOT_RUN, _count(len(gone), len(mine)) + reason
    skipped = [test for test in mine if test.status == SKIPPED]
    if len(skipped) == len(mine):
        return Outcome.UNSUPPORTED, f"skipped by the test: {skipped[0].detail}".rstrip(": ")
    return Outcome.PASSED, ""


def _never_had(name: str, boots: Sequence[_Boot]) -> bool:
    """Whether a kernel has no such test: the series may have added it."""
    return bool(boots) and all(boot.whole and name not in boot.tests for boot in boots)


def _charged(
    kernel: KernelPlan,
    below: KernelPlan | None,
    mine: Sequence[TestResult],
    its: Sequence[TestResult],
) -> tuple[Outcome, str]:
    """Whose fault a test is that failed."""
    bad = [test for test in mine if test.status in FAILS]
    told = [test for test in mine if test.status in PASSES | FAILS]
    words = f"{bad[0].status}{f': {bad[0].detail}' if bad[0].detail else ''}"
    words = _count(len(bad), len(mine)) + words
    if kernel.role is not Role.PATCHED:
        return Outcome.BASE_BROKEN, f"{kernel.name} is broken: {words}"
    if below is None:
        return Outcome.FAILED, words
    there = [test for test in its if test.status in PASSES | FAILS]
    if not there:
        return Outcome.INCONCLUSIVE, f"{words}; {below.name} has no result of it"
    failed = sum(test.status in FAILS for test in there)
    if failed == 0 and len(bad) == len(told):
        return Outcome.FAILED, words
    return _by_rate(
        odds.Rates(patched=len(bad), of=len(told), base=failed, of_base=len(there)),
        below.name,
        words,
    )


def _by_rate(rates: odds.Rates, below: str, words: str) -> tuple[Outcome, str]:
    """… where it failed in some boots only, or below too."""
    shown = f"; {rates.words(below)}" if rates.of > 1 else ""
    if rates.more_often:
        return Outcome.FAILED, words + shown
    if rates.base:
        return Outcome.BASE_BROKEN, f"{below} fails it too: {words}{shown}"
    return Outcome.INCONCLUSIVE, f"{words}{shown}: {rates.needed}"


def _count(count: int, all_: int) -> str:
    return f"{count} of {all_} boots: " if all_ > 1 else ""


def _badness(test: TestResult) -> int:
    return _BADNESS.get(test.status, len(_BADNESS))


def _id(plan: Plan, cell: Cell, kernel: str, name: str) -> CaseId:
    """Dots separate the parts of a suite, so that those of a name become underscores."""
    path = (plan.scenario.name, *cell.target.split("."), cell.guest, cell.workload, kernel)
    *outer, last = (each or "unnamed" for each in name.split("/"))
    return CaseId(suite=".".join(map(part, (*path, *outer))), name=part(last))


@cache
def _relative(folder: str, root: Path | None) -> str:
    inside = bool(folder) and root is not None and Path(folder).is_relative_to(root)
    return str(Path(folder).relative_to(root)) if inside and root else folder
