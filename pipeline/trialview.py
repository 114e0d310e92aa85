"""The tables of a run's trials, as text. Pure.

The first has the layout of mmtests, which kernel developers post: Hmean of what is better when it
is higher, Amean of what is better when it is lower, the gain in percent (positive is better) and a
star. The star means what a reader takes it for: the corrected interval excludes no change. Below
it stands what decides: the interval, and the two questions.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from pipeline import power, spending, trials
from pipeline.effects import Judgement
from pipeline.model import Better, Run
from pipeline.trials import Compared

METHOD = (
    "Intervals: Student's t on the logarithms of the ratios of boots in one block, at {:.3g} for "
    "each comparison and all its looks (Bonferroni over {} comparisons, 0.05 in all; "
    "looks by a spending function of Hwang, Shih and DeCani)."
)
NO_BOUND = 100.0  # a factor that no patch has
EXAMPLES = (0.05, 0.02, 0.01)  # effects for which the boots that they take are told


def lines(run: Run) -> list[str]:
    """All trials of a run; empty where it has none."""
    found = trials.compare(run.plan, run.evidence.boots)
    if not found:
        return []
    members = trials.family(run.plan, [b for b in run.evidence.boots if b.samples])
    told: list[str] = []
    for (cell, name), group in _groups(found).items():
        told += [f"trial {name} in {cell}", "", *_means(group), "", *_answers(group), ""]
        told += [*_remarks(group)]
    return [*told, METHOD.format(spending.ALPHA / members, members), *_boots(found, members), ""]


def _groups(found: Iterable[Compared]) -> dict[tuple[str, str], list[Compared]]:
    groups: dict[tuple[str, str], list[Compared]] = {}
    for each in found:
        groups.setdefault((each.cell.name, each.trial), []).append(each)
    return groups


# ------------------------------------------------------------------- as mmtests has it


def _means(group: Sequence[Compared]) -> Iterator[str]:
    """A row for each metric, a column for each kernel; base once, in front."""
    bases = list(dict.fromkeys(each.base for each in group))
    for base in bases:
        those = [each for each in group if each.base == base]
        kernels = list(dict.fromkeys(each.kernel for each in those))
        rows = [["", "", base, *kernels]]
        for metric in dict.fromkeys(each.metric for each in those):
            row = {each.kernel: each for each in those if each.metric == metric}
            first = next(iter(row.values()))
            rows.append(
                [
                    "Hmean" if first.better is Better.HIGHER else "Amean",
                    f"{first.name} ({first.unit})" if first.unit else first.name,
                    f"{_number(mean(first.base_values, first.better))} (   0.00%)",
                    *(_cell(row[kernel]) if kernel in row else "-" for kernel in kernels),
                ]
            )
        yield from _aligned(rows, left=2)


def mean(values: Sequence[float], better: Better) -> float | None:
    """The harmonic mean of what is better when it is higher, else the arithmetic one."""
    if not values:
        return None
    if better is Better.HIGHER and min(values) > 0:
        return statistics.harmonic_mean(values)
    return statistics.fmean(values)


def _cell(each: Compared) -> str:
    now, before = mean(each.values, each.better), mean(each.base_values, each.better)
    if now is None or not before:
        return f"{_number(now)} (       -)"
    gain = (now - before) / before * (1 if each.better is Better.HIGHER else -1)
    before_it, behind_it = ("*", "*") if each.effect and each.effect.detected else ("(", ")")
    return f"{_number(now)} {before_it}{100 * gain:7.2f}%{behind_it}"


# ------------------------------------------------------------------- what decides


def _answers(group: Sequence[Compared]) -> Iterator[str]:
    rows = [["", "ratio", "interval", "detected", "matters", "noise", "verdict"]]
    for each in group:
        label = f"{each.name}, {each.kernel} / {each.base}"
        found = each.effect
        if found is None:
            rows.append([label, "-", "-", "-", "-", "-", f"inconclusive: {each.problem}"])
            continue
        rows.append(
            [
                label,
                f"{found.ratio:.4f}",
                f"{_bound(found.low)} … {_bound(found.high)}",
                "yes" if found.detected else "no",
                f"{found.matters(each.margin).value} (at {100 * each.margin:g} %)",
                f"{100 * found.noise:.2g} %",
                verdict(each),
            ]
        )
    yield from _aligned(rows, left=1)


def _bound(ratio: float) -> str:
    """An end of an interval; few boots can leave it where it excludes nothing anybody believes."""
    return f"{ratio:.4f}" if 1 / NO_BOUND < ratio < NO_BOUND else "no bound"


def verdict(each: Compared) -> str:
    """In words; of one that is inconclusive what could have been seen, and what it would take."""
    if each.judgement is not Judgement.INCONCLUSIVE or each.detectable is None:
        words = each.judgement.value
        return f"{words}: {each.problem}" if each.problem else words
    words = f"inconclusive: these boots would have seen {_percent(each.detectable)}"
    if each.boots_for_margin and each.boots_for_margin < power.MOST:
        words += f"; for {100 * each.margin:g} % it takes {each.boots_for_margin} boots a side"
    return words


def _remarks(group: Sequence[Compared]) -> Iterator[str]:
    notes = [f"  ! {each.name}: {note}" for each in group for note in each.notes]
    yield from dict.fromkeys(notes)
    if notes:
        yield ""


def _boots(found: Sequence[Compared], members: int) -> Iterator[str]:
    """How many boots a side an effect takes at the noise that was seen."""
    noisy = [each for each in found if each.effect and each.effect.noise > power.SURE]
    if not noisy:
        return
    worst = max(noisy, key=lambda each: each.effect.noise if each.effect else 0.0)
    assert worst.effect is not None
    noise, level = worst.effect.noise, spending.ALPHA / members
    parts = []
    for effect in EXAMPLES:
        boots = power.boots_for(effect, noise=noise, level=level)
        parts.append(f"{100 * effect:g} %: {boots if boots < power.MOST else 'more than any'}")
    yield (
        f"Boots a side to detect an effect at the noise of {worst.name} "
        f"({100 * noise:.2g} %), 95 % power: {', '.join(parts)}."
    )


def _percent(share: float) -> str:
    if share >= 10:
        return "nothing below a factor of 10"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return (
        f"{value:.0f}"
        if abs(value) >= 100000
        else f"{value:.2f}"
        if value >= 10
        else f"{value:.4g}"
    )


def _aligned(rows: Sequence[Sequence[str]], *, left: int) -> Iterator[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = [
            text.ljust(width) if n < left or n == len(row) - 1 else text.rjust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()
