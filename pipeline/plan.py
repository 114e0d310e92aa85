"""From a scenario to a plan: the cells of the matrix and the order of the boots. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from pipeline.model import BootId, Cell, Plan, Scenario

BOOT_ONLY = "boot"


def cells(scenario: Scenario) -> tuple[Cell, ...]:
    """Architectures × guests × workloads, in the order in which the scenario names them."""
    labels = [run.label for run in scenario.workloads] or [BOOT_ONLY]
    return tuple(
        Cell(architecture=architecture, guest=guest, workload=label)
        for architecture in scenario.architectures
        for guest in scenario.guests_on.get(architecture, scenario.guests)
        for label in labels
    )


def make(scenario: Scenario, unsupported: Mapping[Cell, str] | None = None) -> Plan:
    """The plan of a scenario; `unsupported` are cells that this host cannot give, and why."""
    causes = dict(unsupported or {})
    supported = [cell for cell in cells(scenario) if cell not in causes]
    return Plan(
        scenario=scenario,
        cells=cells(scenario),
        boots=tuple(boot for cell in supported for boot in _blocks(scenario, cell)),
        unsupported=causes,
    )


def _blocks(scenario: Scenario, cell: Cell) -> Iterator[BootId]:
    """Every kernel once per block, each block in an order of its own.

    Interleaving keeps a drift of the host from falling on one kernel alone. The order is
    seeded by the cell's name, so that the same scenario gives the same plan.
    """
    order = random.Random(f"{scenario.name}/{cell.name}")
    for block in range(scenario.boots):
        names = [kernel.name for kernel in scenario.kernels]
        order.shuffle(names)
        for name in names:
            yield BootId(cell=cell, kernel=name, block=block)
