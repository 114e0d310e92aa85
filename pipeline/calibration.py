"""What a host's noise lets a trial see: a kernel compared with itself. Pure.

All boots are of one kernel, so that whatever is detected is false. They are cut into short trials,
each judged as in a run; and drawn again, with the sides of each block swapped at random (under no
change they may be), for a rate that rests on more than those few.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline import effects, power, spending
from pipeline.trials import Compared

SIZES = (3, 5, 8, 12, 20, 40)  # boots of each kernel for which the smallest effect is told
SHORT = 4  # boots of each kernel in one of the short trials
DRAWS = 1000


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """One metric of one cell on this host. `noise`: standard deviation of one boot as a share of
    its mean. `detectable`: boots of each kernel -> smallest effect seen with 95 % power, alone.
    `trials`: short trials that the boots were cut into, of which `detected` something;
    `rate`: share of the trials drawn from the boots that did."""

    cell: str
    metric: str
    blocks: int
    noise: float
    detectable: tuple[tuple[int, float], ...]
    trials: int
    detected: int
    rate: float

    def words(self) -> str:
        """“hackbench/time: noise 3.1 %; 5 boots a side see 7.5 %, 12 see 4 %”."""
        seen = ", ".join(
            f"{boots}{' boots a side' if number == 0 else ''} see {_percent(effect)}"
            for number, (boots, effect) in enumerate(self.detectable)
        )
        return f"{self.metric}: noise {_percent(self.noise)}; {seen}"


def of(found: Iterable[Compared]) -> tuple[Calibrated, ...]:
    """What the comparisons of a kernel with itself tell; without those that gave no number."""
    compared = [each for each in found if each.effect is not None]
    return tuple(_calibrated(each, len(compared)) for each in compared)


def _calibrated(each: Compared, members: int) -> Calibrated:
    assert each.effect is not None
    level = spending.ALPHA / members
    short = [
        _detects(each.base_values[start : start + SHORT], each.values[start : start + SHORT], level)
        for start in range(0, len(each.values) - SHORT + 1, SHORT)
    ]
    noise = each.effect.noise
    return Calibrated(
        cell=each.cell.name,
        metric=each.name,
        blocks=len(each.values),
        noise=noise,
        detectable=tuple(
            (size, power.detectable(noise=noise, blocks=size, level=spending.ALPHA))
            for size in SIZES
        ),
        trials=len(short),
        detected=sum(short),
        rate=_drawn(each.base_values, each.values),
    )


def _detects(base: Sequence[float], again: Sequence[float], level: float) -> bool:
    return len(base) >= 2 and effects.effect(base, again, level=level).detected


def _drawn(base: Sequence[float], again: Sequence[float]) -> float:
    """The share of trials of SHORT blocks, drawn with swapped sides, that detect a change."""
    blocks = list(zip(base, again, strict=True))
    size = min(SHORT, len(blocks))
    order = random.Random(0)
    found = 0
    for _ in range(DRAWS):
        some = [pair if order.random() < 0.5 else pair[::-1] for pair in order.sample(blocks, size)]
        old, new = zip(*some, strict=True)
        found += _detects(old, new, spending.ALPHA)
    return found / DRAWS


def lines(found: Sequence[Calibrated]) -> list[str]:
    """For people."""
    told = ["Calibration: a kernel against itself on this host", ""]
    for each in found:
        told += [
            f"  {each.cell}",
            f"    {each.words()}",
            f"    false: {each.detected} of {each.trials} trials of {SHORT} boots a side, "
            f"{_percent(each.rate)} of {DRAWS} drawn from all {each.blocks} blocks (meant: 5 %)",
            "",
        ]
    return told


def _percent(share: float) -> str:
    if share >= 10:
        return "nothing below a factor of 10"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
