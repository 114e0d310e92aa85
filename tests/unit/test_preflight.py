from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import outcomes, plan, preflight, settings, verdict
from pipeline.catalog import Catalog
from pipeline.errors import InfraError
from pipeline.model import Evidence, Outcome
from tests.unit import test_plan

SCENARIO = replace(test_plan.SCENARIO, guests=("smp1",), boots=1)


def shelf(tmp_path: Path, missing: tuple[str, ...]) -> Catalog:
    """The shipped one, with emulators that nobody has."""
    data = settings.PACKAGE / "data"
    own = tmp_path / "architectures"
    own.mkdir()
    for name in SCENARIO.architectures:
        text = (data / "architectures" / f"{name}.toml").read_text()
        emulator = "sh" if name not in missing else f"qemu-none-{name}"
        lines = [
            f'qemu = "{emulator}"' if line.startswith("qemu = ") else line
            for line in text.splitlines()
        ]
        (own / f"{name}.toml").write_text("\n".join(lines))
    return Catalog(data=data, share=(tmp_path, settings.shipped_root()))


def test_a_missing_emulator_takes_its_own_cells_alone(tmp_path: Path) -> None:
    todo = preflight._without_emulators(plan.make(SCENARIO), shelf(tmp_path, ("aarch64",)))
    assert {cell.architecture for cell in todo.unsupported} == {"aarch64"}
    assert {boot.cell.architecture for boot in todo.boots} == {"x86_64"}
    cases = verdict.judge(todo, Evidence())
    arm = [case for case in cases if ".aarch64" in case.id.suite and case.id.name == "boot"]
    assert arm
    assert {case.outcome for case in arm} == {Outcome.UNSUPPORTED}
    assert "qemu-none-aarch64 is not there" in arm[0].reason
    assert outcomes.run_exit(cases) == 3, "nothing was judged here"


def test_no_emulator_at_all_ends_the_run(tmp_path: Path) -> None:
    both = shelf(tmp_path, ("x86_64", "aarch64"))
    with pytest.raises(InfraError, match="qemu-none-x86_64"):
        preflight._without_emulators(plan.make(SCENARIO), both)


def test_a_host_with_all_of_them_keeps_the_plan(tmp_path: Path) -> None:
    todo = plan.make(replace(SCENARIO, boots=2))
    assert preflight._without_emulators(todo, shelf(tmp_path, ())) is todo
