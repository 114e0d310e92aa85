"""The planned cases and their names, which are the same from run to run. Pure.

Per kernel `apply`, and `check NAME` of those that read its patches; per target (architecture,
configuration) and kernel `build`, and of one on trial `warnings`, `check NAME` and `verify`; per
cell and kernel `boot`, `shape` (the guest is what its shape says), `event LABEL`, the workload's
label, `probe NAME` and `trial NAME`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from pipeline import plan as plans
from pipeline import trials
from pipeline.model import CaseId, Cell, KernelPlan, Plan

SHAPE = "shape"  # the source of the step that reads how the guest sees itself


class What(Enum):
    """What a case is about."""

    APPLY = "apply"
    BUILD = "build"
    WARNINGS = "warnings"
    CHECK = "check"
    VERIFY = "verify"
    BOOT = "boot"
    SHAPE = "shape"
    EVENT = "event"
    WORKLOAD = "workload"
    PROBE = "probe"
    TRIAL = "trial"


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A planned case: its name, and what it is about. `source`: workload label, probe, event,
    check or trial.

    `target` is what the kernel is built for; in a cell it is the cell's, as `Cell.target` has it.
    """

    id: CaseId
    what: What
    kernel: KernelPlan
    target: str = ""
    cell: Cell | None = None
    source: str = ""


def slots(plan: Plan) -> tuple[Slot, ...]:
    """Every planned case, in the order of the pipeline, each with a name of its own."""
    taken: dict[CaseId, int] = {}
    return tuple(replace(slot, id=unique(slot.id, taken)) for slot in _slots(plan))


def _slots(plan: Plan) -> Iterator[Slot]:
    scenario = plan.scenario
    for kernel in (each for each in scenario.kernels if not each.of):
        path = (scenario.name, kernel.name)
        yield Slot(id=_id("apply", *path), what=What.APPLY, kernel=kernel)
        for check in plan.patch_checks if kernel.series else ():
            yield Slot(
                id=_id(f"check {check}", *path), what=What.CHECK, kernel=kernel, source=check
            )
    for target, kernel in plans.builds_of(plan):
        yield from _build_slots(plan, target.name, kernel)
    for cell in dict.fromkeys(plan.cells):
        for kernel in (each for each in scenario.kernels if each.boots):
            yield from _cell_slots(plan, cell, kernel)


def _build_slots(plan: Plan, target: str, kernel: KernelPlan) -> Iterator[Slot]:
    path = (plan.scenario.name, *target.split("."), kernel.name)
    about = Slot(id=_id("build", *path), what=What.BUILD, kernel=kernel, target=target)
    yield about
    if plans.below(plan.scenario, kernel) is not None:
        yield replace(about, id=_id("warnings", *path), what=What.WARNINGS)
        for check in plan.scenario.checks:
            if check not in plan.patch_checks:
                yield replace(about, id=_id(f"check {check}", *path), what=What.CHECK, source=check)
    if plan.verify:
        yield replace(about, id=_id("verify", *path), what=What.VERIFY)


def _cell_slots(plan: Plan, cell: Cell, kernel: KernelPlan) -> Iterator[Slot]:
    target = cell.target.split(".")
    path = (plan.scenario.name, *target, cell.guest, cell.workload, kernel.name)
    about = Slot(
        id=_id("boot", *path),
        what=What.BOOT,
        kernel=kernel,
        target=cell.target,
        cell=cell,
    )
    yield about
    yield replace(about, id=_id("shape", *path), what=What.SHAPE, source=SHAPE)
    for event in plans.events_of(plan.scenario, cell, kernel):
        yield replace(
            about, id=_id(f"event {event.label}", *path), what=What.EVENT, source=event.label
        )
    if any(run.label == cell.workload for run in plan.scenario.workloads):
        label = cell.workload
        yield replace(about, id=_id(label, *path), what=What.WORKLOAD, source=label)
    for probe in plans.probes_in(plan.scenario, cell):
        yield replace(about, id=_id(f"probe {probe}", *path), what=What.PROBE, source=probe)
    for trial in trials.in_cell(plan.scenario, cell):
        if any(each == kernel for _, each in trials.pairs(plan.scenario, trial)):
            name = _id(f"trial {trial.name}", *path)
            yield replace(about, id=name, what=What.TRIAL, source=trial.name)


def _id(name: str, *path: str) -> CaseId:
    """Dots separate the parts of a suite: Jenkins splits package and class at them."""
    return CaseId(suite=".".join(map(part, path)), name=part(name))


def part(text: str) -> str:
    """A part of a case's name."""
    return text.replace(".", "_")


def unique(id_: CaseId, taken: dict[CaseId, int]) -> CaseId:
    """Names that differ in their dots alone get a number: GitLab drops a second of one name."""
    count = taken[id_] = taken.get(id_, 0) + 1
    return id_ if count == 1 else unique(replace(id_, name=f"{id_.name} ({count})"), taken)
