from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline import outcomes, plan, preflight, settings, verdict
from pipeline.catalog import Catalog
from pipeline.errors import InfraError, UserError
from pipeline.model import Action, Event, Evidence, Outcome, Plan, Scenario
from tests.unit import test_plan

SCENARIO = replace(test_plan.SCENARIO, guests=("smp1",), boots=1)


SHELF = Catalog(data=settings.PACKAGE / "data", share=(settings.shipped_root(),))


def here(*lacking: str) -> preflight.Host:
    known = {name: (7, 2) for name in SCENARIO.architectures if name not in lacking}
    missing = {name: f"qemu-none-{name} is not there" for name in lacking}
    return preflight.Host(lacking=missing, qemu=known, memory=4096)


def supported(scenario: Scenario, host: preflight.Host) -> Plan:
    return preflight.supported(plan.make(scenario), SHELF, host)


def test_a_missing_emulator_takes_its_own_cells_alone() -> None:
    todo = supported(SCENARIO, here("aarch64"))
    assert {cell.architecture for cell in todo.unsupported} == {"aarch64"}
    assert {boot.cell.architecture for boot in todo.boots} == {"x86_64"}
    cases = verdict.judge(todo, Evidence())
    arm = [case for case in cases if ".aarch64" in case.id.suite and case.id.name == "boot"]
    assert arm
    assert {case.outcome for case in arm} == {Outcome.UNSUPPORTED}
    assert "qemu-none-aarch64 is not there" in arm[0].reason
    assert outcomes.run_exit(cases) == 3, "nothing was judged here"


def test_no_emulator_at_all_ends_the_run() -> None:
    with pytest.raises(InfraError, match="qemu-none-x86_64"):
        supported(SCENARIO, here("x86_64", "aarch64"))


def test_a_host_with_all_of_them_keeps_the_plan() -> None:
    todo = plan.make(replace(SCENARIO, boots=2))
    assert preflight.supported(todo, SHELF, here()) == todo


def test_a_shape_that_the_host_has_no_memory_for_is_skipped_with_the_reason() -> None:
    todo = supported(replace(SCENARIO, guests=("smp1", "hugemem")), here())
    assert {cell.guest for cell in todo.unsupported} == {"hugemem"}
    assert all("MiB" in why for why in todo.unsupported.values())


ADD = Event(label="add", action=Action.VCPU_ADD, when="before workload")


@pytest.mark.parametrize(
    ("change", "transport", "words"),
    [
        ({"events": (ADD,)}, "ssh", "has room for"),
        ({"events": (replace(ADD, guests=("smp2of9",)),)}, "ssh", "guest of event add"),
        ({"events": (replace(ADD, when="at start"),), "guests": ("smp2of8",)}, "ssh", "workload"),
        ({"events": (ADD,), "guests": ("smp2of8",)}, "console", "events need ssh"),
    ],
)
def test_events_that_cannot_be_are_bad_input(
    change: dict[str, Any], transport: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        preflight._check_events(plan.make(replace(SCENARIO, **change)), SHELF, transport)


def test_a_fragment_that_is_not_for_an_architecture_takes_its_cells_away() -> None:
    todo = supported(replace(SCENARIO, fragments=("arm64-64k",)), here())
    assert {cell.architecture for cell in todo.unsupported} == {"x86_64"}
    assert all("arm64-64k" in why for why in todo.unsupported.values())


def test_a_configuration_that_is_only_built_has_nothing_to_boot() -> None:
    made = plan.make(replace(SCENARIO, fragments=("randconfig@42",)))
    with pytest.raises(UserError, match="randconfig@42 makes a kernel that boots in no guest"):
        preflight._check_configurations(made, SHELF)
