"""Faults that come on some boots only: how likely they are chance, and how many boots tell. Pure.

Fisher's exact test on boots with and without the fault, two-sided: a kernel below that has it more
often is as much a finding as one that never has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

ALPHA = 0.05
POWER = 0.95
MOST = 2000


@dataclass(frozen=True, kw_only=True)
class Rates:
    """A fault came in `patched` of `of` boots, and in `base` of `of_base` of the kernel below."""

    patched: int
    of: int
    base: int
    of_base: int

    @property
    def chance(self) -> float:
        return chance(self.patched, self.of, self.base, self.of_base)

    @property
    def more_often(self) -> bool:
        """Whether the patched kernel has it more often than the one below, by more than chance."""
        return self.patched * self.of_base > self.base * self.of and self.chance < ALPHA

    def words(self, below: str) -> str:
        """“11 of 50 patched, 0 of 50 base, p = 0.00053 (Fisher's exact test)”."""
        rates = f"{self.patched} of {self.of} patched, {self.base} of {self.of_base} {below}"
        return f"{rates}, p = {self.chance:.2g} (Fisher's exact test)"

    @property
    def needed(self) -> str:
        """How many boots it takes to tell."""
        rate = self.patched / self.of
        boots = boots_for(rate)
        many = f"{MOST} or more boots" if boots >= MOST else f"{boots} boots"
        return f"to find a fault that comes so often takes {many} of each (--odds {rate:.2g})"


def chance(patched: int, of: int, base: int, of_base: int) -> float:
    """The probability of a table as uneven as this, or more, if both kernels had the same rate:
    the fault came in `patched` of `of` boots and in `base` of `of_base` (R. A. Fisher, 1935)."""
    whole, faulty = of + of_base, patched + base
    total = math.comb(whole, faulty)

    def of_table(count: int) -> float:
        return math.comb(of, count) * math.comb(of_base, faulty - count) / total

    seen = of_table(patched)
    possible = range(max(0, faulty - of_base), min(of, faulty) + 1)
    # Tables of the same probability differ in their last bits.
    return min(1.0, sum(each for n in possible if (each := of_table(n)) <= seen * (1 + 1e-9)))


@cache
def fewest(boots: int) -> int:
    """In how many of so many boots a fault must come that never comes in as many of the kernel
    below, to be more than chance; more than `boots` where no number is enough."""
    found = (n for n in range(1, boots + 1) if chance(n, boots, 0, boots) < ALPHA)
    return next(found, boots + 1)


def power(rate: float, boots: int) -> float:
    """The probability that a fault of this rate is found with so many boots of each kernel."""
    missed = sum(
        math.comb(boots, n) * rate**n * (1 - rate) ** (boots - n) for n in range(fewest(boots))
    )
    return max(0.0, 1.0 - missed)


@cache
def boots_for(rate: float) -> int:
    """Boots of each kernel that find a fault of this rate (0.2: one boot in five) with a
    probability of 95 %: about 50 for one in five. MOST where it takes more."""
    return next((boots for boots in range(3, MOST) if power(rate, boots) >= POWER), MOST)
