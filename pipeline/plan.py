"""From a scenario to a plan: the cells of the matrix and the order of the boots. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace

from pipeline import counting
from pipeline.errors import UserError
from pipeline.model import (
    BootId,
    Cell,
    CellPattern,
    Configuration,
    Event,
    KernelPlan,
    Plan,
    ProbeSpec,
    Role,
    Scenario,
    Target,
)

BOOT_ONLY = "boot"


def cells(scenario: Scenario) -> tuple[Cell, ...]:
    """Architectures × configurations × guests × workloads, in the order in which the scenario
    names them, without those that it excludes and with those that it includes besides.

    Raises UserError where a pattern names nothing, or an include not enough, and where there
    is no cell at all.
    """
    product = tuple(_product(scenario))
    for pattern in scenario.exclude:
        if not any(matches(pattern, cell) for cell in product):
            raise UserError(
                f"exclude: there is no cell {describe(pattern)}", hint="`ktrial plan` shows them"
            )
    wanted = [c for c in product if not any(matches(p, c) for p in scenario.exclude)]
    besides = [cell for pattern in scenario.include for cell in _included(pattern, scenario)]
    found = tuple(dict.fromkeys((*wanted, *besides)))
    if scenario.exclude and not found:
        raise UserError("nothing is left to run: every cell is excluded")
    if not found:
        raise UserError("there is nothing to run: no guest is named", hint="give --guest SHAPE")
    return found


def make(scenario: Scenario) -> Plan:
    """The plan of a scenario, with all its cells."""
    whole = cells(scenario)
    return Plan(
        scenario=scenario,
        cells=whole,
        boots=tuple(boot for cell in whole for boot in _blocks(scenario, cell)),
        unsupported={},
        targets=tuple(dict.fromkeys(cell.built_for for cell in whole)),
    )


def builds(scenario: Scenario) -> Plan:
    """The plan that builds a scenario's kernels for each target and boots none."""
    return Plan(
        scenario=scenario,
        cells=(),
        boots=(),
        unsupported={},
        targets=tuple(
            Target(architecture=architecture, configuration=configuration)
            for architecture in scenario.architectures
            for configuration in _configurations(scenario)
        ),
    )


def without(plan: Plan, causes: Mapping[Cell, str]) -> Plan:
    """The plan, with the cells that this host cannot give, and why."""
    boots = tuple(boot for boot in plan.boots if boot.cell not in causes)
    return replace(plan, boots=boots, unsupported={**plan.unsupported, **causes})


def to_build(plan: Plan) -> tuple[tuple[Target, KernelPlan], ...]:
    """Every kernel with each target that it is built for: those of the cells that can run, and
    those that are only built. A kernel under other conditions is built as the one it stems from."""
    booted = {boot.cell.built_for for boot in plan.boots}
    with_cells = {cell.built_for for cell in plan.cells}
    wanted = [each for each in places(plan) if each in booted or each not in with_cells]
    return _builds(plan, wanted)


def builds_of(plan: Plan) -> tuple[tuple[Target, KernelPlan], ...]:
    """As `to_build`, with those too whose cells this host cannot give."""
    return _builds(plan, places(plan))


def places(plan: Plan) -> tuple[Target, ...]:
    """The targets of cells, and those that are only built."""
    return tuple(dict.fromkeys((*plan.targets, *(cell.built_for for cell in plan.cells))))


def _builds(plan: Plan, wanted: Iterable[Target]) -> tuple[tuple[Target, KernelPlan], ...]:
    kernels = {kernel.name: kernel for kernel in plan.scenario.kernels}
    found = {
        (target_of(target, kernel), kernel.source): kernels[kernel.source]
        for target in wanted
        for kernel in kernels.values()
    }
    return tuple((target, kernel) for (target, _), kernel in found.items())


def kernel_of(scenario: Scenario, name: str) -> KernelPlan:
    return next(kernel for kernel in scenario.kernels if kernel.name == name)


def targets(plan: Plan) -> tuple[Target, ...]:
    """Everything that kernels of the plan are built for, whether this host can boot it or not."""
    return tuple(dict.fromkeys(target for target, _ in builds_of(plan)))


def target_of(place: Target, kernel: KernelPlan) -> Target:
    """What a kernel is built for where a cell's target is `place`."""
    return replace(place, configuration=kernel.configuration or place.configuration)


def matches(pattern: CellPattern, cell: Cell) -> bool:
    """Whether a pattern names this cell; what is empty in it stands for any."""
    return all(wanted in ("", getattr(cell, name)) for name, wanted in _named(pattern))


def describe(pattern: CellPattern) -> str:
    """“architecture=aarch64, guest=smp8”."""
    return ", ".join(f"{name}={wanted}" for name, wanted in _named(pattern) if wanted) or "at all"


def _named(pattern: CellPattern) -> Iterator[tuple[str, str]]:
    for each in fields(pattern):
        yield each.name, str(getattr(pattern, each.name))


def _product(scenario: Scenario) -> Iterator[Cell]:
    for architecture in scenario.architectures:
        for configuration in _configurations(scenario):
            for guest in scenario.guests_on.get(architecture, scenario.guests):
                for label in _labels(scenario):
                    yield Cell(
                        architecture=architecture,
                        configuration=_with_counters(scenario, configuration, label),
                        guest=guest,
                        workload=label,
                    )


