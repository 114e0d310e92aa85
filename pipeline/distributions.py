"""Tables of distributions: histograms as BCC's funclatency prints them, and profiles. Pure.

A histogram's metrics are called `NAME:1024ns.calls` (how many took from 1024 to 2047 ns) and
`NAME.calls`, `.total`, `.mean`, `.max`; those of a profile `SYMBOL.share`, in per cent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipeline.figures import NOTHING, Numbers, aligned, number, shown
from pipeline.model import Phase, Table

STARS = 40
ROWS = 20  # of a profile, where the table does not say
BUCKET = re.compile(r"(?P<name>.+):(?P<low>\d+)ns\.calls")
SHARE = ".share"
TICKS = "total.ticks"  # what the shares are of


def layout_of(found: Numbers) -> str:
    """The layout that these numbers ask for; "" for none of ours."""
    if any(map(BUCKET.fullmatch, found.metrics)):
        return "histogram"
    return "profile" if all(map(_is_of_a_profile, found.metrics)) else ""


def _is_of_a_profile(metric: str) -> bool:
    return metric.endswith(SHARE) or metric == TICKS


def histograms(found: Numbers, kernels: Sequence[str], phases: Sequence[Phase]) -> list[str]:
    """One for each function and kernel: the mean over its boots."""
    names = {match["name"]: None for each in found.metrics if (match := BUCKET.fullmatch(each))}
    lines: list[str] = []
    for name in names:
        for kernel in kernels:
            for phase in phases:
                lines += _histogram(found, name, kernel, phase)
    return lines or ["  no call was seen"]


def _histogram(found: Numbers, name: str, kernel: str, phase: Phase) -> Iterator[str]:
    counts = {
        int(match["low"]): _mean(found.values[kernel, phase, metric])
        for metric in found.metrics
        if (match := BUCKET.fullmatch(metric))
        and match["name"] == name
        and (kernel, phase, metric) in found.values
    }
    if not counts:
        return
    boots = max(len(found.values[key]) for key in found.values if key[0] == kernel)
    yield f"  {name}, {kernel}: mean of {boots} boots" if boots > 1 else f"  {name}, {kernel}"
    yield f"  {'nsecs':>23} : {'count':<10} distribution"
    most, low, last = max(counts.values()), min(counts), max(counts)
    while low <= last:
        count = counts.get(low, 0.0)
        stars = "*" * round(STARS * count / most)
        yield f"  {low:>10} -> {2 * low - 1:<10}: {count:<10.0f}|{stars:<{STARS}}|"
        low *= 2
    yield "  " + ", ".join(_sums(found, name, kernel, phase))
    yield ""


def _sums(found: Numbers, name: str, kernel: str, phase: Phase) -> Iterator[str]:
    for word, metric in (("avg", "mean"), ("total", "total"), ("max", "max"), ("count", "calls")):
        values = found.values.get((kernel, phase, f"{name}.{metric}"), ())
        unit = found.units.get(f"{name}.{metric}", "")
        if values:
            yield f"{word} = {shown(values)}{f' {unit}' if unit not in ('', '1') else ''}"


def profile(
    table: Table, found: Numbers, kernels: Sequence[str], phases: Sequence[Phase]
) -> list[str]:
    """Symbols by their largest share in any kernel, and by how much each differs from the first."""
    lines: list[str] = []
    gave = [kernel for kernel in kernels if any(key[0] == kernel for key in found.values)]
    for phase in phases:
        shares = {
            metric.removesuffix(SHARE): [
                _mean(found.values.get((kernel, phase, metric), ())) for kernel in gave
            ]
            for metric in found.metrics
            if metric.endswith(SHARE)
        }
        largest = sorted(shares, key=lambda each: (-max(shares[each]), each))[: table.most or ROWS]
        rows = [["", *gave, *(f"{kernel} - {gave[0]}" for kernel in gave[1:])]]
        for symbol in largest:
            first, *others = shares[symbol]
            rows.append(
                [
                    symbol,
                    *(f"{each:.2f}%" if each else NOTHING for each in (first, *others)),
                    *(f"{each - first:+.2f}%" for each in others),
                ]
            )
        lines += aligned(rows)
        left = len(shares) - len(largest)
        lines += [f"  and {number(left)} with smaller shares"] if left else []
    return lines


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
