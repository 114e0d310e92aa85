"""Scenarios: `patches/NAME/scenario.toml`, or what the command line describes in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline import catalog, schema
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.model import (
    CellPattern,
    Configuration,
    Event,
    Expected,
    ImageRecipe,
    KernelPlan,
    ProbeSpec,
    Role,
    Scenario,
    Series,
    Table,
    TreeSpec,
    Trial,
    WorkloadRun,
)

FILE = "scenario.toml"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
# The cases that every kernel has besides its workload.
TAKEN = ("apply", "build", "boot", "shape")
ALL = "all"
PER_KEY = "per-key"
LAYOUTS = (PER_KEY, "per-phase")
Scalar = str | int | float | bool
ReadFiles = Callable[[Sequence[Path], str], Series]
Bind = Callable[[str, str, Mapping[str, Scalar]], WorkloadRun]


@dataclass(frozen=True, kw_only=True)
class KernelEntry:
    """A kernel in the file: the patches (file names) on top of base or of another kernel, or
    another kernel's source (`of`) under other conditions (see `KernelPlan`)."""

    name: str
    role: Role
    on: str | None = None
    patches: tuple[str, ...] = ()
    of: str | None = None
    configuration: str = ""
    guest: str = ""
    cmdline: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    events: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class WorkloadEntry:
    """A workload in the file, with the parameters that differ from its defaults."""

    use: str
    label: str = ""
    parameters: Mapping[str, Scalar] | None = None


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Other kernels for other trees: used where the tree's version is at least `since`."""

    name: str
    since: str
    note: str
    kernels: tuple[KernelEntry, ...]


@dataclass(frozen=True, kw_only=True)
class ScenarioFile:
    """The keys of scenario.toml."""

    folder: Path
    title: str
    tree: str
    kernels: tuple[KernelEntry, ...]
    guests: tuple[str, ...]
    posted: str = ""
    base: str = "HEAD"
    summary: str = ""
    architectures: tuple[str, ...] = ()
    kconfigs: tuple[str, ...] = ()
    image: str = "bench"
    workloads: tuple[WorkloadEntry, ...] = ()
    guests_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    probes: tuple[str, ...] = ()
    boots: int = 1
    tables: tuple[Table, ...] = ()
    variants: tuple[Variant, ...] = ()
    configurations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    include: tuple[CellPattern, ...] = ()
    exclude: tuple[CellPattern, ...] = ()
    events: tuple[Event, ...] = ()
    table_override: bool = True
    expected: tuple[Expected, ...] = ()
    checks: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.name


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


def load(folder: Path) -> ScenarioFile:
    """Read and check a scenario's file. UserError names the file, the key and what to type."""
    path = folder / FILE
    found = schema.read(path, ScenarioFile, folder=folder)
    for kernels in (found.kernels, *(variant.kernels for variant in found.variants)):
        _check_kernels(path, kernels)
    if found.boots < 1:
        raise UserError(f"{path}: boots: expected 1 or more, not {found.boots}")
    _check_tables(path, found)
    _check_trials(path, found)
    return found


def _check_trials(path: Path, found: ScenarioFile) -> None:
    """A trial of what is not there would tell nothing, at the end of a long run."""
    where = f"in {path}: trials"
    everywhere = (found.kernels, *(variant.kernels for variant in found.variants))
    kernels = dict.fromkeys(kernel.name for kernels in everywhere for kernel in kernels)
    names = (name for each in found.workloads for name in (each.use, each.label))
    sources = dict.fromkeys((*found.probes, *filter(None, names)))
    for trial in found.trials:
        for kernel in (*filter(None, (trial.base,)), *trial.kernels):
            catalog.pick(f"kernel {where}", kernel, kernels)
        for metric in trial.metrics:
            catalog.pick(f"source {where}", metric.partition("/")[0], sources)
        if not trial.metrics or trial.margin <= 0:
            raise UserError(f"{path}: trials: “{trial.name}” has no metrics, or no margin above 0")


def _check_tables(path: Path, found: ScenarioFile) -> None:
    """A table that can never have a number is a slip of the pen."""
    where = f"in {path}: tables"
    sources = (
        *found.probes,
        *(name for each in found.workloads for name in (each.use, each.label)),
    )
    everywhere = (found.kernels, *(variant.kernels for variant in found.variants))
    kernels = {kernel.name for kernels in everywhere for kernel in kernels}
    for table in found.tables:
        catalog.pick(f"layout {where}", table.layout, dict.fromkeys(LAYOUTS))
        catalog.pick(f"source {where}", table.source, dict.fromkeys(filter(None, sources)))
        if table.kernel:
            catalog.pick(f"kernel {where}", table.kernel, dict.fromkeys(kernels))
        if table.layout == PER_KEY and not table.columns:
            raise UserError(f"{path}: tables: “{table.title}” has no columns", hint="name them")


