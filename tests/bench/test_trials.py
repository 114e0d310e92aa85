"""What the trial engine finds and does not find, simulated, beside two rules in use elsewhere.

The peers are written from their descriptions. mmtests' star (Stat.pm, calc_welch_test): Welch's
test of two means at 5 %, each metric by itself. A range rule, as lkp-tests has for what it calls a
change: the ranges from least to largest of both sides do not overlap.

Printed: how often each finds something where nothing is, over one and ten metrics, and how often
a true change of 5 % at a noise of 3 %, with the boots that it took.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pipeline import power, spending

NOISE, EFFECT, TRIALS = 0.03, 0.05, 4000
Samples = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`decide` gets both sides, metrics × boots, and gives (found in any metric, boots taken)."""

    name: str
    decide: Callable[[Samples, Samples], tuple[bool, int]]


def engine(looks: tuple[int, ...]) -> Callable[[Samples, Samples], tuple[bool, int]]:
    """The engine's own rule: looks and levels from `spending`."""

    def decide(base: Samples, patched: Samples) -> tuple[bool, int]:
        logs = np.log(patched / base)
        alpha = spending.ALPHA / len(logs)
        before = 0.0
        for blocks in looks:
            spent = spending.spent(blocks / looks[-1], alpha)
            bound = spending.quantile(spent - before, blocks - 1)
            some = logs[:, :blocks]
            score = some.mean(axis=1) / (some.std(axis=1, ddof=1) / np.sqrt(blocks))
            if (np.abs(score) > bound).any():
                return True, blocks
            before = spent
        return False, looks[-1]

    return decide


def mmtests(base: Samples, patched: Samples) -> tuple[bool, int]:
    found = stats.ttest_ind(base, patched, axis=1, equal_var=False)
    return bool((found.pvalue < 0.05).any()), base.shape[1]


def ranges(base: Samples, patched: Samples) -> tuple[bool, int]:
    apart = (base.max(axis=1) < patched.min(axis=1)) | (patched.max(axis=1) < base.min(axis=1))
    return bool(apart.any()), base.shape[1]


def rate(rule: Rule, *, effect: float, metrics: int, boots: int) -> tuple[float, float]:
    """How often it finds something, and the mean number of boots. One metric has the effect."""
    dice = np.random.default_rng(11)
    found, taken = 0, 0
    for _ in range(TRIALS):
        base = dice.normal(1, NOISE, (metrics, boots))
        patched = dice.normal(1, NOISE, (metrics, boots))
        patched[0] *= 1 + effect
        yes, blocks = rule.decide(base, patched)
        found, taken = found + yes, taken + blocks
    return found / TRIALS, taken / TRIALS


@pytest.mark.parametrize("metrics", [1, 10])
def test_the_engine_beside_its_peers(metrics: int) -> None:
    level = spending.ALPHA / metrics
    boots = power.boots_for(EFFECT, noise=NOISE, level=level)
    most = round(1.3 * boots)  # what looks cost is made up for
    rules = (
        (Rule(name="one look at the end", decide=engine((boots,))), boots),
        (Rule(name=f"looks at {spending.looks(most)}", decide=engine(spending.looks(most))), most),
        (Rule(name="mmtests' star, 5 boots", decide=mmtests), 5),
        (Rule(name="ranges apart, 5 boots", decide=ranges), 5),
        (Rule(name="mmtests' star, as many boots", decide=mmtests), boots),
        (Rule(name="ranges apart, as many boots", decide=ranges), boots),
    )
    print(f"\n{metrics} metrics, noise {NOISE:.0%}, {TRIALS} trials each")
    print(f"{'rule':40} {'boots':>6} {'false':>8} {'finds 5 %':>10} {'with boots':>11}")
    for rule, many in rules:
        false, _ = rate(rule, effect=0.0, metrics=metrics, boots=many)
        true, taken = rate(rule, effect=EFFECT, metrics=metrics, boots=many)
        print(f"{rule.name:40} {many:6} {false:8.2%} {true:10.2%} {taken:11.1f}")
        if "star" not in rule.name and "ranges" not in rule.name:
            # Not a matter of time: the promise itself, with three standard errors to spare.
            assert false <= spending.ALPHA + 3 * np.sqrt(spending.ALPHA * 0.95 / TRIALS)
            assert true >= power.POWER - 3 * np.sqrt(power.POWER * 0.05 / TRIALS)
