"""Looking at a trial more than once without finding what is not there. Pure.

A trial is looked at after some of its boots, again after more, and so on. Each look spends a part
of the error rate, as a spending function says (Lan and DeMets, Biometrika 70, 1983; here that of
Hwang, Shih and DeCani, Statistics in Medicine 9, 1990). Its nominal level is what it spends: by
Bonferroni's inequality the levels of all looks add up to the whole, whatever the correlation
between looks, and for Student's t as well as for a normal statistic. (Levels by recursion over a
normal score would be a little larger, and with the few boots of early looks they exceed the rate
by 2 to 18 %.) An interval at the level of its look is a repeated confidence interval (Jennison and
Turnbull, JRSS B 51, 1989): all of them hold at once, wherever one stops, so that intervals and
verdicts always agree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from scipy import stats

ALPHA = 0.05  # of the whole family
GAMMA = -2.0  # between O'Brien and Fleming (about -4) and Pocock (about 1)
FIRST = 3  # blocks before the first look
GROWTH = 1.5  # from one look to the next


def spent(fraction: float, alpha: float, gamma: float = GAMMA) -> float:
    """The part of `alpha` that is spent once `fraction` (0 to 1) of the boots are in."""
    share = min(1.0, max(0.0, fraction))
    return alpha * (1 - math.exp(-gamma * share)) / (1 - math.exp(-gamma))


def looks(most: int) -> tuple[int, ...]:
    """After how many blocks a trial of `most` is looked at: rising, the last is `most`."""
    found: list[int] = []
    blocks = float(FIRST)
    # The last but one is not so near the end that it would cost more than it may save.
    while round(blocks) * (1 + GROWTH) / 2 < most:
        found.append(round(blocks))
        blocks *= GROWTH
    return (*found, most)


def levels(at: Sequence[int], alpha: float) -> tuple[float, ...]:
    """The two-sided nominal level of the look after each of these numbers of blocks."""
    shares = [0.0, *(each / at[-1] for each in at)]
    whole = [spent(share, alpha) for share in shares]
    return tuple(now - before for before, now in itertools.pairwise(whole))


def level_after(blocks: int, most: int, alpha: float) -> float:
    """The level of a look after `blocks` of `most` that may come, the planned looks before it
    counted as made. Where a run is cut between two looks, it has the share of that moment."""
    before = tuple(each for each in looks(most) if each < blocks)
    spent_before = spent(before[-1] / most, alpha) if before else 0.0
    return spent(blocks / most, alpha) - spent_before


def quantile(level: float, freedom: int) -> float:
    """Student's t that is exceeded, in either direction, with probability `level`."""
    return float(stats.t.isf(level / 2, freedom)) if freedom > 0 else math.inf