def _check_kernels(path: Path, kernels: tuple[KernelEntry, ...]) -> None:
    seen: dict[str, KernelEntry] = {}
    for kernel in kernels:
        if kernel.name in seen:
            raise UserError(f"{path}: kernels: “{kernel.name}” is there twice")
        _check_name(kernel.name, f"{path}: kernels: ")
        for key, named in (("on", kernel.on), ("of", kernel.of)):
            if named is not None:
                catalog.pick(f"kernel in {path}: {key} =", named, seen)
        if kernel.of and (kernel.on or kernel.patches or seen[kernel.of].of):
            raise UserError(
                f"{path}: kernels: “{kernel.name}” is {kernel.of} under other conditions",
                hint="leave out its `on` and `patches`, and name a kernel that has its own source",
            )
        seen[kernel.name] = kernel
    if not any(kernel.role is Role.PATCHED for kernel in kernels):
        raise UserError(f"{path}: kernels: none is on trial", hint='give one role = "patched"')


def _check_name(name: str, where: str = "") -> None:
    """Names get into the names of cases and into paths."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"{where}“{name}” is no name", hint="use lower-case letters, digits, - and _"
        )


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
        guest=entry.guest,
        cmdline=entry.cmdline,
        settings=entry.settings,
        events=entry.events,
    )


def _workloads(entries: Sequence[WorkloadEntry], bind: Bind) -> tuple[WorkloadRun, ...]:
    runs: list[WorkloadRun] = []
    for entry in entries:
        label = entry.label or entry.use
        _check_name(label, "workloads: label ")
        if label in TAKEN:
            raise UserError(f"a workload cannot be called “{label}”", hint="choose another label")
        if any(run.label == label for run in runs):
            raise UserError(f"two workloads are called “{label}”", hint="give one another label")
        runs.append(bind(entry.use, label, entry.parameters or {}))
    return tuple(runs)


def _configurations(table: Mapping[str, tuple[str, ...]]) -> tuple[Configuration, ...]:
    for name in table:
        _check_name(name, "configurations: ")
    return tuple(Configuration(name=name, fragments=given) for name, given in table.items())


def labelled(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events without a label are called after what they do, the second of a kind with a number."""
    made: list[Event] = []
    for event in events:
        if event.label:
            _check_name(event.label, "events: label ")
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
        include=wanted.include or scenario.include,
        exclude=wanted.exclude or scenario.exclude,
        events=labelled(wanted.events) or scenario.events,
        table_override=(
            scenario.table_override if wanted.table_override is None else wanted.table_override
        ),
        checks=tuple(dict.fromkeys((*scenario.checks, *wanted.checks))),
    )
    return checked(changed, shelf)


def checked(scenario: Scenario, shelf: Catalog) -> Scenario:
    """The scenario, once every name in it is known and its image has what is needed."""
    names = [shelf.architecture(name).name for name in scenario.architectures]
    on = {shelf.architecture(name).name: guests for name, guests in scenario.guests_on.items()}
    for guest in (*scenario.guests, *(each for guests in on.values() for each in guests)):
        catalog.pick("guest", guest, shelf.guests)
    fragments = [name for each in scenario.configurations for name in each.fragments]
    for fragment in (*scenario.fragments, *fragments):
        catalog.pick("kconfig fragment", fragment, shelf.fragments)
    probes = [catalog.pick("probe", name, shelf.probes) for name in scenario.probes]
    if "/" not in scenario.image:  # what a disk of the user's holds, nobody knows
        _check_programs(scenario, catalog.pick("image", scenario.image, shelf.images), probes)
    for run in scenario.workloads:
        if run.label in scenario.probes:
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


def _check_programs(scenario: Scenario, recipe: ImageRecipe, probes: Sequence[ProbeSpec]) -> None:
    needs = {need: run.label for run in scenario.workloads for need in run.spec.needs}
    needs |= {need: probe.name for probe in probes for need in probe.needs}
    for need, wanted_by in needs.items():
        if need not in recipe.programs:
            raise UserError(
                f"{wanted_by} needs {need}, which image “{recipe.name}” does not have",
                hint="name another image with --image",
            )


def _pattern(pattern: CellPattern, shelf: Catalog) -> CellPattern:
    """With the architecture's own name in place of an alias, and a guest that is known."""
    if pattern.guest:
        catalog.pick("guest", pattern.guest, shelf.guests)
    name = shelf.architecture(pattern.architecture).name if pattern.architecture else ""
    return replace(pattern, architecture=name)
