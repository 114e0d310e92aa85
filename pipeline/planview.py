"""The text of `ktrial plan`: what a run would do, how long, and what it leaves out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pipeline.budget import Budget
from pipeline.estimate import MEASURED, BuildKind, Expectation
from pipeline.model import Cell, GuestShape, Plan
from pipeline.scheduler import Forecast

Item = TypeVar("Item")
Key = TypeVar("Key")

# A target with more cells than this is shown in groups.
MOST_ROWS = 16
# Of what is alike, so many are named.
NAMED = 2
UNMEASURED = "?"
ALONE = "alone"


@dataclass(frozen=True, kw_only=True)
class BuildOutlook:
    """A build that the plan needs."""

    target: str
    kernel: str
    kind: BuildKind
    expected: Expectation


@dataclass(frozen=True, kw_only=True)
class CellOutlook:
    """A cell that runs: what one of its boots takes. `memory`: MiB of the host."""

    cell: Cell
    shape: GuestShape
    expected: Expectation
    memory: int
    exclusive: bool
    boots: int  # of all kernels together


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """All that the text needs. `notes`: whatever else a reader should know, a line each."""

    plan: Plan
    builds: tuple[BuildOutlook, ...]
    cells: tuple[CellOutlook, ...]
    budget: Budget
    forecast: Forecast
    notes: tuple[str, ...] = ()


def render(outlook: Outlook) -> str:
    """The whole text, its lines short enough for a terminal."""
    parts = (_head(outlook), _targets(outlook), _skipped(outlook.plan), _sum(outlook))
    return "\n".join(line.rstrip() for part in parts for line in part) + "\n"


# --------------------------------------------------------------------------- what is run


def _head(outlook: Outlook) -> Iterator[str]:
    scenario = outlook.plan.scenario
    yield f"{scenario.name}: {scenario.title}"
    yield f"tree: {scenario.tree.name} (base {scenario.tree.base})"
    kernels = ", ".join(f"{kernel.name} ({kernel.role.value})" for kernel in scenario.kernels)
    yield f"kernels: {kernels}"
    if scenario.events:
        yield "events: " + ", ".join(f"{each.label} ({each.when})" for each in scenario.events)
    for note in dict.fromkeys((*scenario.notes, *outlook.notes)):
        yield f"note: {note}"
    yield ""


def _targets(outlook: Outlook) -> Iterator[str]:
    cells = _grouped(outlook.cells, lambda each: each.cell.target)
    builds = _grouped(outlook.builds, lambda each: each.target)
    for target in dict.fromkeys((*builds, *cells)):
        its = cells.get(target, [])
        yield f"{target}: {_count(len(its), 'cell')}, {_count(_boots(its), 'boot')}"
        for kind, same in _grouped(builds.get(target, []), lambda each: each.kind).items():
            names = _some([each.kernel for each in same])
            yield f"  {kind.value}: {names} ({_span(each.expected for each in same)})"
        yield from _table(its)
        yield ""


def _table(cells: list[CellOutlook]) -> Iterator[str]:
    """One row for each cell, or for each guest or workload, whichever are fewer."""
    if not cells:
        return
    groups = [[each] for each in cells]
    if len(groups) > MOST_ROWS:
        by_guest = _grouped(cells, lambda each: each.cell.guest)
        by_workload = _grouped(cells, lambda each: each.cell.workload)
        groups = list(min(by_guest, by_workload, key=len).values())
    head = ("guest", "vCPUs", "memory", "workload", "boots", "each", "in all", "")
    yield from _columns([head, *(_row(group) for group in groups)])


def _row(group: list[CellOutlook]) -> tuple[str, ...]:
    alone = sum(each.exclusive for each in group)
    beside = ALONE if alone == len(group) else f"{alone} of {len(group)} {ALONE}"
    return (
        _some([each.cell.guest for each in group]),
        _some([_vcpus(each.shape) for each in group]),
        f"{_range([each.memory for each in group])} MiB",
        _some([each.cell.workload for each in group]),
        str(_boots(group)),
        _span(each.expected for each in group),
        duration(_seconds(group)),
        beside if alone else "",
    )


def _vcpus(shape: GuestShape) -> str:
    if shape.vcpus == shape.max_vcpus:
        return str(shape.vcpus)
    return f"{shape.vcpus} of {shape.max_vcpus}"


# --------------------------------------------------------------------------- what is not, and sums


def _skipped(plan: Plan) -> Iterator[str]:
    """Cells of one reason stand together."""
    reasons = _grouped(plan.unsupported, lambda cell: plan.unsupported[cell])
    if not reasons:
        return
    yield f"skipped: {_count(len(plan.unsupported), 'cell')}"
    for reason, cells in reasons.items():
        yield f"  {_some([cell.name for cell in cells])}"
        yield f"    {reason}"
    yield ""


def _sum(outlook: Outlook) -> Iterator[str]:
    cells, builds, forecast = outlook.cells, outlook.builds, outlook.forecast
    yield (
        f"in all: {_count(len(builds), 'build')}, {_count(len(cells), 'cell')}, "
        f"{_count(_boots(cells), 'boot')}"
    )
    apart = _seconds(cells) + sum(each.expected.seconds for each in builds)
    yield f"time: about {duration(forecast.seconds)} (one after the other: {duration(apart)})"
    budget = outlook.budget
    yield f"memory: at most {forecast.memory} of {budget.memory} MiB; cores: {budget.cores:g}"
    if any(each.exclusive for each in cells):
        yield f"{ALONE}: times are measured, so that nothing else runs meanwhile"
    expected = [*(each.expected for each in cells), *(each.expected for each in builds)]
    if any(each.source != MEASURED for each in expected):
        yield f"{UNMEASURED}: not measured on this host yet, or not all of it"


# --------------------------------------------------------------------------- words


def duration(seconds: float) -> str:
    """As people say it: 45 s, 12 min, 2 h 05 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def _span(expected: Iterable[Expectation]) -> str:
    """The shortest to the longest, with a mark where one is not measured."""
    found = list(expected)
    seconds = sorted(each.seconds for each in found)
    mark = "" if all(each.source == MEASURED for each in found) else UNMEASURED
    low, high = duration(seconds[0]), duration(seconds[-1])
    return f"{low if low == high else f'{low} … {high}'}{mark}"


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


def _some(names: Sequence[str]) -> str:
    """Each name once; of many the first few and how many more."""
    found = list(dict.fromkeys(names))
    if len(found) <= NAMED + 1:
        return ", ".join(found)
    return f"{', '.join(found[:NAMED])} and {len(found) - NAMED} more"


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _boots(cells: Iterable[CellOutlook]) -> int:
    return sum(each.boots for each in cells)


def _seconds(cells: Iterable[CellOutlook]) -> float:
    return sum(each.boots * each.expected.seconds for each in cells)


def _columns(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield "  " + "  ".join(cells)


def _grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
