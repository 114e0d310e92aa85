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
- A fault that came on some boots only is charged where that is more than chance (`odds`), else it
  is inconclusive, and the reason says how many boots would tell.
- What is a known issue, or what the scenario expects, is known, unless there is something new too.
- With nothing below (`--rev HEAD`), a fault is the tree's own, hence a failure.
- What needs something that failed is not run, and names it.
"""

from __future__ import annotations

from pathlib import Path

from pipeline import casetests, odds
from pipeline import plan as plans
from pipeline.bootview import Fault, Observation, State
from pipeline.model import (
    Case,
    CaseId,
    Cell,
    Evidence,
    KernelPlan,
    Outcome,
    Plan,
    Revision,
    Role,
)
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
    State.UNCLEAR: Outcome.INCONCLUSIVE,
    State.IDENTICAL: Outcome.IDENTICAL,
}
# What is held against the kernel below where it is observed.
_AGAINST_BELOW = {What.WARNINGS, What.CHECK, What.TRIAL}


def planned(plan: Plan) -> tuple[CaseId, ...]:
    """The names of all cases, known before anything is done; `judge` returns exactly these."""
    return tuple(slot.id for slot in slots(plan))


def judge(plan: Plan, evidence: Evidence, *, root: Path | None = None) -> tuple[Case, ...]:
    """The case of each planned name, in plan order, and behind them those of the tests that
    workloads reported.

    `root` is the run's folder: evidence below it is named relative to it.
    """
    bench = slots(plan)
    witness = Witness(plan, evidence)
    seen = {slot.id: witness.observe(slot) for slot in bench}
    cases = tuple(_case(slot, bench, seen, witness, root) for slot in bench)
    return (*cases, *casetests.cases(plan, evidence, root=root))


def on_trial(slot: Slot, plan: Plan) -> bool:
    """Whether passing says something of the series: the last thing that is tried with it."""
    if slot.kernel.role is not Role.PATCHED:
        return False
    if slot.what is What.APPLY:
        return not (plan.cells or plan.scenario.architectures)
    if slot.what in {What.BUILD, What.VERIFY}:
        return all(
            plans.target_of(cell.built_for, slot.kernel).name != slot.target for cell in plan.cells
        )
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
    if all(fault.known for fault in observed.faults):
        return Outcome.KNOWN, f"{observed.faults[0].known}: {observed.reason}"
    if slot.kernel.role is Role.BASE:
        return Outcome.BASE_BROKEN, f"base is broken: {observed.reason}"
    if slot.kernel.role is Role.PREREQUISITE:
        reason = f"prerequisite “{slot.kernel.name}” is broken: {observed.reason}"
        return Outcome.BASE_BROKEN, reason
    if slot.what is What.APPLY or slot.what in _AGAINST_BELOW:
        return Outcome.FAILED, observed.reason
    below = plans.below(witness.plan.scenario, slot.kernel)
    there = _beside(slot, below, bench)
    known = {fault.key for each in there for fault in seen[each.id].faults}
    if slot.cell and below:
        known |= witness.findings(slot.cell, below.name)
    new = [fault for fault in observed.faults if fault.key not in known and not fault.known]
    if below and not new:
        if more := _more_often(slot, observed, below, witness):
            return Outcome.FAILED, more
        return Outcome.BASE_BROKEN, f"{_name(below)} is broken too: {observed.reason}"
    same = _twin(slot, there) if below else None
    twin = seen[same.id] if same else None
    doubts = [(fault, _doubt(slot, fault, observed, twin, witness)) for fault in new]
    for fault, doubt in doubts:
        if not doubt:
            return Outcome.FAILED, fault.text + _with_odds(slot, fault, below, witness)
    fault, doubt = doubts[0]
    return Outcome.INCONCLUSIVE, f"{fault.text}; {doubt}"


def _beside(slot: Slot, below: KernelPlan | None, bench: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """The cases of the kernel below in the same place."""
    place = slot.cell, slot.target
    return tuple(
        each for each in bench if each.kernel == below and (each.cell, each.target) == place
    )


def _twin(slot: Slot, there: tuple[Slot, ...]) -> Slot | None:
    """The same case of the kernel below; None where that is not built for this target."""
    about = slot.what, slot.source
    return next((each for each in there if (each.what, each.source) == about), None)


# --------------------------------------------------------------------------- on some boots only


def _with_odds(slot: Slot, fault: Fault, below: KernelPlan | None, witness: Witness) -> str:
    """How often a fault came on either side, where it did not come on every boot."""
    if slot.cell is None or below is None or fault.boots == fault.of:
        return ""
    return f"; {_odds(slot.cell, fault, below, witness)[1]}"


def _odds(cell: Cell, fault: Fault, below: KernelPlan, witness: Witness) -> tuple[float, str]:
    """The chance of such a difference, and both rates in words."""
    base, of_base = witness.often(cell, below.name, fault.key)
    p = odds.chance(fault.boots, fault.of, base, of_base)
    rates = f"{fault.boots} of {fault.of} patched, {base} of {of_base} {_name(below)}"
    return p, f"{rates}, p = {p:.2g} (Fisher's exact test)"


def _more_often(slot: Slot, observed: Observation, below: KernelPlan, witness: Witness) -> str:
    """What the kernel below has too, but less often, by more than chance; "" where nothing is."""
    for fault in observed.faults if slot.cell else ():
        assert slot.cell is not None
        base, of_base = witness.often(slot.cell, below.name, fault.key)
        p, words = _odds(slot.cell, fault, below, witness)
        if of_base and fault.boots * of_base > base * fault.of and p < odds.ALPHA:
            return f"{fault.text}; more often than below: {words}"
    return ""


def _by_chance(slot: Slot, fault: Fault, below: KernelPlan | None, witness: Witness) -> str:
    """Why a fault that came on some boots only may be chance, or ""."""
    if slot.cell is None or below is None or fault.boots == fault.of:
        return ""
    p, words = _odds(slot.cell, fault, below, witness)
    if p < odds.ALPHA:
        return ""
    rate = fault.boots / fault.of
    needed = odds.boots_for(rate)
    return f"{words}: to find a fault that comes so often takes {needed} boots of each " + (
        f"(--odds {rate:.2g})" if needed < odds.MOST else "or more"
    )


def _doubt(
    slot: Slot, fault: Fault, observed: Observation, twin: Observation | None, witness: Witness
) -> str:
    """Why a fault cannot be charged, or ""; `twin` is the same case of the kernel below."""
    below = plans.below(witness.plan.scenario, slot.kernel)
    if below and twin and not _tells(slot, fault, observed, twin, witness.evidence):
        return f"cannot be held against {_name(below)}: {twin.short or twin.reason}"
    if fault.by_load and not _beyond_load(fault, twin):
        return _LOADED
    return _by_chance(slot, fault, below, witness)


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
    below = plans.below(plan.scenario, slot.kernel)
    same = _twin(slot, _beside(slot, below, bench)) if observed.no_ssh else None
    if same is None or below is None:
        return ""
    twin = seen[same.id]
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
