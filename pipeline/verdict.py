"""The verdict: for each planned case an outcome, the reason, and where the evidence lies. Pure.

`observation` says what was seen of a case; here it is decided whom that is charged to. A case
starts as not run, passes only on evidence, and fails only where the code on trial did wrong what
the kernel below it did right:

- A fault of the harness or the host is an error, never a failure.
- A fault of a patched kernel that the kernel below it has too (same kind and title, or the same
  build error) is base's. The kernel below is the nearest one that is not on trial: a
  prerequisite's own faults count like those of base.
- A fault that could not be looked for below (base has another fault in an earlier step, or the
  host failed) is inconclusive: it may be the series' or not.
- With nothing below (`--rev HEAD`), a fault is the tree's own, hence a failure.
- What needs something that failed is not run, and names it.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.bootview import Fault, Observation, State
from pipeline.model import Case, CaseId, Evidence, KernelPlan, Outcome, Plan, Revision, Role
from pipeline.observation import Witness
from pipeline.slots import Slot, What, slots

_PLAIN = {
    State.GOOD: Outcome.PASSED,
    State.HARNESS: Outcome.ERROR,
    State.CUT: Outcome.ERROR,
    State.BLOCKED: Outcome.NOT_RUN,
    State.UNSUPPORTED: Outcome.UNSUPPORTED,
}


def planned(plan: Plan) -> tuple[CaseId, ...]:
    """The names of all cases, known before anything is done; `judge` returns exactly these."""
    return tuple(slot.id for slot in slots(plan))


def judge(plan: Plan, evidence: Evidence, *, root: Path | None = None) -> tuple[Case, ...]:
    """The case of each planned name, in plan order.

    `root` is the run's folder: evidence below it is named relative to it.
    """
    bench = slots(plan)
    witness = Witness(plan, evidence)
    seen = {slot.id: witness.observe(slot) for slot in bench}
    return tuple(_case(slot, bench, seen, witness, root) for slot in bench)


def reference(kernel: KernelPlan, plan: Plan) -> KernelPlan | None:
    """The kernel that a patched one is held against: the nearest below that is not on trial."""
    kernels = {each.name: each for each in plan.scenario.kernels}
    below = kernels.get(kernel.on or "")
    if below:
        return reference(below, plan) if below.role is Role.PATCHED else below
    bases = (each for each in kernels.values() if each.role is Role.BASE and each != kernel)
    return next(bases, None)


def on_trial(slot: Slot, plan: Plan) -> bool:
    """Whether passing says something of the series: the last thing that is tried with it."""
    if slot.kernel.role is not Role.PATCHED:
        return False
    if slot.what is What.APPLY:
        return not (plan.cells or plan.scenario.architectures)
    if slot.what is What.BUILD:
        return all(cell.architecture != slot.architecture for cell in plan.cells)
    return True


def _case(
    slot: Slot,
    bench: tuple[Slot, ...],
    seen: dict[CaseId, Observation],
    witness: Witness,
    root: Path | None,
) -> Case:
    observed = seen[slot.id]
    if observed.state is State.FAULTY:
        outcome, reason = _charge(slot, observed, bench, seen, witness)
    else:
        outcome, reason = _PLAIN[observed.state], observed.reason
    return Case(
        id=slot.id,
        outcome=outcome,
        reason=reason,
        evidence=_relative(observed.evidence, root),
        detail=observed.detail,
        seconds=observed.seconds,
        unjudgeable=outcome is Outcome.FAILED and slot.what in {What.APPLY, What.BUILD},
        on_trial=on_trial(slot, witness.plan),
    )


def _charge(
    slot: Slot,
    observed: Observation,
    bench: tuple[Slot, ...],
    seen: dict[CaseId, Observation],
    witness: Witness,
) -> tuple[Outcome, str]:
    """Whose fault it is, and the reason in one line."""
    if slot.kernel.role is Role.BASE:
        return Outcome.BASE_BROKEN, f"base is broken: {observed.reason}"
    if slot.kernel.role is Role.PREREQUISITE:
        reason = f"prerequisite “{slot.kernel.name}” is broken: {observed.reason}"
        return Outcome.BASE_BROKEN, reason
    below = reference(slot.kernel, witness.plan)
    if below is None or slot.what is What.APPLY:
        return Outcome.FAILED, observed.reason
    there = {
        each.id: each
        for each in bench
        if each.kernel == below and (each.cell, each.architecture) == (slot.cell, slot.architecture)
    }
    known = {fault.key for id_ in there for fault in seen[id_].faults}
    if slot.cell:
        known |= witness.findings(slot.cell, below.name)
    new = [fault for fault in observed.faults if fault.key not in known]
    if not new:
        return Outcome.BASE_BROKEN, f"{_name(below)} is broken too: {observed.reason}"
    twin = next(
        id_ for id_, each in there.items() if (each.what, each.source) == (slot.what, slot.source)
    )
    if _tells(slot, new[0], seen[twin], witness.evidence):
        return Outcome.FAILED, new[0].text
    return (
        Outcome.INCONCLUSIVE,
        f"{new[0].text}; cannot be held against {_name(below)}: {seen[twin].reason}",
    )


def _tells(slot: Slot, fault: Fault, below: Observation, evidence: Evidence) -> bool:
    """Whether the kernel below got far enough to say that this fault is not its own.

    Of a build only the first error is known, and with `make -j` it is any of several: where
    base does not build either, another error is the series' only in a file that it changes.
    """
    if below.state is State.GOOD:
        return True
    if slot.what is What.BUILD:
        return below.state is State.FAULTY and fault.file in _touched(slot.kernel, evidence)
    return below.state is State.FAULTY


def _touched(kernel: KernelPlan, evidence: Evidence) -> set[str]:
    revision = evidence.revisions.get(kernel.name)
    files = set(revision.files_changed) if isinstance(revision, Revision) else set()
    patches = kernel.series.patches if kernel.series else ()
    return files.union(*(patch.files for patch in patches))


def _name(kernel: KernelPlan) -> str:
    return "base" if kernel.role is Role.BASE else f"prerequisite “{kernel.name}”"


def _relative(path: str, root: Path | None) -> str:
    if path and root and Path(path).is_relative_to(root):
        return str(Path(path).relative_to(root))
    return path
