"""A kernel compared with itself."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from pipeline import calibration, calibrations, effects, scenario
from pipeline.model import Better, Cell, Phase, Role
from pipeline.trials import Compared
from tests import runs

CELL = Cell(architecture="x86_64", guest="smp2", workload="hackbench")


def compared(noise: float, blocks: int, *, shift: float = 1.0, seed: int = 1) -> Compared:
    draw = random.Random(seed)
    base = tuple(draw.gauss(10, 10 * noise) for _ in range(blocks))
    again = tuple(draw.gauss(10, 10 * noise) * shift for _ in range(blocks))
    return Compared(
        trial="times",
        cell=CELL,
        base="base",
        kernel="again",
        metric=("hackbench", Phase.WORKLOAD, "time"),
        unit="s",
        better=Better.LOWER,
        margin=0.02,
        base_values=base,
        values=again,
        effect=effects.effect(base, again, level=0.05),
    )


def test_noise_and_false_positives_are_what_was_put_in() -> None:
    (found,) = calibration.of([compared(0.03, 160)])
    assert 0.025 < found.noise < 0.035
    assert found.trials == 40
    assert found.detected <= 6
    assert 0.02 < found.rate < 0.09


def test_more_boots_see_smaller_effects() -> None:
    (found,) = calibration.of([compared(0.03, 20)])
    effects_seen = [effect for _, effect in found.detectable]
    assert effects_seen == sorted(effects_seen, reverse=True)
    # 11 boots a side tell 5 % from nothing at 3 % noise: eight see more than that, twelve less.
    by_size = dict(found.detectable)
    assert by_size[8] > 0.05 * found.noise / 0.03 > by_size[12] * 0.9


def test_a_host_that_favours_one_side_is_seen() -> None:
    (found,) = calibration.of([compared(0.01, 40, shift=1.2)])
    assert found.detected == found.trials == 10
    assert "false: 10 of 10 trials" in "\n".join(calibration.lines([found]))


def test_what_gave_no_number_is_left_out() -> None:
    assert calibration.of([replace(compared(0.01, 3), effect=None)]) == ()


def test_it_is_kept_for_the_next_report(tmp_path: Path) -> None:
    assert calibrations.last(tmp_path, "key") == ""
    found = calibration.of([compared(0.03, 20)])
    calibrations.keep(tmp_path, "key", "2026-12-01", found)
    told = calibrations.last(tmp_path, "key")
    assert told.startswith("2026-12-01: hackbench/time: noise ")
    assert calibrations.last(tmp_path, "another") == ""
    (tmp_path / "calibration.json").write_text("[broken")
    assert calibrations.last(tmp_path, "key") == ""


def test_a_tree_is_put_beside_itself() -> None:
    made = scenario.against_itself(runs.scenario((runs.BASE,)))
    base, again = made.kernels
    assert (base.role, again.role) == (Role.BASE, Role.PATCHED)
    assert again.source == base.name
