"""Choosing an accelerator: what follows from two timings, and the tiny programs' bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.accelerator import Trial, better, is_close, judge, program
from pipeline.errors import UserError
from pipeline.model import Calibration
from tests import guests

TCG = Trial(seconds=0.5)


def test_kvm_where_it_is_quicker() -> None:
    found = judge(TCG, Trial(seconds=0.1))
    assert found.name == "kvm"
    assert "0.10" in found.reason
    assert "0.50" in found.reason


@pytest.mark.parametrize(
    ("kvm", "reason"),
    [
        (Trial(seconds=0.6), "slower"),
        (Trial(seconds=None, problem="not through after 1.0 s"), "not through after 1.0 s"),
        (Trial(seconds=None, problem="failed to set MSR 0x10a"), "MSR 0x10a"),
    ],
)
def test_tcg_where_kvm_is_no_good(kvm: Trial, reason: str) -> None:
    found = judge(TCG, kvm)
    assert found.name == "tcg"
    assert reason in found.reason


def test_neither_works() -> None:
    bad = Trial(seconds=None, problem="no")
    assert judge(bad, bad).name == "tcg"


LATE = Trial(seconds=None, problem="not through after 1.0 s", late=True)
REFUSED = Trial(seconds=None, problem="failed to set MSR 0x10a")
QUICK, SLOW = Trial(seconds=0.1), Trial(seconds=0.9)


@pytest.mark.parametrize(
    ("trials", "best"),
    [
        ((SLOW, QUICK), QUICK),
        ((QUICK, SLOW), QUICK),
        ((LATE, QUICK), QUICK),
        ((QUICK, LATE), QUICK),
        ((LATE, LATE), LATE),
        ((REFUSED,), REFUSED),
        ((QUICK, REFUSED), REFUSED),
    ],
)
def test_one_disturbed_trial_settles_nothing(trials: tuple[Trial, ...], best: Trial) -> None:
    left = list(trials)
    assert better(lambda: left.pop(0)) == best
    assert not left


@pytest.mark.parametrize(
    ("tcg", "kvm", "close"),
    [
        (1.0, 1.19, True),
        (1.19, 1.0, True),
        (1.0, 1.3, False),
        (1.3, 1.0, False),
        (1.0, None, False),
        (None, 1.0, False),
    ],
)
def test_a_close_call(tcg: float | None, kvm: float | None, close: bool) -> None:
    assert is_close(Trial(seconds=tcg), Trial(seconds=kvm)) is close


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
def test_programs_can_be_read(name: str) -> None:
    calibration = guests.architecture(name).calibration
    assert calibration is not None
    assert len(program(calibration)) == calibration.size
    assert any("{program}" in word for word in calibration.arguments)


def test_the_programs_end_where_pcs_and_arms_start() -> None:
    pc = guests.architecture("x86_64").calibration
    assert pc is not None
    assert program(pc)[0xFFF0] == 0xEA  # the reset vector holds a far jump


SMALL = Calibration(program=("0: 01 02 ; a", "4: 03"), size=8, arguments=(), exit_status=0)


def test_lines_go_to_their_offsets() -> None:
    assert program(SMALL) == b"\1\2\0\0\3\0\0\0"


@pytest.mark.parametrize("line", ["zz: 01", "0: 0x", "7: 01 02", "no colon"])
def test_bad_lines(line: str) -> None:
    with pytest.raises(UserError):
        program(replace(SMALL, program=(line,)))
