"""A boot is tried once more where its host broke it, and only then."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.boot import Booter, BootJob
from pipeline.errors import InfraError
from pipeline.model import BootResult, Stop
from tests import runs

GOOD = runs.good_boot(runs.plan().boots[0])
DEAD = replace(GOOD, stop=Stop.INFRA, reason="QEMU was ended by SIGKILL")
REFUSED = InfraError("the guest does not start")


@dataclass(frozen=True)
class Played(Booter):
    """Whose attempts come to what was written down beforehand."""

    plays: list[BootResult | InfraError] = field(default_factory=list)

    def _attempt(self, job: BootJob, *_: Any, **__: Any) -> BootResult:
        now = self.plays.pop(0)
        if isinstance(now, InfraError):
            raise now
        return replace(now, boot=job.boot)


class Open:
    def check(self) -> None:
        """Nobody has cancelled."""


def run(*plays: BootResult | InfraError) -> tuple[BootResult, ...]:
    booter: Any = Played(None, None, runs.scenario(), Path(), plays=list(plays))  # type: ignore[arg-type]
    job: Any = replace_boot()
    scope: Any = Open()
    return tuple(booter.run(job, None, scope=scope, step=None))


def replace_boot() -> BootJob:
    nothing: Any = None
    return BootJob(
        boot=GOOD.boot, kernel=runs.BASE, build=nothing, image=nothing, accelerator=nothing
    )


def test_a_good_boot_is_booted_once() -> None:
    (only,) = run(GOOD)
    assert only.boot.boot == 0


@pytest.mark.parametrize("stop", [Stop.KERNEL, Stop.HANG])
def test_a_guest_that_broke_by_itself_is_not_tried_again(stop: Stop) -> None:
    (only,) = run(replace(GOOD, stop=stop))
    assert only.stop is stop


def test_a_dead_qemu_is_tried_again_and_both_attempts_are_kept() -> None:
    first, second = run(DEAD, GOOD)
    assert (first.stop, second.stop) == (Stop.INFRA, Stop.COMPLETED)
    assert second.boot.boot == 1
    assert any("SIGKILL" in note for note in second.notes)


def test_a_guest_that_did_not_start_is_tried_again() -> None:
    (second,) = run(REFUSED, GOOD)
    assert second.boot.boot == 1
    assert any("does not start" in note for note in second.notes)


def test_two_refusals_are_the_hosts_fault() -> None:
    with pytest.raises(InfraError, match="does not start"):
        run(REFUSED, REFUSED)


def test_a_second_attempt_that_does_not_start_leaves_the_first() -> None:
    (first,) = run(DEAD, REFUSED)
    assert first.stop is Stop.INFRA
    assert any("second attempt" in note for note in first.notes)
