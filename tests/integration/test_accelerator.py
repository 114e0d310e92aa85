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
# Stands in for a QEMU whose first start under KVM is disturbed.
case "$*" in
*"-accel tcg"*) sleep 1.5 ;;
*) if mkdir "$0.started" 2> /dev/null; then exec sleep 600; fi ;;
esac
exit STATUS
"""


def test_one_disturbed_start_does_not_rule_kvm_out(tmp_path: Path, scope: Scope) -> None:
    assert X86.calibration is not None
    qemu = tmp_path / "qemu"
    qemu.write_text(QEMU.replace("STATUS", str(X86.calibration.exit_status)))
    qemu.chmod(0o755)
    found = accelerator.timed(replace(X86, qemu=str(qemu)), cache=tmp_path, scope=scope)
    assert (tmp_path / "qemu.started").exists()
    assert found.name == "kvm", found.reason


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
