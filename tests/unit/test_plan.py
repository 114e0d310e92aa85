from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import plan
from pipeline.errors import UserError
from pipeline.model import (
    Action,
    Cell,
    CellPattern,
    Configuration,
    Event,
    KernelPlan,
    Role,
    Scenario,
    TreeSpec,
)

SCENARIO = Scenario(
    name="s",
    title="",
    posted="",
    tree=TreeSpec(name="debian:5.10"),
    kernels=(
        KernelPlan(name="base", role=Role.BASE),
        KernelPlan(name="fix", role=Role.PATCHED),
    ),
    architectures=("x86_64", "aarch64"),
    fragments=(),
    guests=("smp1", "smp2"),
    image="bench",
    workloads=(),
    probes=(),
    boots=6,
)


def test_the_matrix_is_architectures_by_guests_by_workloads() -> None:
    names = [cell.name for cell in plan.cells(SCENARIO)]
    assert names == [
        "x86_64.smp1.boot",
        "x86_64.smp2.boot",
        "aarch64.smp1.boot",
        "aarch64.smp2.boot",
    ]


def test_a_scenario_without_a_guest_is_refused() -> None:
    with pytest.raises(UserError, match="no guest is named"):
        plan.make(replace(SCENARIO, guests=()))
    some = replace(SCENARIO, guests=(), guests_on={"aarch64": ("smp1",)})
    assert [cell.name for cell in plan.cells(some)] == ["aarch64.smp1.boot"]


def test_each_block_holds_each_kernel_once_and_orders_differ() -> None:
    boots = [b for b in plan.make(SCENARIO).boots if b.cell.name == "x86_64.smp1.boot"]
    blocks = [[b.kernel for b in boots if b.block == n] for n in range(6)]
    assert all(sorted(block) == ["base", "fix"] for block in blocks)
    assert len({tuple(block) for block in blocks}) == 2


def test_the_same_scenario_gives_the_same_plan() -> None:
    assert plan.make(SCENARIO) == plan.make(replace(SCENARIO))


def test_an_unsupported_cell_stays_in_the_plan_without_boots() -> None:
    cell = Cell(architecture="aarch64", guest="smp2", workload="boot")
    made = plan.without(plan.make(SCENARIO), {cell: "no QEMU"})
    assert cell in made.cells
    assert not [boot for boot in made.boots if boot.cell == cell]
    assert len(made.boots) == 3 * 2 * 6


# --------------------------------------------------------------------------- the matrix

TWO = (
    Configuration(name="plain", fragments=()),
    Configuration(name="64k", fragments=("arm64-64k",)),
)


def names(scenario: Scenario) -> list[str]:
    return [cell.name for cell in plan.cells(scenario)]


def test_a_configuration_is_an_axis_and_part_of_the_name() -> None:
    found = names(replace(SCENARIO, configurations=TWO, guests=("smp1",)))
    assert found == [
        "x86_64.plain.smp1.boot",
        "x86_64.64k.smp1.boot",
        "aarch64.plain.smp1.boot",
        "aarch64.64k.smp1.boot",
    ]
    assert [cell.target for cell in plan.cells(SCENARIO)][:1] == ["x86_64"]


def test_excluded_cells_are_gone_and_included_ones_come_once() -> None:
    scenario = replace(
        SCENARIO,
        configurations=TWO,
        exclude=(
            CellPattern(architecture="x86_64", configuration="64k"),
            CellPattern(guest="smp2"),
        ),
        include=(
            CellPattern(architecture="aarch64", configuration="64k", guest="smp8"),
            CellPattern(architecture="aarch64", configuration="64k", guest="smp1"),
        ),
    )
    assert names(scenario) == [
        "x86_64.plain.smp1.boot",
        "aarch64.plain.smp1.boot",
        "aarch64.64k.smp1.boot",
        "aarch64.64k.smp8.boot",
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"exclude": (CellPattern(guest="smp7"),)}, "there is no cell guest=smp7"),
        ({"exclude": (CellPattern(),)}, "every cell is excluded"),
        ({"include": (CellPattern(guest="smp8"),)}, "is no whole cell"),
        (
            {"include": (CellPattern(architecture="x86_64", guest="smp8", workload="x"),)},
            "has no workload “x”",
        ),
    ],
)
def test_a_pattern_that_names_nothing_is_bad_input(
    change: dict[str, tuple[CellPattern, ...]], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        plan.cells(replace(SCENARIO, **change))  # type: ignore[arg-type]


# --------------------------------------------------------------------------- other conditions


def test_a_kernel_has_its_own_guest_and_events() -> None:
    added = Event(action=Action.VCPU_ADD, when="before workload", label="grow")
    only = Event(action=Action.CPU_STORM, when="at start", label="storm", guests=("smp1",))
    grown = KernelPlan(name="grown", role=Role.PATCHED, of="fix", guest="smp2", events=("grow",))
    plain = KernelPlan(name="plain", role=Role.PATCHED, of="fix", events=())
    some = replace(
        SCENARIO, kernels=(*SCENARIO.kernels, grown, plain), events=(added, only), guests=("smp1",)
    )
    cell = plan.cells(some)[0]
    base = some.kernels[0]
    assert [plan.guest_of(cell, each) for each in (base, grown)] == ["smp1", "smp2"]
    told = [[e.label for e in plan.events_of(some, cell, k)] for k in (base, grown, plain)]
    assert told == [["grow", "storm"], ["grow"], []]
