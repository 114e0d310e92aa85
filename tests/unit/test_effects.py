"""Effects, their intervals and levels, and the boots that they take."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from scipy import stats

from pipeline import effects, oddities, power, spending
from pipeline.effects import Judgement, Matters
from pipeline.model import Better


def test_the_effect_is_the_paired_t_interval_on_logarithms() -> None:
    """Held against scipy's own."""
    base, patched = [1.0, 1.1, 0.9, 1.05], [1.2, 1.25, 1.12, 1.21]
    found = effects.effect(base, patched, level=0.05)
    logs = [math.log(new / old) for old, new in zip(base, patched, strict=True)]
    peer = stats.ttest_1samp(logs, 0.0).confidence_interval(0.95)
    assert found.low == pytest.approx(math.exp(peer.low))
    assert found.high == pytest.approx(math.exp(peer.high))
    assert found.ratio == pytest.approx(math.exp(sum(logs) / 4))
    assert found.blocks == 4


def test_a_drift_that_both_kernels_saw_falls_out() -> None:
    drift = [1.0, 2.0, 4.0, 8.0]
    found = effects.effect(drift, [each * 1.1 for each in drift], level=0.001)
    assert (found.low, found.high) == pytest.approx((1.1, 1.1))
    assert found.noise == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "better", "judgement", "matters"),
    [
        (1.03, 1.06, Better.LOWER, Judgement.REGRESSED, Matters.YES),
        (1.03, 1.06, Better.HIGHER, Judgement.IMPROVED, Matters.YES),
        (1.001, 1.06, Better.LOWER, Judgement.REGRESSED, Matters.UNCLEAR),
        (1.001, 1.01, Better.LOWER, Judgement.SMALL_REGRESSED, Matters.NO),
        (0.99, 0.999, Better.LOWER, Judgement.SMALL_IMPROVED, Matters.NO),
        (0.99, 1.01, Better.LOWER, Judgement.NO_CHANGE, Matters.NO),
        (0.95, 1.01, Better.LOWER, Judgement.INCONCLUSIVE, Matters.UNCLEAR),
        (0.90, 0.95, Better.NEITHER, Judgement.CHANGED, Matters.YES),
        (1.001, 1.002, Better.NEITHER, Judgement.SMALL_CHANGED, Matters.NO),
    ],
)
def test_two_questions_two_answers(
    low: float, high: float, better: Better, judgement: Judgement, matters: Matters
) -> None:
    found = effects.Effect(
        ratio=math.sqrt(low * high), low=low, high=high, level=0.05, noise=0.01, blocks=5
    )
    assert effects.judge(found, better, 0.02) is judgement
    assert found.matters(0.02) is matters


@pytest.mark.parametrize("values", [([1.0], [1.0]), ([1.0, 0.0], [1.0, 1.0])])
def test_what_has_no_ratio_is_refused(values: tuple[list[float], list[float]]) -> None:
    with pytest.raises((ValueError, ZeroDivisionError)):
        effects.effect(*values, level=0.05)


def test_all_looks_together_spend_the_whole_and_no_more() -> None:
    for most in (2, 3, 5, 12, 24, 40):
        at = spending.looks(most)
        assert at[-1] == most
        assert all(one < other for one, other in itertools.pairwise(at))
        each = [spending.level_after(blocks, most, 0.05) for blocks in at]
        assert sum(each) == pytest.approx(0.05)
        assert all(level > 0 for level in each)


def test_a_run_that_is_cut_between_looks_spends_what_that_moment_has() -> None:
    level = spending.level_after(9, 24, 0.05)
    assert 0 < level < spending.level_after(24, 24, 0.05) + 0.05
    before = sum(spending.level_after(n, 24, 0.05) for n in spending.looks(24) if n < 9)
    assert before + level < 0.05


def test_the_boots_that_an_effect_takes() -> None:
    """Order of size at 3 % noise and 95 % power: 5 % from nothing, from the margin, of ten."""
    assert power.boots_for(0.05, noise=0.03, level=0.05) in range(10, 15)
    assert power.boots_for(0.05, noise=0.03, level=0.05, margin=0.02) in range(25, 34)
    assert power.boots_for(0.05, noise=0.03, level=0.005, margin=0.02) in range(38, 52)


def test_power_is_what_a_simulation_sees() -> None:
    dice = random.Random(3)
    seen, rounds = 0, 3000
    for _ in range(rounds):
        base = [dice.gauss(1, 0.03) for _ in range(8)]
        patched = [dice.gauss(1.05, 0.03) for _ in range(8)]
        seen += effects.effect(base, patched, level=0.05).detected
    said = power.power(0.05, noise=0.03, blocks=8, level=0.05)
    assert seen / rounds == pytest.approx(
        said, abs=4 * math.sqrt(said * (1 - said) / rounds) + 0.01
    )


def test_what_is_detectable_is_what_so_many_boots_are_for() -> None:
    for blocks in (3, 6, 20):
        effect = power.detectable(noise=0.03, blocks=blocks, level=0.05)
        assert power.power(effect, noise=0.03, blocks=blocks, level=0.05) == pytest.approx(
            0.95, abs=0.005
        )
    assert power.detectable(noise=0.03, blocks=1, level=0.05) == math.inf
    assert power.detectable(noise=0.0, blocks=5, level=0.05) == 0.0


def test_the_boots_for_the_margin_put_the_interval_inside_it() -> None:
    blocks = power.boots_for_margin(noise=0.01, level=0.05, margin=0.02)
    dice = random.Random(5)
    inside, rounds = 0, 600
    for _ in range(rounds):
        base = [dice.gauss(1, 0.01) for _ in range(blocks)]
        same = [dice.gauss(1, 0.01) for _ in range(blocks)]
        inside += effects.effect(base, same, level=0.05).inside(0.02)
    assert inside / rounds > 0.9


def test_an_outlier_is_named() -> None:
    assert oddities.outliers([1.0, 1.01, 0.99, 1.02, 1.0, 9.0]) == (5,)
    assert oddities.outliers([1.0, 9.0]) == ()
    assert oddities.outliers([1.0] * 8) == ()


def test_two_heaps_are_pointed_out_and_one_is_not() -> None:
    found = oddities.two_heaps([1.0, 1.01, 0.99, 1.0, 2.0, 2.02, 1.99, 2.01])
    assert found == pytest.approx((1.0, 2.005), abs=0.01)
    dice = random.Random(7)
    alarms = sum(
        oddities.two_heaps([dice.gauss(1, 0.1) for _ in range(size)]) is not None
        for size in (8, 10, 12, 20)
        for _ in range(1500)
    )
    assert alarms <= 60  # of 6000
