"""How many boots it takes to see an effect, and which effect a number of boots can see. Pure.

By the noncentral t distribution, for a mean of differences between blocks: with `noise` the
standard deviation of one boot as a share of its mean, a difference has `noise` times the root of 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import optimize, stats

POWER = 0.95
MOST = 100_000
SURE = 1e-9  # noise below this is none


def power(effect: float, *, noise: float, blocks: int, level: float) -> float:
    """The probability that `blocks` boots of each kernel detect a factor of 1 + `effect`."""
    if blocks < 2:
        return 0.0
    shift = abs(math.log1p(effect)) * math.sqrt(blocks) / (math.sqrt(2) * max(noise, SURE))
    bound = float(stats.t.isf(level / 2, blocks - 1))
    # Far out scipy's noncentral t gives no number; the answer is plain there.
    if shift - bound > 8:
        return 1.0
    wrong_way = float(stats.nct.cdf(-bound, blocks - 1, shift)) if shift < 3 else 0.0
    return float(stats.nct.sf(bound, blocks - 1, shift)) + wrong_way


def detectable(*, noise: float, blocks: int, level: float, wanted: float = POWER) -> float:
    """The smallest effect (0.05: a factor of 1.05) that so many boots of each kernel would detect
    with a probability of `wanted`; infinite for fewer than two."""
    if blocks < 2:
        return math.inf
    if noise < SURE:
        return 0.0

    def lacking(effect: float) -> float:
        return power(effect, noise=noise, blocks=blocks, level=level) - wanted

    most = 1.0
    while lacking(most) < 0:
        most *= 2
        if most > 1e12:
            return math.inf
    return float(optimize.brentq(lacking, 0.0, most, xtol=1e-6))


def boots_for(
    effect: float, *, noise: float, level: float, margin: float = 0.0, wanted: float = POWER
) -> int:
    """Boots of each kernel that detect a change by the factor 1 + `effect`, or with a `margin` tell
    it from one by the factor 1 + `margin`; MOST where it takes more."""
    apart = math.expm1(abs(math.log1p(effect)) - math.log1p(margin))
    if apart <= 0:
        return MOST

    def enough(blocks: int) -> bool:
        return power(apart, noise=noise, blocks=blocks, level=level) >= wanted

    return _least(enough)


def boots_for_margin(*, noise: float, level: float, margin: float, wanted: float = POWER) -> int:
    """Boots of each kernel after which the interval of a kernel without any effect lies inside the
    margin with a probability of `wanted`; MOST where it takes more."""

    def enough(blocks: int) -> bool:
        if blocks < 2:
            return False
        error = math.sqrt(2 / blocks) * noise
        room = math.log1p(margin) / max(error, SURE) - float(stats.t.isf(level / 2, blocks - 1))
        # Both ends must be inside: the estimate's error leaves room on either side.
        return room > 0 and 2 * float(stats.t.cdf(room, blocks - 1)) - 1 >= wanted

    return _least(enough)


def _least(enough: Callable[[int], bool]) -> int:
    high = 2
    while not enough(high):
        high *= 2
        if high > MOST:
            return MOST
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
