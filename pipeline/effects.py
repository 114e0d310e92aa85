"""The effect of a change on one metric: a ratio, its interval, and what it comes to. Pure.

The boot is the sample. Boots come in blocks, one of each kernel; the effect is the ratio of patched
to base in a block, as a logarithm, so that a halving and a doubling are alike, and a drift of the
host that both kernels saw falls out. Its mean over the blocks has an interval by Student's t.

Two questions are answered apart: whether a change was *detected* (the interval excludes none), and
whether it *matters* (against a margin).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pipeline import spending
from pipeline.model import Better

MARGIN = 0.02  # a change of so much is the least that matters


class Judgement(Enum):
    """What is said of a metric. `SMALL_…`: detected, and the interval lies inside the margin."""

    IMPROVED = "improved"
    REGRESSED = "regressed"
    SMALL_IMPROVED = "improved (small)"
    SMALL_REGRESSED = "regressed (small)"
    CHANGED = "changed"  # of a metric that has no better and worse
    SMALL_CHANGED = "changed (small)"
    NO_CHANGE = "no change"
    INCONCLUSIVE = "inconclusive"


class Matters(Enum):
    """Whether an effect is larger than the margin."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


@dataclass(frozen=True, kw_only=True)
class Effect:
    """`ratio`: patched to base, 1 for no change, within `low` to `high` at the `level` (0.05: with
    a confidence of 95 %). `noise`: the standard deviation of one boot as a share of the mean, from
    the differences between blocks. `blocks`: boots of each kernel that it stems from."""

    ratio: float
    low: float
    high: float
    level: float
    noise: float
    blocks: int

    @property
    def detected(self) -> bool:
        return self.low > 1 or self.high < 1

    def inside(self, margin: float) -> bool:
        """Whether the whole interval lies inside the margin around no change."""
        return within(margin)[0] < self.low and self.high < within(margin)[1]

    def matters(self, margin: float) -> Matters:
        if self.inside(margin):
            return Matters.NO
        low, high = within(margin)
        return Matters.YES if self.low > high or self.high < low else Matters.UNCLEAR


def within(margin: float) -> tuple[float, float]:
    """The ratios that do not matter: as much up as down on a scale of ratios."""
    return 1 / (1 + margin), 1 + margin


def effect(base: Sequence[float], patched: Sequence[float], *, level: float) -> Effect:
    """The effect from the means of each boot, one of each kernel per block, all positive.

    `level`: two-sided, corrected for whatever else is asked. Two blocks are the least.

    Raises:
        ValueError: fewer than two blocks, or a value that is not positive.
    """
    logs = [math.log(new / old) for old, new in zip(base, patched, strict=True)]
    count = len(logs)
    if count < 2:
        raise ValueError("an effect takes two blocks at least")
    mean = math.fsum(logs) / count
    spread = math.sqrt(math.fsum((each - mean) ** 2 for each in logs) / (count - 1))
    half = spending.quantile(level, count - 1) * spread / math.sqrt(count)
    return Effect(
        ratio=math.exp(mean),
        low=math.exp(mean - half),
        high=math.exp(mean + half),
        level=level,
        noise=spread / math.sqrt(2),
        blocks=count,
    )


def judge(found: Effect, better: Better, margin: float = MARGIN) -> Judgement:
    """What an effect comes to."""
    small = found.inside(margin)
    if not found.detected:
        return Judgement.NO_CHANGE if small else Judgement.INCONCLUSIVE
    if better is Better.NEITHER:
        return Judgement.SMALL_CHANGED if small else Judgement.CHANGED
    good = (found.ratio > 1) == (better is Better.HIGHER)
    if small:
        return Judgement.SMALL_IMPROVED if good else Judgement.SMALL_REGRESSED
    return Judgement.IMPROVED if good else Judgement.REGRESSED
