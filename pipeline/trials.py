"""From the boots of a run to its trials: every metric of every kernel against the one below. Pure.

What is compared is fixed by the plan: so many cells, kernels and metrics make a family, and the
error rate holds for all of them together and for every look (`spending`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from pipeline import effects, oddities, plan, power, spending
from pipeline.attempts import counted
from pipeline.effects import Effect, Judgement
from pipeline.model import (
    Better,
    BootResult,
    Cell,
    KernelPlan,
    Phase,
    Plan,
    Role,
    Sample,
    Scenario,
    Trial,
)

AUTOMATIC = "times"  # the trial of a run whose scenario names none
Metric = tuple[str, Phase, str]  # source, phase, name


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One metric of one kernel in one cell, against `base`, boot by boot.

    `base_values` and `values` are of the same blocks, in their order. `detectable`: the smallest
    effect that these boots would have seen (0.05: a factor of 1.05); `boots_for_margin`: how many
    of each kernel it takes at this noise to tell no change from the margin. `problem`: why there
    is no effect. `notes`: outliers, two heaps.
    """

    trial: str
    cell: Cell
    base: str
    kernel: str
    metric: Metric
    unit: str
    better: Better
    margin: float
    base_values: tuple[float, ...]
    values: tuple[float, ...]
    judgement: Judgement = Judgement.INCONCLUSIVE
    effect: Effect | None = None
    detectable: float | None = None
    boots_for_margin: int | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """SOURCE/METRIC, with @PHASE behind a probe's."""
        return shown(self.metric)


def shown(metric: Metric) -> str:
    """SOURCE/METRIC of a workload, SOURCE/METRIC@PHASE of a probe."""
    source, phase, name = metric
    return f"{source}/{name}" + ("" if phase is Phase.WORKLOAD else f"@{phase.value}")


def wanted(scenario: Scenario) -> tuple[Trial, ...]:
    """The scenario's trials. Where it names none and boots often enough: all that its workloads
    measure."""
    if scenario.trials or scenario.boots < spending.FIRST:
        return scenario.trials
    measured = [run for run in scenario.workloads if run.spec.readings and not run.counted]
    if not measured or not pairs(scenario, Trial(name=AUTOMATIC, metrics=())):
        return ()
    return (Trial(name=AUTOMATIC, metrics=tuple(f"{run.label}/*" for run in measured)),)


def in_cell(scenario: Scenario, cell: Cell) -> tuple[Trial, ...]:
    """The trials that have something to compare in a cell: its workload, or a probe read there."""
    run = scenario.workload(cell.workload)
    timed = () if run is None or run.counted else (run.label,)
    sources = (*timed, *plan.probes_in(scenario, cell))
    return tuple(each for each in wanted(scenario) if _reads(each, sources))


def _reads(trial: Trial, sources: Iterable[str]) -> bool:
    patterns = [name.partition("/")[0] for name in trial.metrics]
    return any(fnmatchcase(each, pattern) for each in sources for pattern in patterns)


def pairs(scenario: Scenario, trial: Trial) -> tuple[tuple[KernelPlan, KernelPlan], ...]:
    """(base, kernel) for each kernel of a trial."""
    known = {kernel.name: kernel for kernel in scenario.kernels if kernel.boots}
    names = trial.kernels or tuple(
        name for name, kernel in known.items() if _is_compared(kernel, trial)
    )
    found: list[tuple[KernelPlan, KernelPlan]] = []
    for name in names:
        kernel = known[name]
        below = known[trial.base] if trial.base else plan.below(scenario, kernel)
        if below is not None and below.boots and below.name != name:
            found.append((below, kernel))
    return tuple(found)


def _is_compared(kernel: KernelPlan, trial: Trial) -> bool:
    return kernel.role is Role.PATCHED or bool(trial.base and kernel.name != trial.base)


def compare(
    made: Plan, boots: Iterable[BootResult], cell: Cell | None = None
) -> tuple[Compared, ...]:
    """Every comparison of a plan, as far as its boots have come, or those of one cell."""
    last = [each for each in counted(boots) if each.samples]
    members = family(made, last)
    cells = [cell] if cell else [each for each in made.cells if each not in made.unsupported]
    return tuple(
        _judged(each, made, members)
        for place in cells
        for trial in in_cell(made.scenario, place)
        for each in _in_cell(made, trial, place, last)
    )


def family(made: Plan, boots: Sequence[BootResult]) -> int:
    """How many comparisons the plan makes in all. Metrics are counted where they were seen: a cell
    that has not booted yet is taken to have as many as the others."""
    whole = 0
    for trial in wanted(made.scenario):
        cells = [
            each
            for each in made.cells
            if each not in made.unsupported and trial in in_cell(made.scenario, each)
        ]
        most = max((len(_metrics(trial, boots, cell)) for cell in cells), default=0)
        whole += max(1, most) * len(cells) * len(pairs(made.scenario, trial))
    return max(1, whole)


