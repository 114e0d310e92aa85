"""Scenarios: `patches/NAME/scenario.toml`, or what the command line describes in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline import catalog
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.model import (
    CellPattern,
    Configuration,
    Event,
    ImageRecipe,
    KernelPlan,
    ProbeSpec,
    Role,
    Scenario,
    Series,
    TreeSpec,
    WorkloadRun,
)
from pipeline.scenariofile import (
    FILE,
    KernelEntry,
    Scalar,
    ScenarioFile,
    Variant,
    WorkloadEntry,
    check_name,
)

# The cases that every kernel has besides its workload.
TAKEN = ("apply", "build", "boot", "shape")
ALL = "all"
ReadFiles = Callable[[Sequence[Path], str], Series]
Bind = Callable[[str, str, Mapping[str, Scalar]], WorkloadRun]


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """What the command line says in place of the scenario; empty means as the scenario says."""

    architectures: tuple[str, ...] = ()
    kconfigs: tuple[str, ...] = ()
    guests: tuple[str, ...] = ()
    image: str = ""
    workloads: tuple[WorkloadEntry, ...] = ()
    probes: tuple[str, ...] = ()
    boots: int = 0
    configurations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    include: tuple[CellPattern, ...] = ()
    exclude: tuple[CellPattern, ...] = ()
    events: tuple[Event, ...] = ()
    table_override: bool | None = None
    checks: tuple[str, ...] = ()
    deterministic: bool = False


def version_key(version: str) -> tuple[int, ...]:
    """5.10.262-rc1 as numbers to compare by: (5, 10, 262)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("-", maxsplit=1)[0]))


def _chosen(found: ScenarioFile, version: str) -> Variant | None:
    fitting = [v for v in found.variants if version_key(version) >= version_key(v.since)]
    return max(fitting, key=lambda variant: version_key(variant.since), default=None)


def resolve(
    found: ScenarioFile,
    *,
    tree: TreeSpec,
    version: str,
    shelf: Catalog,
    native: str,
    read_files: ReadFiles,
    bind: Bind,
) -> Scenario:
    """The scenario for a tree of that kernel version, with every name looked up."""
    variant = _chosen(found, version)
    kernels = variant.kernels if variant else found.kernels
    scenario = Scenario(
        name=found.name,
        title=found.title,
        posted=found.posted,
        tree=tree,
        kernels=tuple(_kernel(found.folder, kernel, read_files) for kernel in kernels),
        architectures=found.architectures or (native,),
        fragments=found.kconfigs,
        guests=found.guests,
        guests_on=found.guests_on,
        image=found.image,
        workloads=_workloads(found.workloads, bind),
        probes=found.probes,
        boots=found.boots,
        tables=found.tables,
        configurations=_configurations(found.configurations),
        include=found.include,
        exclude=found.exclude,
        events=labelled(found.events),
        table_override=found.table_override,
        expected=tuple(replace(each, origin=found.name) for each in found.expected),
        checks=found.checks,
        trials=found.trials,
        deterministic=found.deterministic,
        probe_parameters=found.probe_parameters,
        variant=variant.name if variant else "",
        notes=(variant.note,) if variant and variant.note else (),
    )
    return checked(scenario, shelf)


def _kernel(folder: Path, entry: KernelEntry, read_files: ReadFiles) -> KernelPlan:
    paths = [folder / name for name in entry.patches]
    for path in paths:
        if not path.is_file():
            raise UserError(f"{folder / FILE}: kernels: {path} is not there")
    series = read_files(paths, entry.name) if paths else None
    return KernelPlan(
        name=entry.name,
        role=entry.role,
        on=entry.on,
        series=series,
        of=entry.of,
        configuration=entry.configuration,
        cmdline=entry.cmdline,
        settings=entry.settings,
        guest=entry.guest,
        events=entry.events,
    )


def _workloads(entries: Sequence[WorkloadEntry], bind: Bind) -> tuple[WorkloadRun, ...]:
    runs: list[WorkloadRun] = []
    for entry in entries:
        label = entry.label or (f"{entry.use}-only" if entry.use in TAKEN else entry.use)
        check_name(label, "workloads: label ")
        if label in TAKEN:
            raise UserError(f"a workload cannot be called “{label}”", hint="choose another label")
        if any(run.label == label for run in runs):
            raise UserError(f"two workloads are called “{label}”", hint="give one another label")
        bound = bind(entry.use, label, entry.parameters or {})
        runs.append(
            replace(
                bound,
                repeat=entry.repeat,
                probes=entry.probes,
                counted=entry.counted,
                boots=entry.boots,
            )
        )
    return tuple(runs)


def _configurations(table: Mapping[str, tuple[str, ...]]) -> tuple[Configuration, ...]:
    for name in table:
        check_name(name, "configurations: ")
    return tuple(Configuration(name=name, fragments=given) for name, given in table.items())


