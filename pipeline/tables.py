"""The tables of the summary: a probe's or workload's numbers, one column per kernel. Pure.

What stands in a cell is the mean over the boots, with the range of the values behind it where
they differ. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline import distributions, spending
from pipeline import plan as plans
from pipeline.attempts import counted
from pipeline.figures import TIME_UNITS, Numbers, aligned, natural, numbers, shown
from pipeline.model import BootResult, Cell, Phase, Plan, Run, Table


def render(run: Run, cell: Cell) -> list[str]:
    """All tables of one cell, as lines; those without a number are left out."""
    kernels = [kernel.name for kernel in run.plan.scenario.kernels]
    last = counted(run.evidence.boots)
    boots = [result for result in last if result.boot.cell == cell]
    lines: list[str] = []
    for table in run.plan.scenario.tables or default_tables(run.plan, boots, cell):
        if table.kernel:
            continue
        found = numbers(boots, _source(table, run.plan, cell))
        if found.values and _phases(table, found):
            lines += [_title(table, found), *_lines(table, found, kernels), ""]
    return lines


def across(run: Run) -> list[str]:
    """The tables that hold the guests beside each other, per architecture and configuration."""
    lines: list[str] = []
    for table in (each for each in run.plan.scenario.tables if each.kernel):
        for target in dict.fromkeys(cell.target for cell in run.plan.cells):
            lines += _across(table, run, target)
    return lines


def _across(table: Table, run: Run, target: str) -> list[str]:
    """The boots of one kernel, as if each guest were a kernel."""
    cells = [cell for cell in run.plan.cells if cell.target == target]
    boots = [
        replace(result, boot=replace(result.boot, kernel=result.boot.cell.guest))
        for result in counted(run.evidence.boots)
        if result.boot.cell in cells and result.boot.kernel == table.kernel
    ]
    guests = list(dict.fromkeys(cell.guest for cell in cells))
    sources = dict.fromkeys(_source(table, run.plan, cell) for cell in cells)
    lines: list[str] = []
    for source in sources:
        found = numbers(boots, source)
        if found.values and _phases(table, found):
            title = f"{target}: {_title(table, found)}, kernel {table.kernel}"
            lines += [title, *_lines(table, found, guests), ""]
    return lines


def default_tables(plan: Plan, boots: Sequence[BootResult], cell: Cell) -> tuple[Table, ...]:
    """For a scenario that names no tables: one for each source that gave numbers."""
    labels = [run.label for run in plan.scenario.workloads if run.label == cell.workload]
    found = [numbers(boots, source) for source in (*plans.probes_in(plan.scenario, cell), *labels)]
    return tuple(_default_table(each) for each in found if each.values)


def _default_table(found: Numbers) -> Table:
    kernels = {kernel for kernel, _, _ in found.values}
    keyed = all("." in metric for metric in found.metrics)
    columns = dict.fromkeys(metric.rpartition(".")[2] for metric in found.metrics)
    return Table(
        title=found.source,
        layout=distributions.layout_of(found) or ("per-key" if keyed else "per-phase"),
        source=found.source,
        columns=tuple(columns) if keyed else (),
        only_changed=keyed and len(kernels) > 1,
    )


def _source(table: Table, plan: Plan, cell: Cell) -> str:
    """A table of a workload names it, or the label under which it runs in this cell."""
    for run in plan.scenario.workloads:
        if run.label == cell.workload and table.source == run.name:
            return run.label
    return table.source


def _title(table: Table, found: Numbers) -> str:
    shown = {metric for metric in found.metrics if not table.metrics or metric in table.metrics}
    timing = any(found.units.get(metric) in TIME_UNITS for metric in shown)
    few = max(map(len, found.values.values()), default=0) < spending.FIRST
    return f"{table.title} — not judged" if timing and few else table.title


def _lines(table: Table, found: Numbers, kernels: Sequence[str]) -> list[str]:
    if table.layout == "per-key":
        return _per_key(table, found, kernels)
    if table.layout == "histogram":
        return distributions.histograms(found, kernels, _phases(table, found))
    if table.layout == "profile":
        return distributions.profile(table, found, kernels, _phases(table, found))
    return aligned([["", *kernels], *_phase_rows(table, found, kernels)])


def _phases(table: Table, found: Numbers) -> tuple[Phase, ...]:
    return tuple(phase for phase in found.phases if not table.phases or phase in table.phases)


def _phase_rows(table: Table, found: Numbers, kernels: Sequence[str]) -> list[list[str]]:
    """One row per phase and metric."""
    phases = _phases(table, found)
    metrics = [metric for metric in found.metrics if not table.metrics or metric in table.metrics]
    rows = []
    for phase in phases:
        for metric in metrics:
            values = [found.values.get((kernel, phase, metric), ()) for kernel in kernels]
            if any(values):
                label = _label(phase, metric, found, many=(len(phases) > 1, len(metrics) > 1))
                rows.append([label, *map(shown, values)])
    return rows


def _label(phase: Phase, metric: str, found: Numbers, *, many: tuple[bool, bool]) -> str:
    """Only what tells the rows apart; of the phase `during` also which reading it is."""
    phases, metrics = many
    when = f"{phase.value} (worst reading)" if phase is Phase.DURING else phase.value
    unit = found.units.get(metric, "")
    what = f"{metric} ({unit})" if unit else metric
    if phases and metrics:
        return f"{when}: {what}"
    return when if phases else what


def _per_key(table: Table, found: Numbers, kernels: Sequence[str]) -> list[str]:
    """One row per KEY of the metrics `KEY.column`, with all columns below each kernel."""
    phases = _phases(table, found)
    keys = {metric.rpartition(".")[0] for metric in found.metrics}
    head = ["", *(column for _ in kernels for column in table.columns)]
    rows = []
    for phase in phases:
        for key in sorted(keys, key=natural):
            values = [
                [
                    found.values.get((kernel, phase, f"{key}.{column}"), ())
                    for column in table.columns
                ]
                for kernel in kernels
            ]
            if _wanted(table, values, found, kernels):
                label = f"{key} ({phase.value})" if len(phases) > 1 else key
                rows.append([label, *(shown(each) for those in values for each in those)])
    if not rows:
        return ["  no difference between the kernels"]
    return aligned([_spanning(kernels, len(table.columns)), head, *rows], spans=len(table.columns))


def _wanted(
    table: Table,
    values: Sequence[Sequence[Sequence[float]]],
    found: Numbers,
    kernels: Sequence[str],
) -> bool:
    """Whether a row is shown: with `only_changed`, where the kernels that gave numbers differ."""
    if not table.only_changed:
        return any(any(those) for those in values)
    gave = {kernel for kernel, _, _ in found.values}
    different = {
        tuple(tuple(sorted(set(each))) for each in those)
        for kernel, those in zip(kernels, values, strict=True)
        if kernel in gave
    }
    return len(different) > 1


def _spanning(kernels: Sequence[str], columns: int) -> list[str]:
    return ["", *(cell for kernel in kernels for cell in (kernel, *[""] * (columns - 1)))]
