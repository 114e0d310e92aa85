"""The commands for a guest's sysfs, run by the shells that guests have, on a folder like it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline import events, process, sysfs
from pipeline.scope import Scope

BUSYBOX = shutil.which("busybox")
SHELLS = [pytest.param(("sh",), id="sh")]
if BUSYBOX:
    SHELLS.append(pytest.param((BUSYBOX, "sh"), id="busybox"))

pytestmark = pytest.mark.parametrize("shell", SHELLS)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    for cpu in range(1, 4):
        (tmp_path / f"cpu/cpu{cpu}").mkdir(parents=True)
        (tmp_path / f"cpu/cpu{cpu}/online").write_text("1\n")
    for block in range(4):
        (tmp_path / f"memory/memory{block}").mkdir(parents=True)
        (tmp_path / f"memory/memory{block}/state").write_text("online\n")
        zone = "Movable" if block == 3 else "Normal Movable"
        (tmp_path / f"memory/memory{block}/valid_zones").write_text(f"{zone}\n")
    return tmp_path


def run(shell: tuple[str, ...], command: str, system: Path, scope: Scope) -> str:
    moved = command.replace("/sys/devices/system", str(system))
    assert moved != command
    done = process.run((*shell, "-c", moved), scope=scope.child(30))
    return done.text


def refuse(path: Path) -> None:
    """Have a write to a file fail, for root too."""
    path.unlink()
    path.mkdir()


def test_cpus(shell: tuple[str, ...], system: Path, scope: Scope) -> None:
    assert run(shell, sysfs.cpus([2, 3], online=False), system, scope) == ""
    state = [(system / f"cpu/cpu{cpu}/online").read_text().strip() for cpu in (1, 2, 3)]
    assert state == ["1", "0", "0"]
    refuse(system / "cpu/cpu2/online")
    text = run(shell, sysfs.cpus([1, 2, 3], online=True), system, scope)
    assert sysfs.refused(text) == (2,)
    assert (system / "cpu/cpu3/online").read_text() == "1\n"


def test_blocks(shell: tuple[str, ...], system: Path, scope: Scope) -> None:
    refuse(system / "memory/memory1/state")
    text = run(shell, sysfs.blocks([1, 2], "online_movable"), system, scope)
    assert sysfs.refused(text) == (1,)
    assert (system / "memory/memory2/state").read_text() == "online_movable\n"


def test_blocks_are_taken_until_there_are_enough(
    shell: tuple[str, ...], system: Path, scope: Scope
) -> None:
    refuse(system / "memory/memory3/state")
    text = run(shell, sysfs.offline_blocks([3, 2, 1, 0], 2), system, scope)
    assert sysfs.refused(text) == (3,)
    state = [(system / f"memory/memory{n}/state").read_text().strip() for n in range(3)]
    assert state == ["online", "offline", "offline"]


def test_blocks_that_can_be_moved(shell: tuple[str, ...], system: Path, scope: Scope) -> None:
    assert run(shell, sysfs.zones([0, 3]), system, scope).split() == ["3"]


def test_a_storm_does_its_steps(shell: tuple[str, ...], system: Path, scope: Scope) -> None:
    steps = events.storm(5, [1, 2, 3], 40)
    text = run(shell, sysfs.storm(steps, 20.0), system, scope)
    assert (sysfs.steps_done(text), sysfs.refused(text)) == (40, ())
    for cpu, online in dict(steps).items():
        assert (system / f"cpu/cpu{cpu}/online").read_text() == f"{int(online)}\n"


def test_a_storm_ends_in_time(shell: tuple[str, ...], system: Path, scope: Scope) -> None:
    refuse(system / "cpu/cpu2/online")
    steps = events.storm(5, [1, 2, 3], 20000)
    text = run(shell, sysfs.storm(steps, 0.3), system, scope)
    assert 0 < sysfs.steps_done(text) < 20000
    assert set(sysfs.refused(text)) == {2}
