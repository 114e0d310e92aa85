from __future__ import annotations

from dataclasses import replace

from pipeline import plan
from pipeline.model import Cell, KernelPlan, Role, Scenario, TreeSpec

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


def test_each_block_holds_each_kernel_once_and_orders_differ() -> None:
    boots = [b for b in plan.make(SCENARIO).boots if b.cell.name == "x86_64.smp1.boot"]
    blocks = [[b.kernel for b in boots if b.block == n] for n in range(6)]
    assert all(sorted(block) == ["base", "fix"] for block in blocks)
    assert len({tuple(block) for block in blocks}) == 2


def test_the_same_scenario_gives_the_same_plan() -> None:
    assert plan.make(SCENARIO) == plan.make(replace(SCENARIO))


def test_an_unsupported_cell_stays_in_the_plan_without_boots() -> None:
    cell = Cell(architecture="aarch64", guest="smp2", workload="boot")
    made = plan.make(SCENARIO, {cell: "no QEMU"})
    assert cell in made.cells
    assert not [boot for boot in made.boots if boot.cell == cell]
    assert len(made.boots) == 3 * 2 * 6
