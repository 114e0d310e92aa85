"""The verdict: for each planned case an outcome, the reason, and where the evidence lies. Pure.

`observation` says what was seen of a case; here it is decided whom that is charged to. A case
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
- With nothing below (`--rev HEAD`), a fault is the tree's own, hence a failure.
- What needs something that failed is not run, and names it.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.bootview import Fault, Observation, State
from pipeline.model import Case, CaseId, Evidence, KernelPlan, Outcome, Plan, Revision, Role
from pipeline.observation import Witness
from pipeline.slots import Slot, What, slots

LONG_ENOUGH = 10.0  # times of what a workload took on base: more than a busy host's doing
_LOADED = (
    "a busy host alone can bring that about under TCG: "
    "it counts where it comes in every boot, of at least two (--boots 5), and without a base only "
    "in boots that had the host to themselves (--exclusive always)"
)
_NO_SSH = (
    "answered over ssh in the same cell, so the series may have broken the network or sshd: "
    "--transport console runs the same steps without a network"
)
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
        return all(cell.target != slot.target for cell in plan.cells)
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
        outcome = _PLAIN[observed.state]
        reason = observed.reason + _no_ssh(slot, observed, bench, seen, witness.plan)
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
    if slot.what is What.APPLY:
        return Outcome.FAILED, observed.reason
    below = reference(slot.kernel, witness.plan)
    there = _beside(slot, below, bench)
    known = {fault.key for each in there for fault in seen[each.id].faults}
    if slot.cell and below:
        known |= witness.findings(slot.cell, below.name)
    new = [fault for fault in observed.faults if fault.key not in known]
    if below and not new:
        return Outcome.BASE_BROKEN, f"{_name(below)} is broken too: {observed.reason}"
    twin = seen[_twin(slot, there).id] if below else None
    doubts = [(fault, _doubt(slot, fault, observed, twin, witness)) for fault in new]
    for fault, doubt in doubts:
        if not doubt:
            return Outcome.FAILED, fault.text
    fault, doubt = doubts[0]
    return Outcome.INCONCLUSIVE, f"{fault.text}; {doubt}"


def _beside(slot: Slot, below: KernelPlan | None, bench: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """The cases of the kernel below in the same place."""
    place = slot.cell, slot.target
    return tuple(
        each for each in bench if each.kernel == below and (each.cell, each.target) == place
    )


def _twin(slot: Slot, there: tuple[Slot, ...]) -> Slot:
    """The same case of the kernel below."""
    about = slot.what, slot.source
    return next(each for each in there if (each.what, each.source) == about)


def _doubt(
    slot: Slot, fault: Fault, observed: Observation, twin: Observation | None, witness: Witness
) -> str:
    """Why a fault cannot be charged, or ""; `twin` is the same case of the kernel below."""
    below = reference(slot.kernel, witness.plan)
    if below and twin and not _tells(slot, fault, observed, twin, witness.evidence):
        return f"cannot be held against {_name(below)}: {twin.short or twin.reason}"
    return _LOADED if fault.by_load and not _beyond_load(fault, twin) else ""


def _beyond_load(fault: Fault, twin: Observation | None) -> bool:
    """Whether more than a busy host must be behind a fault."""
    if fault.shared and twin is None:
        return False  # base would have been as busy; without one there is only our own doing
    if fault.boots == fault.of >= 2:
        return True
    if fault.kind != "timeout":
        return False
    if twin is None:
        return True
    return twin.state is State.GOOD and fault.waited >= LONG_ENOUGH * twin.seconds


def _tells(
    slot: Slot, fault: Fault, observed: Observation, below: Observation, evidence: Evidence
) -> bool:
    """Whether the kernel below got far enough to say that this fault is not its own.

    Of a build only the first error is known, and with `make -j` it is any of several: where
    base does not build either, another error is the series' only in a file that it changes.
    """
    if below.state not in {State.GOOD, State.FAULTY}:
        return False
    if slot.what is What.BUILD:
        return below.state is State.GOOD or fault.file in _touched(slot.kernel, evidence)
    if not below.short:
        return True
    if below.state is State.GOOD:  # it got past the boot, and not to the end of its steps
        return fault.fatal
    fatal = {each.key for each in below.faults if each.fatal}
    return not fault.fatal and bool(fatal) and fatal <= {each.key for each in observed.faults}


def _no_ssh(
    slot: Slot,
    observed: Observation,
    bench: tuple[Slot, ...],
    seen: dict[CaseId, Observation],
    plan: Plan,
) -> str:
    """What to do where ssh does not reach a patched guest that lives, and reaches base's."""
    below = reference(slot.kernel, plan) if slot.kernel.role is Role.PATCHED else None
    if not (observed.no_ssh and below):
        return ""
    twin = seen[_twin(slot, _beside(slot, below, bench)).id]
    answered = twin.state in {State.GOOD, State.FAULTY} and not twin.short
    return f"; {_name(below)} {_NO_SSH}" if answered else ""


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