def _included(pattern: CellPattern, scenario: Scenario) -> Iterator[Cell]:
    if not (pattern.architecture and pattern.guest):
        raise UserError(
            f"include: {describe(pattern)} is no whole cell",
            hint="give at least an architecture and a guest",
        )
    for configuration in _one_of("configuration", pattern, _configurations(scenario)):
        for label in _one_of("workload", pattern, _labels(scenario)):
            yield Cell(
                architecture=pattern.architecture,
                configuration=_with_counters(scenario, configuration, label),
                guest=pattern.guest,
                workload=label,
            )


def _one_of(field: str, pattern: CellPattern, known: tuple[str, ...]) -> tuple[str, ...]:
    wanted = getattr(pattern, field)
    if wanted and wanted not in known:
        raise UserError(
            f"include: the scenario has no {field} “{wanted}”", hint=f"it has {', '.join(known)}"
        )
    return (wanted,) if wanted else known


def _configurations(scenario: Scenario) -> tuple[str, ...]:
    return tuple(each.name for each in scenario.configurations if not each.counted) or ("",)


def fragments(scenario: Scenario, name: str, probes: Mapping[str, ProbeSpec]) -> tuple[str, ...]:
    """The fragments on top of an architecture's own that kernels of a configuration are built with:
    the scenario's, what probes and workloads need, and those of the configuration `name`."""
    timed = (each for run in scenario.workloads if not run.counted for each in run.probes)
    return (
        *scenario.fragments,
        *(each for probe in (*scenario.probes, *timed) for each in probes[probe].kconfigs),
        *(each for run in scenario.workloads for each in run.spec.kconfigs),
        *configuration(scenario, name).fragments,
    )


def _with_counters(scenario: Scenario, configuration: str, label: str) -> str:
    """The configuration in which a workload runs at this point of the kconfig axis."""
    run = scenario.workload(label)
    return counting.name(configuration, run.counters) if run else configuration


def _labels(scenario: Scenario) -> tuple[str, ...]:
    return tuple(run.label for run in scenario.workloads) or (BOOT_ONLY,)


def configuration(scenario: Scenario, name: str) -> Configuration:
    """The point of the kconfig axis of that name; "" is the one that adds nothing."""
    known = {each.name: each for each in scenario.configurations}
    return known.get(name) or Configuration(name=name, fragments=())


def _blocks(scenario: Scenario, cell: Cell) -> Iterator[BootId]:
    """Every kernel once per block, each block in an order of its own.

    Interleaving keeps a drift of the host from falling on one kernel alone. The order is
    seeded by the cell's name, so that the same scenario gives the same plan.
    """
    order = random.Random(f"{scenario.name}/{cell.name}")
    for block in range(boots_in(scenario, cell)):
        names = [kernel.name for kernel in scenario.kernels if kernel.boots]
        order.shuffle(names)
        for name in names:
            yield BootId(cell=cell, kernel=name, block=block)


def boots_in(scenario: Scenario, cell: Cell) -> int:
    """How often each kernel boots in a cell."""
    run = scenario.workload(cell.workload)
    return (run.boots if run else 0) or scenario.boots


def guest_of(cell: Cell, kernel: KernelPlan) -> str:
    """The shape in which a kernel boots in a cell."""
    return kernel.guest or cell.guest


def events_of(scenario: Scenario, cell: Cell, kernel: KernelPlan) -> tuple[Event, ...]:
    """What a kernel goes through in a cell."""
    there = scenario.events_in(guest_of(cell, kernel))
    return tuple(each for each in there if kernel.events is None or each.label in kernel.events)


def probes_in(scenario: Scenario, cell: Cell) -> tuple[str, ...]:
    """The probes that are read in a cell's boots."""
    run = scenario.workload(cell.workload)
    return tuple(dict.fromkeys((*scenario.probes, *(run.probes if run else ()))))


def beneath(scenario: Scenario, kernel: KernelPlan) -> Iterator[KernelPlan]:
    """The kernels on trial that this one stands on, the nearest first."""
    known = {each.name: each for each in scenario.kernels}
    under = known.get(kernel.on or "")
    while under is not None and under.role is Role.PATCHED:
        yield under
        under = known.get(under.on or "")


def below(scenario: Scenario, kernel: KernelPlan) -> KernelPlan | None:
    """The kernel that one on trial is held against: the nearest below that is not on trial itself,
    else base; None for base, a prerequisite, and where there is no other."""
    if kernel.role is not Role.PATCHED:
        return None
    *_, lowest = (kernel, *beneath(scenario, kernel))
    known = {each.name: each for each in scenario.kernels}
    bases = (each for each in scenario.kernels if each.role is Role.BASE)
    return known.get(lowest.on or "") or next(bases, None)


def directly_below(scenario: Scenario, kernel: KernelPlan) -> KernelPlan | None:
    """The kernel that differs from this one by its own patches alone."""
    known = {each.name: each for each in scenario.kernels}
    return known.get(kernel.on or "") or below(scenario, kernel)
