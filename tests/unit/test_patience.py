"""How long a guest is waited for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import host, patience
from pipeline.model import Stop
from pipeline.scope import Scope
from tests import runs
from tests.simulated import SHAPE, simulated

LARGE = replace(SHAPE, vcpus=64, max_vcpus=64)


def load(monkeypatch: pytest.MonkeyPatch, per_core: float) -> None:
    average = per_core * host.cpu_count()
    monkeypatch.setattr("os.getloadavg", lambda: (average, 0.0, 0.0))


@pytest.mark.parametrize(("per_core", "times"), [(0.1, 1.0), (2.5, 2.5), (30.0, 4.0)])
def test_a_crowded_host_is_given_more_time(
    per_core: float, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(monkeypatch, per_core)
    assert host.crowding() == pytest.approx(times)
    assert patience.silence_seconds(runs.TCG, SHAPE) == pytest.approx(42 * times)


def test_emulated_guests_are_given_more_time_for_each_vcpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load(monkeypatch, 0.0)
    kvm = replace(runs.TCG, name="kvm")
    assert patience.silence_seconds(runs.TCG, LARGE) == 104.0
    assert patience.boot_seconds(runs.TCG, LARGE) == 496.0
    assert patience.silence_seconds(kvm, LARGE) == patience.silence_seconds(kvm, SHAPE)


@pytest.mark.parametrize(
    ("per_core", "cpu", "waited", "stop"),
    [
        (30.0, 0.01, 1e6, Stop.INFRA),
        (30.0, 1.0, 1e6, Stop.HANG),  # more than the limit of 0.02 s: it spins
        (30.0, 1e6, 1e3, Stop.HANG),  # it had what there was
        (30.0, 0.0, 0.0, Stop.HANG),  # it asked for nothing: its vCPUs are halted
        (1.0, 1.0, 1e6, Stop.HANG),
    ],
)
def test_a_guest_that_its_host_starved_is_not_called_dead(
    *,
    per_core: float,
    cpu: float,
    waited: float,
    stop: Stop,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    scope: Scope,
) -> None:
    load(monkeypatch, per_core)
    monkeypatch.setattr(patience, "SILENCE", {"tcg": patience.Limit(seconds=0.02)})
    made = simulated(tmp_path)
    made.machine.cpu, made.machine.waited = cpu, waited
    end = patience.until_ready(made.kernel.guest, scope)
    assert end is not None
    assert end.stop is stop
    assert end.reason.startswith("the host is too busy") is (stop is Stop.INFRA)
    assert "said nothing" in end.reason


def test_a_limit_says_what_it_is_made_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    load(monkeypatch, 0.0)
    spec = replace(simulated(tmp_path).kernel.guest.spec, shape=LARGE)
    assert patience.notes(spec) == ()
    slow = replace(spec, slower=4.0)
    assert patience.notes(slow) == (
        "with tcg and 64 vCPUs a guest has 1984 s to get ready [(240 s + 4 s × 64 vCPUs) × 4 for "
        "its configuration], and is given up when it is silent for 416 s [(40 s + 1 s × 64 vCPUs) "
        "× 4 for its configuration]",
    )
    assert "× 2.5 for a busy host" in patience.limits(slow, 2.5)
