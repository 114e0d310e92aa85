"""What a reader should see in the numbers of a trial before trusting their mean. Pure.

Nothing is dropped for it: outliers stay in the mean, and are named.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

FAR = 6.0  # times the median distance from the median
SIGMA = 1.4826  # of a normal distribution, in median distances
FEWEST = 6  # values below which nothing can be said of outliers
HEAPS = 8  # … and of heaps
GAP = 0.5  # of the whole range, between the two heaps
SHARE = 0.2  # of the values, that the smaller heap has at least
TIGHT = 0.35  # of the whole range, that each heap may be wide


def outliers(values: Sequence[float]) -> tuple[int, ...]:
    """The positions of values that lie far from the median: FAR times what is usual (a rule of
    Iglewicz and Hoaglin, 1993, who take 3.5: of ten boots one in fifty would lie outside that)."""
    if len(values) < FEWEST:
        return ()
    middle = statistics.median(values)
    usual = statistics.median(abs(each - middle) for each in values) * SIGMA
    if usual == 0:
        return ()
    return tuple(n for n, each in enumerate(values) if abs(each - middle) > FAR * usual)


def two_heaps(values: Sequence[float]) -> tuple[float, float] | None:
    """The means of two heaps that the values fall into, None where they lie in one.

    Heaps are apart by more than half of the whole range and each is narrow; of normal samples
    1 in 70 (of eight) to 1 in 2,000 (of twelve) looks like that.
    """
    if len(values) < HEAPS:
        return None
    rising = sorted(values)
    whole = rising[-1] - rising[0]
    if whole <= 0:
        return None
    gap, at = max((rising[n + 1] - rising[n], n + 1) for n in range(len(rising) - 1))
    low, high = rising[:at], rising[at:]
    narrow = max(low[-1] - low[0], high[-1] - high[0]) <= TIGHT * whole
    if gap < GAP * whole or not narrow or min(len(low), len(high)) < max(2, SHARE * len(values)):
        return None
    return statistics.fmean(low), statistics.fmean(high)
