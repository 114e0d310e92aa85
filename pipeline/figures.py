"""The numbers of a run, as tables take them, and how tables are laid out. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.model import BootId, BootResult, Phase

TIME_UNITS = frozenset({"s", "ms", "us", "µs", "ns"})
NOTHING = "-"

Key = tuple[str, Phase, str]  # kernel, phase, metric


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The values of one source in one cell: (kernel, phase, metric) -> one value per boot."""

    source: str
    values: Mapping[Key, tuple[float, ...]]
    units: Mapping[str, str]  # by metric

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(metric for _, _, metric in self.values))

    @property
    def phases(self) -> tuple[Phase, ...]:
        seen = {phase for _, phase, _ in self.values}
        return tuple(phase for phase in Phase if phase in seen)


def numbers(boots: Iterable[BootResult], source: str) -> Numbers:
    """Collect what a workload or probe gave in the boots of a cell."""
    units: dict[str, str] = {}
    values: dict[Key, dict[BootId, list[float]]] = {}
    for result in sorted(boots, key=lambda each: (each.boot.block, each.boot.boot)):
        for sample in (each for each in result.samples if each.source == source):
            key = (result.boot.kernel, sample.phase, sample.metric)
            values.setdefault(key, {}).setdefault(result.boot, []).append(sample.value)
            units[sample.metric] = sample.unit
    # The boot is the sample: what a workload measured several times in it is averaged.
    means = {key: tuple(map(statistics.fmean, by_boot.values())) for key, by_boot in values.items()}
    return Numbers(source=source, values=means, units=units)


def shown(values: Sequence[float]) -> str:
    """The mean; behind it the range where the values differ, and their number."""
    if not values:
        return NOTHING
    mean = number(sum(values) / len(values))
    if min(values) == max(values):
        return mean
    return f"{mean} [{number(min(values))} … {number(max(values))}]"


def number(value: float) -> str:
    """Whole numbers stay whole; others have as many digits as tell something."""
    if value == int(value):
        return f"{value:.0f}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.1f}"


def aligned(rows: Sequence[Sequence[str]], *, spans: int = 0) -> list[str]:
    """Columns as wide as their widest cell, the first to the left, numbers to the right.

    With `spans` the first row has a heading over every `spans` columns.
    """
    heading, body = (rows[0], rows[1:]) if spans else ((), rows)
    widths = [max(len(row[n]) for row in body) for n in range(len(rows[0]))]
    lines = []
    for n in range(1, len(heading), spans or 1):
        group = widths[n : n + spans]
        widths[n] += max(0, len(heading[n]) - sum(group) - 2 * (spans - 1))
    if heading:
        parts = [" " * widths[0]]
        for n in range(1, len(heading), spans):
            parts.append(heading[n].center(sum(widths[n : n + spans]) + 2 * (spans - 1)))
        lines.append(f"  {'  '.join(parts)}".rstrip())
    for first, *rest in body:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key with numbers by size: kmalloc-8, kmalloc-64, kmalloc-1k."""
    unit = {"": 1, "k": 1 << 10, "M": 1 << 20}
    parts = re.findall(r"(\d+)([kM]?)(?![a-zA-Z])|(\D+|\d+)", text)
    return [(0, int(n) * unit[u], "") if n else (1, 0, rest) for n, u, rest in parts]
