"""What the reports say of single boots: notes, attempts that were made again, events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pipeline import plan as plans
from pipeline.attempts import counted
from pipeline.model import BootResult, Cell, EventState, Run

NAMED = 3  # cells that are named for one note; there may be a hundred
NOTHING = "-"


def of(boots: Iterable[BootResult]) -> tuple[str, ...]:
    """The notes of these boots, each once."""
    return tuple(dict.fromkeys(note for each in counted(boots) for note in each.notes))


def lines(run: Run) -> Iterator[str]:
    """Each note once, with the cells in which it holds."""
    where: dict[str, dict[str, None]] = {}
    for each in counted(run.evidence.boots):
        for note in each.notes:
            where.setdefault(note, {})[each.boot.cell.name] = None
    for note, cells in where.items():
        named = ", ".join(list(cells)[:NAMED])
        more = f" and {len(cells) - NAMED} more" if len(cells) > NAMED else ""
        yield f"note on {named}{more}: {note}"


def events(run: Run, cell: Cell) -> list[str]:
    """A table of a cell's events: for each kernel the seconds until host and guest agreed."""
    scenario = run.plan.scenario
    kernels = [kernel.name for kernel in scenario.kernels]
    labels = list(
        dict.fromkeys(
            event.label
            for kernel in scenario.kernels
            for event in plans.events_of(scenario, cell, kernel)
        )
    )
    boots = [each for each in counted(run.evidence.boots) if each.boot.cell == cell]
    if not labels or not boots:
        return []
    seen = {
        (kernel, label): _seconds(boots, kernel, label) for kernel in kernels for label in labels
    }
    first = max(map(len, labels))
    widths = {
        kernel: max(len(kernel), *(len(seen[kernel, label]) for label in labels))
        for kernel in kernels
    }
    head = "  ".join(kernel.rjust(widths[kernel]) for kernel in kernels)
    rows = [
        f"  {label.ljust(first)}  "
        + "  ".join(seen[kernel, label].rjust(widths[kernel]) for kernel in kernels)
        for label in labels
    ]
    return [
        "Events: time until host and guest agreed (s) — not judged",
        f"  {' ' * first}  {head}",
        *rows,
        "",
    ]


def _seconds(boots: Iterable[BootResult], kernel: str, label: str) -> str:
    """The mean with its range, or what became of the event where it was not good."""
    states: Mapping[EventState, list[float]] = {state: [] for state in EventState}
    for each in boots:
        if each.boot.kernel == kernel:
            for event in each.events:
                if event.label == label:
                    states[event.state].append(event.seconds)
    worse = next((s.value for s, found in states.items() if found and s is not EventState.GOOD), "")
    good = states[EventState.GOOD]
    if worse or not good:
        return worse or NOTHING
    mean = f"{sum(good) / len(good):.2f}"
    least, most = f"{min(good):.2f}", f"{max(good):.2f}"
    return mean if least == most else f"{mean} [{least} … {most}]"
