"""The planned cases and their names, which are the same from run to run. Pure.

Per kernel `apply`; per target (architecture, configuration) and kernel `build`; per cell and
kernel `boot`, `shape` (the guest is what its shape says), `event LABEL`, the workload's label,
and `probe NAME`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from pipeline.model import CaseId, Cell, KernelPlan, Plan

SHAPE = "shape"  # the source of the step that reads how the guest sees itself


class What(Enum):
    """What a case is about."""

    APPLY = "apply"
    BUILD = "build"
    BOOT = "boot"
    SHAPE = "shape"
    EVENT = "event"
    WORKLOAD = "workload"
    PROBE = "probe"


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A planned case: its name, and what it is about. `source`: workload label, probe or event.

    `target` is what the kernel is built for, as `Cell.target` has it.
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
    return tuple(replace(slot, id=_unique(slot.id, taken)) for slot in _slots(plan))


def targets(plan: Plan) -> tuple[str, ...]:
    """What kernels are built for, in plan order; architectures alone where there is no cell."""
    names = [cell.target for cell in plan.cells] or plan.scenario.architectures
    return tuple(dict.fromkeys(names))


def _slots(plan: Plan) -> Iterator[Slot]:
    scenario = plan.scenario
    for kernel in scenario.kernels:
        yield Slot(id=_id("apply", scenario.name, kernel.name), what=What.APPLY, kernel=kernel)
    for target in targets(plan):
        for kernel in scenario.kernels:
            yield Slot(
                id=_id("build", scenario.name, *target.split("."), kernel.name),
                what=What.BUILD,
                kernel=kernel,
                target=target,
            )
    for cell in dict.fromkeys(plan.cells):
        for kernel in scenario.kernels:
            yield from _cell_slots(plan, cell, kernel)


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
    for event in plan.scenario.events_in(cell.guest):
        yield replace(
            about, id=_id(f"event {event.label}", *path), what=What.EVENT, source=event.label
        )
    if any(run.label == cell.workload for run in plan.scenario.workloads):
        label = cell.workload
        yield replace(about, id=_id(label, *path), what=What.WORKLOAD, source=label)
    for probe in dict.fromkeys(plan.scenario.probes):
        yield replace(about, id=_id(f"probe {probe}", *path), what=What.PROBE, source=probe)


def _id(name: str, *path: str) -> CaseId:
    """Dots separate the parts of a suite: Jenkins splits package and class at them."""
    return CaseId(suite=".".join(map(_part, path)), name=_part(name))


def _part(text: str) -> str:
    return text.replace(".", "_")


def _unique(id_: CaseId, taken: dict[CaseId, int]) -> CaseId:
    """Names that differ in their dots alone get a number: GitLab drops a second of one name."""
    count = taken[id_] = taken.get(id_, 0) + 1
    return id_ if count == 1 else _unique(replace(id_, name=f"{id_.name} ({count})"), taken)