def labelled(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events without a label are called after what they do, the second of a kind with a number."""
    made: list[Event] = []
    for event in events:
        if event.label:
            check_name(event.label, "events: label ")
        of_kind = sum(each.action is event.action for each in made) + 1
        plain = event.action.value if of_kind == 1 else f"{event.action.value}-{of_kind}"
        label = event.label or plain
        if any(each.label == label for each in made):
            raise UserError(f"two events are called “{label}”", hint="give one another label")
        made.append(replace(event, label=label))
    return tuple(made)


def for_series(
    kernels: tuple[KernelPlan, ...],
    *,
    name: str,
    title: str,
    tree: TreeSpec,
    native: str,
) -> Scenario:
    """What is tried when nobody says more: one small guest, hackbench, memory before and after."""
    return Scenario(
        name=name,
        title=title,
        posted="",
        tree=tree,
        kernels=kernels,
        architectures=(native,),
        fragments=(),
        guests=("smp2",),
        image="bench",
        workloads=(),
        probes=("slab-memory",),
        boots=1,
    )


def against_itself(scenario: Scenario) -> Scenario:
    """The tree of a scenario compared with itself: its one kernel under two names."""
    only = scenario.kernels[0]
    base = replace(only, name="base", role=Role.BASE)
    again = KernelPlan(name="again", role=Role.PATCHED, of=base.name)
    return replace(scenario, name="calibration", kernels=(base, again))


def override(scenario: Scenario, wanted: Overrides, *, shelf: Catalog, bind: Bind) -> Scenario:
    """The scenario as the command line wants it. The guest `all` is every shape there is."""
    guests = tuple(shelf.guests) if wanted.guests == (ALL,) else wanted.guests
    changed = replace(
        scenario,
        architectures=tuple(
            dict.fromkeys(shelf.architecture(name).name for name in wanted.architectures)
        )
        or scenario.architectures,
        fragments=tuple(dict.fromkeys((*scenario.fragments, *wanted.kconfigs))),
        guests=guests or scenario.guests,
        guests_on={} if guests else scenario.guests_on,
        image=wanted.image or scenario.image,
        workloads=_workloads(wanted.workloads, bind) or scenario.workloads,
        probes=wanted.probes or scenario.probes,
        boots=wanted.boots or scenario.boots,
        configurations=_configurations(wanted.configurations) or scenario.configurations,
        events=labelled(wanted.events) or scenario.events,
        table_override=(
            scenario.table_override if wanted.table_override is None else wanted.table_override
        ),
        checks=tuple(dict.fromkeys((*scenario.checks, *wanted.checks))),
        deterministic=wanted.deterministic or scenario.deterministic,
    )
    changed = replace(
        changed,
        include=wanted.include or _left(scenario.include, changed),
        exclude=wanted.exclude
        or tuple(
            each
            for each in _left(scenario.exclude, changed)
            if each.guest in ("", *_guests(changed))
        ),
    )
    return checked(changed, shelf)


def _left(patterns: Sequence[CellPattern], changed: Scenario) -> tuple[CellPattern, ...]:
    """A scenario's own patterns without those that name what this run leaves out."""
    configurations = {each.name for each in changed.configurations}
    labels = {each.label for each in changed.workloads}
    return tuple(
        each
        for each in patterns
        if each.architecture in ("", *changed.architectures)
        and each.configuration in ("", *configurations)
        and each.workload in ("", *labels)
    )


def _guests(scenario: Scenario) -> tuple[str, ...]:
    return (*scenario.guests, *(each for them in scenario.guests_on.values() for each in them))


def checked(scenario: Scenario, shelf: Catalog) -> Scenario:
    """The scenario, once every name in it is known and its image has what is needed."""
    names = [shelf.architecture(name).name for name in scenario.architectures]
    on = {shelf.architecture(name).name: guests for name, guests in scenario.guests_on.items()}
    others = filter(None, (kernel.guest for kernel in scenario.kernels))
    for guest in (*_guests(scenario), *others):
        catalog.pick("guest", guest, shelf.guests)
    fragments = [name for each in scenario.configurations for name in each.fragments]
    for fragment in (*scenario.fragments, *fragments):
        catalog.pick("kconfig fragment", fragment, shelf.fragments)
    theirs = (name for run in scenario.workloads for name in run.probes)
    probes = [catalog.pick("probe", name, shelf.probes) for name in (*scenario.probes, *theirs)]
    for name in scenario.probe_parameters:
        catalog.pick("probe (probe_parameters)", name, shelf.probes)
    if "/" not in scenario.image:  # what a disk of the user's holds, nobody knows
        catalog.pick("image", scenario.image, shelf.images)
        _check_programs(scenario, shelf.images, probes)
    for run in scenario.workloads:
        if run.label in (*scenario.probes, *run.probes):
            raise UserError(f"“{run.label}” is a probe and a workload", hint="give it a label")
    return replace(
        scenario,
        architectures=tuple(dict.fromkeys(names)),
        guests=tuple(dict.fromkeys(scenario.guests)),
        guests_on=on,
        include=tuple(_pattern(each, shelf) for each in scenario.include),
        exclude=tuple(_pattern(each, shelf) for each in scenario.exclude),
        probes=tuple(dict.fromkeys(scenario.probes)),
    )


def _check_programs(
    scenario: Scenario, images: Mapping[str, ImageRecipe], probes: Sequence[ProbeSpec]
) -> None:
    recipe = images[scenario.image]
    needs = {need: run.label for run in scenario.workloads for need in run.spec.needs}
    needs |= {need: probe.name for probe in probes for need in probe.needs}
    for need, wanted_by in needs.items():
        if need not in recipe.programs:
            others = [name for name, each in images.items() if need in each.programs]
            raise UserError(
                f"{wanted_by} needs {need}, which image “{recipe.name}” does not have",
                hint=f"--image {others[0]} has it" if others else "no image has it",
            )


def _pattern(pattern: CellPattern, shelf: Catalog) -> CellPattern:
    """With the architecture's own name in place of an alias, and a guest that is known."""
    if pattern.guest:
        catalog.pick("guest", pattern.guest, shelf.guests)
    name = shelf.architecture(pattern.architecture).name if pattern.architecture else ""
    return replace(pattern, architecture=name)