def _metrics(trial: Trial, boots: Iterable[BootResult], cell: Cell) -> dict[Metric, Sample]:
    found: dict[Metric, Sample] = {}
    for each in boots:
        for sample in each.samples if each.boot.cell == cell else ():
            metric = sample.source, sample.phase, sample.metric
            if metric not in found and any(_matches(metric, name) for name in trial.metrics):
                found[metric] = sample
    return found


def _matches(metric: Metric, pattern: str) -> bool:
    return fnmatchcase(shown(metric), pattern)


def _in_cell(
    made: Plan, trial: Trial, cell: Cell, boots: Sequence[BootResult]
) -> Iterable[Compared]:
    metrics = _metrics(trial, boots, cell)
    for base, kernel in pairs(made.scenario, trial):
        for metric, sample in metrics.items():
            yield _gathered(
                Compared(
                    trial=trial.name,
                    cell=cell,
                    base=base.name,
                    kernel=kernel.name,
                    metric=metric,
                    unit=sample.unit,
                    better=sample.better,
                    margin=trial.margin,
                    base_values=(),
                    values=(),
                ),
                boots,
            )


def _gathered(empty: Compared, boots: Sequence[BootResult]) -> Compared:
    """With the values of the blocks in which both kernels gave one."""
    old, units_before = _values(empty, empty.base, boots)
    new, units_now = _values(empty, empty.kernel, boots)
    blocks = sorted(old.keys() & new.keys())
    problem = ""
    if len(units_before | units_now) > 1:
        problem = f"its unit changes: {', '.join(sorted(units_before | units_now))}"
    elif not blocks:
        lacking = [name for name, have in ((empty.base, old), (empty.kernel, new)) if not have]
        problem = f"no boot of {' or '.join(lacking) or 'both in one block'} gave it"
    elif any(value <= 0 for block in blocks for value in (old[block], new[block])):
        problem = "a value is not positive, so that there is no ratio"
    return replace(
        empty,
        base_values=tuple(old[block] for block in blocks),
        values=tuple(new[block] for block in blocks),
        problem=problem,
    )


def _values(
    about: Compared, kernel: str, boots: Sequence[BootResult]
) -> tuple[dict[int, float], set[str]]:
    """The mean of each boot, by block, and the units in which it was given."""
    found: dict[int, float] = {}
    units: set[str] = set()
    for each in boots:
        if (each.boot.cell, each.boot.kernel) != (about.cell, kernel):
            continue
        its = [s for s in each.samples if (s.source, s.phase, s.metric) == about.metric]
        if its:
            found[each.boot.block] = statistics.fmean(sample.value for sample in its)
            units |= {sample.unit for sample in its}
    return found, units


def _judged(given: Compared, made: Plan, members: int) -> Compared:
    """With the effect, and what it comes to."""
    if given.problem:
        return given
    blocks = len(given.values)
    if blocks < 2:
        return replace(given, problem="one boot of each kernel tells nothing of the noise")
    level = spending.ALPHA / members
    if made.sequential:
        most = plan.boots_in(made.scenario, given.cell)
        level = spending.level_after(blocks, max(most, blocks), level)
    found = effects.effect(given.base_values, given.values, level=level)
    sides = ((given.base, given.base_values), (given.kernel, given.values))
    return replace(
        given,
        effect=found,
        judgement=effects.judge(found, given.better, given.margin),
        detectable=power.detectable(noise=found.noise, blocks=blocks, level=level),
        boots_for_margin=power.boots_for_margin(
            noise=found.noise, level=spending.ALPHA / members, margin=given.margin
        ),
        notes=tuple(note for name, values in sides for note in _odd(name, values)),
    )


def _odd(name: str, values: Sequence[float]) -> Iterable[str]:
    for position in oddities.outliers(values):
        yield f"{name}: block {position} lies far from the others: {values[position]:g}"
    if heaps := oddities.two_heaps(values):
        yield f"{name}: the boots fall into two heaps, around {heaps[0]:g} and {heaps[1]:g}"


def is_clear(found: Iterable[Compared]) -> bool:
    """Whether more boots would tell nothing that is asked: nothing is inconclusive."""
    compared = tuple(found)
    return bool(compared) and all(each.judgement is not Judgement.INCONCLUSIVE for each in compared)


def by_place(found: Iterable[Compared]) -> Mapping[tuple[Cell, str, str], tuple[Compared, ...]]:
    """By cell, kernel and trial, in their order."""
    groups: dict[tuple[Cell, str, str], tuple[Compared, ...]] = {}
    for each in found:
        key = each.cell, each.kernel, each.trial
        groups[key] = (*groups.get(key, ()), each)
    return groups
