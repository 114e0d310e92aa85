"""The accelerators of this host, timed with the real QEMU."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import accelerator
from pipeline.errors import InfraError, UserError
from pipeline.model import Architecture
from pipeline.scope import Scope
from tests import guests
from tests.conftest import QuietStep

X86 = guests.architecture("x86_64")
ARM = guests.architecture("aarch64")
FOREIGN = ARM if platform.machine() == "x86_64" else X86
NATIVE = X86 if FOREIGN is ARM else ARM


@pytest.mark.parametrize("chosen", [X86, ARM], ids=lambda each: each.name)
def test_the_tiny_programs_run_through(tmp_path: Path, scope: Scope, chosen: Architecture) -> None:
    assert chosen.calibration is not None
    path = tmp_path / "program.bin"
    path.write_bytes(accelerator.program(chosen.calibration))
    trial = accelerator.trial(chosen, "tcg", path, 60, scope)
    assert trial.problem == ""
    assert trial.seconds is not None


def test_a_program_that_hangs_is_given_up(tmp_path: Path, scope: Scope) -> None:
    path = tmp_path / "program.bin"
    path.write_bytes(bytes(65534) + b"\xeb\xfe")  # no way out of the reset vector's zeros
    trial = accelerator.trial(X86, "tcg", path, 0.5, scope)
    assert trial.seconds is None
    assert "not through" in trial.problem


QEMU = """#!/bin/sh
# Stands in for a QEMU that takes as long as the test says.
case "$*" in
*--version*) echo "QEMU of a test"; exit 0 ;;
*"-accel tcg"*) sleep TCG ;;
*) KVM ;;
esac
exit STATUS
"""


def qemu(folder: Path, *, tcg: float, kvm: str) -> Architecture:
    """This host's architecture; `kvm` is a shell command that a start under KVM comes to."""
    assert NATIVE.calibration is not None
    path = folder / "qemu"
    words = {"TCG": str(tcg), "KVM": kvm, "STATUS": str(NATIVE.calibration.exit_status)}
    text = QEMU
    for name, value in words.items():
        text = text.replace(name, value)
    path.write_text(text)
    path.chmod(0o755)
    return replace(NATIVE, qemu=str(path))


def test_one_disturbed_start_does_not_rule_kvm_out(tmp_path: Path, scope: Scope) -> None:
    disturbed = qemu(
        tmp_path, tcg=1.5, kvm='if mkdir "$0.started" 2> /dev/null; then exec sleep 600; fi'
    )
    found, _ = accelerator.timed(disturbed, cache=tmp_path, scope=scope)
    assert (tmp_path / "qemu.started").exists()
    assert found.name == "kvm", found.reason


@pytest.fixture
def kvm_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that may be opened: these hosts have none, and the QEMU of the test needs none."""
    node = tmp_path / "kvm"
    node.touch()
    obstacle = accelerator._obstacle
    monkeypatch.setattr(accelerator, "_obstacle", lambda each: obstacle(each, node))


@pytest.mark.usefixtures("kvm_is_there")
def test_kvm_that_is_asked_for_may_be_slow(tmp_path: Path, scope: Scope, step: QuietStep) -> None:
    slow = qemu(tmp_path, tcg=0, kvm="sleep 2")

    def choose(forced: str | None) -> str:
        found = accelerator.choose(slow, forced=forced, cache=tmp_path, scope=scope, step=step)
        return found.name

    assert choose(None) == "tcg"
    assert choose("kvm") == "kvm"
    assert choose(None) == "tcg", "what was asked for is no finding"


@pytest.mark.usefixtures("kvm_is_there")
def test_kvm_that_is_asked_for_must_come_through(
    tmp_path: Path, scope: Scope, step: QuietStep
) -> None:
    broken = qemu(tmp_path, tcg=0, kvm="echo no MSR; exit 77")
    with pytest.raises(InfraError, match="no MSR"):
        accelerator.choose(broken, forced="kvm", cache=tmp_path, scope=scope, step=step)


@pytest.mark.usefixtures("kvm_is_there")
@pytest.mark.parametrize("close", [True, False])
def test_a_close_call_is_not_kept(
    tmp_path: Path, scope: Scope, step: QuietStep, monkeypatch: pytest.MonkeyPatch, close: bool
) -> None:
    """How close two timings were is not left to a busy host here."""
    monkeypatch.setattr(accelerator, "is_close", lambda *_: close)
    same = qemu(tmp_path, tcg=0, kvm="true")
    accelerator.choose(same, forced=None, cache=tmp_path, scope=scope, step=step)
    kept = list(tmp_path.glob("accelerators/*.json"))
    assert bool(kept) is not close


def test_the_answer_is_kept(tmp_path: Path, scope: Scope, step: QuietStep) -> None:
    first = accelerator.choose(NATIVE, forced=None, cache=tmp_path, scope=scope, step=step)
    noted = len(step.notes)
    again = accelerator.choose(NATIVE, forced=None, cache=tmp_path, scope=scope, step=step)
    assert again == first
    assert first.reason
    assert len(step.notes) == noted
    for path in (tmp_path / "accelerators").glob("*.json"):
        path.write_text("{", encoding="utf-8")  # a broken entry is no answer
    accelerator.choose(NATIVE, forced=None, cache=tmp_path, scope=scope, step=step)


def test_forced(tmp_path: Path, scope: Scope, step: QuietStep) -> None:
    found = accelerator.choose(NATIVE, forced="tcg", cache=tmp_path, scope=scope, step=step)
    assert found.name == "tcg"
    with pytest.raises(InfraError, match="emulated"):
        accelerator.choose(FOREIGN, forced="kvm", cache=tmp_path, scope=scope, step=step)
    with pytest.raises(UserError):
        accelerator.choose(NATIVE, forced="kmv", cache=tmp_path, scope=scope, step=step)


def test_a_foreign_architecture_is_emulated(tmp_path: Path, scope: Scope, step: QuietStep) -> None:
    found = accelerator.choose(FOREIGN, forced=None, cache=tmp_path, scope=scope, step=step)
    assert found.name == "tcg"
    assert "emulated" in found.reason
