"""The verdict: for each planned case an outcome, the reason, and where the evidence lies. Pure.

`observation` says what was seen of a case; `charge` decides whom a fault is charged to. A case
starts as not run, passes only on evidence, and fails only where the code on trial did wrong what
the kernel below it did right:

- A fault of the harness or the host is an error, never a failure.
- A fault of a patched kernel that the kernel below it has too (same kind and title, or the same
  build error) is base's. The kernel below is the nearest one that is not on trial: a
  prerequisite's own faults count like those of base.
- A fault that could not be looked for below (base has another fault in an earlier step, or one
  in this step that no boot of it got past, or the host failed) is inconclusive: it may be the
  series' or not. A complaint of a kernel that then came to the same end as base is the series'.
- What a busy host alone can bring about under TCG (a stall that the kernel survives, a workload
  without end) is charged where it comes in every boot of that kernel in the cell, of at least
  two, and where there is no base only of boots that had the host to themselves; a workload
  without end also where it was given 10 times of what base took, or where there is no base. Else
  it is inconclusive. A guest that never gets ready is charged at once.
- A fault that came on some boots only is charged where that is more than chance (`odds`), else it
  is inconclusive, and the reason says how many boots would tell. Boots that their host lost tell
  nothing, neither of the kernel on trial nor of the one below.
- What is a known issue, or what the scenario expects, is known, unless there is something new too.
- With nothing below (`--rev HEAD`), a fault is the tree's own, hence a failure.
- What needs something that failed is not run, and names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline import casetests
from pipeline import plan as plans
from pipeline.bootview import State
from pipeline.charge import Bench
from pipeline.model import Case, CaseId, Cell, Evidence, Outcome, Plan, Role
from pipeline.observation import Witness
from pipeline.slots import Slot, What, slots

_PLAIN = {
    State.GOOD: Outcome.PASSED,
    State.HARNESS: Outcome.ERROR,
    State.CUT: Outcome.ERROR,
    State.BLOCKED: Outcome.NOT_RUN,
    State.UNSUPPORTED: Outcome.UNSUPPORTED,
    State.UNCLEAR: Outcome.INCONCLUSIVE,
    State.IDENTICAL: Outcome.IDENTICAL,
}


def planned(plan: Plan) -> tuple[CaseId, ...]:
    """The names of all cases that are known before anything is done; `judge` has each of them."""
    return tuple(slot.id for slot in slots(plan))


def judge(plan: Plan, evidence: Evidence, *, root: Path | None = None) -> tuple[Case, ...]:
    """The case of each planned name, in plan order, and behind them those of the tests that
    workloads reported.

    `root` is the run's folder: evidence below it is named relative to it.
    """
    witness = Witness(plan, evidence)
    every = slots(plan)
    seen = {slot.id: witness.observe(slot) for slot in every}
    bench = Bench(witness=witness, slots=every, seen=seen)
    tests = casetests.cases(plan, evidence, taken=seen, root=root)
    by_place: dict[tuple[Cell | None, str], list[Case]] = {}
    for test in tests:
        by_place.setdefault((test.cell, test.kernel), []).append(test.case)
    cases = (
        _with_tests(slot, _case(slot, bench, root), by_place.get((slot.cell, slot.kernel.name), ()))
        for slot in every
    )
    return (*cases, *(test.case for test in tests))


def on_trial(slot: Slot, plan: Plan) -> bool:
    """Whether passing says something of the series: the last thing that is tried with it.

    A series without new warnings whose kernels could not be booted has not been tried.
    """
    if slot.kernel.role is not Role.PATCHED:
        return False
    if slot.cell is None and not slot.target:
        return not (plan.cells or plan.scenario.architectures)
    if slot.cell is None:
        return all(
            plans.target_of(cell.built_for, slot.kernel).name != slot.target for cell in plan.cells
        )
    return True


def _with_tests(slot: Slot, case: Case, its: Sequence[Case]) -> Case:
    """A workload has failed where a test of it is charged to the series."""
    if slot.what is not What.WORKLOAD or case.outcome is not Outcome.PASSED:
        return case
    failed = [each for each in its if each.outcome is Outcome.FAILED]
    if not failed:
        return case
    reason = f"{len(failed)} of {len(its)} tests: {failed[0].id.name}: {failed[0].reason}"
    return replace(case, outcome=Outcome.FAILED, reason=reason)


def _case(slot: Slot, bench: Bench, root: Path | None) -> Case:
    observed = bench.seen[slot.id]
    if observed.state is State.FAULTY:
        outcome, reason = bench.charge(slot)
    else:
        outcome, reason = _PLAIN[observed.state], observed.reason + bench.no_ssh(slot)
    return Case(
        id=slot.id,
        outcome=outcome,
        reason=reason,
        evidence=_relative(observed.evidence, root),
        detail=observed.detail,
        seconds=observed.seconds,
        unjudgeable=outcome is Outcome.FAILED and slot.what in {What.APPLY, What.BUILD},
        on_trial=on_trial(slot, bench.witness.plan),
    )


def _relative(path: str, root: Path | None) -> str:
    if path and root and Path(path).is_relative_to(root):
        return str(Path(path).relative_to(root))
    return path
