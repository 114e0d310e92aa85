"""The file of a scenario, `patches/NAME/scenario.toml`: its keys, and what it may not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline import catalog, known, schema
from pipeline.errors import UserError
from pipeline.model import CellPattern, Event, Expected, Role, Table, Trial

FILE = "scenario.toml"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
PER_KEY = "per-key"
LAYOUTS = (PER_KEY, "per-phase", "histogram", "profile")
Scalar = str | int | float | bool


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
    cmdline: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    guest: str = ""
    events: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class WorkloadEntry:
    """A workload in the file, with the parameters that differ from its defaults; for `repeat`,
    `probes`, `counted` and `boots` see `WorkloadRun`."""

    use: str
    label: str = ""
    parameters: Mapping[str, Scalar] | None = None
    repeat: int = 1
    probes: tuple[str, ...] = ()
    counted: bool = False
    boots: int = 0

    @property
    def called(self) -> str:
        return self.label or self.use


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The same scenario in another size, `--scale NAME`: what is empty is as the scenario has it.

    `parameters`, `repeat` and `boots_of` are by workload (its label), `guest_of` is by kernel; they
    add to what stands there, or replace it. `boots` leaves those of a workload of its own alone.
    """

    name: str
    note: str = ""
    boots: int = 0
    guests: tuple[str, ...] = ()
    guests_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    architectures: tuple[str, ...] = ()
    parameters: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    repeat: Mapping[str, int] = field(default_factory=dict)
    boots_of: Mapping[str, int] = field(default_factory=dict)
    guest_of: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()  # workloads that this size leaves out
    without_kernels: tuple[str, ...] = ()


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
    scales: tuple[Scale, ...] = ()
    deterministic: bool = False
    probe_parameters: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def everywhere(self) -> tuple[KernelEntry, ...]:
        """The kernels of all variants."""
        variants = (each.kernels for each in self.variants)
        return tuple(kernel for kernels in (self.kernels, *variants) for kernel in kernels)

    @property
    def sources(self) -> tuple[str, ...]:
        """What gives numbers: probes, and workloads by the names that their numbers bear."""
        labels = (each.called for each in self.workloads)
        theirs = (probe for each in self.workloads for probe in each.probes)
        return tuple(dict.fromkeys((*self.probes, *theirs, *labels)))


def load(folder: Path) -> ScenarioFile:
    """Read and check a scenario's file. UserError names the file, the key and what to type."""
    path = folder / FILE
    found = schema.read(path, ScenarioFile, folder=folder)
    for kernels in (found.kernels, *(variant.kernels for variant in found.variants)):
        _check_kernels(path, kernels, has_workloads=bool(found.workloads))
    if found.boots < 1:
        raise UserError(f"{path}: boots: expected 1 or more, not {found.boots}")
    _check_conditions(path, found)
    _check_scales(path, found)
    _check_tables(path, found)
    _check_trials(path, found)
    for number, each in enumerate(found.expected, 1):
        known.checked(each, f"{path}: expected {number}")
    return found


def scaled(found: ScenarioFile, name: str) -> ScenarioFile:
    """The scenario in one of its sizes. UserError where it has none of that name."""
    sizes = {each.name: each for each in found.scales}
    size = catalog.pick(f"scale of {found.name}", name, sizes)
    return replace(
        found,
        boots=size.boots or found.boots,
        guests=size.guests or found.guests,
        guests_on=size.guests_on or ({} if size.guests else found.guests_on),
        architectures=size.architectures or found.architectures,
        kernels=_resized(found.kernels, size),
        variants=tuple(
            replace(each, kernels=_resized(each.kernels, size)) for each in found.variants
        ),
        trials=tuple(_cut(each, size) for each in found.trials if _has_sides(each, size)),
        tables=tuple(each for each in found.tables if each.kernel not in size.without_kernels),
        workloads=tuple(
            _sized(each, size) for each in found.workloads if each.called not in size.without
        ),
        include=tuple(each for each in found.include if each.workload not in size.without),
        exclude=tuple(each for each in found.exclude if each.workload not in size.without),
    )


def _sized(entry: WorkloadEntry, size: Scale) -> WorkloadEntry:
    return replace(
        entry,
        parameters={**(entry.parameters or {}), **size.parameters.get(entry.called, {})},
        repeat=size.repeat.get(entry.called, entry.repeat),
        boots=size.boots_of.get(entry.called, entry.boots),
    )


def _resized(kernels: tuple[KernelEntry, ...], size: Scale) -> tuple[KernelEntry, ...]:
    return tuple(
        replace(each, guest=size.guest_of.get(each.name, each.guest))
        for each in kernels
        if each.name not in size.without_kernels
    )


def _has_sides(trial: Trial, size: Scale) -> bool:
    """Whether a trial keeps its base and one of the kernels that it names."""
    gone = set(size.without_kernels)
    return trial.base not in gone and (not trial.kernels or not gone.issuperset(trial.kernels))


def _cut(trial: Trial, size: Scale) -> Trial:
    kept = tuple(each for each in trial.kernels if each not in size.without_kernels)
    return replace(trial, kernels=kept)


def _check_scales(path: Path, found: ScenarioFile) -> None:
    labels = dict.fromkeys(each.called for each in found.workloads)
    kernels = dict.fromkeys(each.name for each in found.everywhere)
    for size in found.scales:
        check_name(size.name, f"{path}: scales: ")
        where = f"in {path}: scales: {size.name}"
        for label in (*size.parameters, *size.repeat, *size.boots_of, *size.without):
            catalog.pick(f"workload {where}", label, labels)
        for kernel in (*size.guest_of, *size.without_kernels):
            catalog.pick(f"kernel {where}", kernel, kernels)
        for each in _resized(found.everywhere, size):
            if gone := {each.on, each.of} & set(size.without_kernels):
                raise UserError(
                    f"{path}: scales: {size.name}: “{each.name}” is made of “{gone.pop()}”",
                    hint=f"without_kernels: leave out {each.name} too",
                )


def _check_conditions(path: Path, found: ScenarioFile) -> None:
    """Kernels in other guests, and those that go through some of the events only."""
    labels = dict.fromkeys(each.label for each in found.events if each.label)
    for kernel in found.everywhere:
        for label in kernel.events or ():
            catalog.pick(f"label of an event in {path}: {kernel.name}", label, labels)
    given = [(each.called, "repeat", each.repeat) for each in found.workloads]
    for size in found.scales:
        given += [(label, "repeat", number) for label, number in size.repeat.items()]
        given += [(label, "boots", number) for label, number in size.boots_of.items()]
    for label, key, number in given:
        if number < 1:
            raise UserError(f"{path}: workloads: {label}: {key}: expected 1 or more, not {number}")


def _check_trials(path: Path, found: ScenarioFile) -> None:
    """A trial of what is not there would tell nothing, at the end of a long run."""
    where = f"in {path}: trials"
    kernels = dict.fromkeys(kernel.name for kernel in found.everywhere)
    sources = dict.fromkeys(found.sources)
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
    sources = found.sources
    kernels = {kernel.name for kernel in found.everywhere}
    for table in found.tables:
        catalog.pick(f"layout {where}", table.layout, dict.fromkeys(LAYOUTS))
        catalog.pick(f"source {where}", table.source, dict.fromkeys(sources))
        if table.kernel:
            catalog.pick(f"kernel {where}", table.kernel, dict.fromkeys(kernels))
        if table.layout == PER_KEY and not table.columns:
            raise UserError(f"{path}: tables: “{table.title}” has no columns", hint="name them")


def _check_kernels(path: Path, kernels: tuple[KernelEntry, ...], *, has_workloads: bool) -> None:
    seen: dict[str, KernelEntry] = {}
    for kernel in kernels:
        if kernel.name in seen:
            raise UserError(f"{path}: kernels: “{kernel.name}” is there twice")
        check_name(kernel.name, f"{path}: kernels: ")
        for key, named in (("on", kernel.on), ("of", kernel.of)):
            if named is not None:
                catalog.pick(f"kernel in {path}: {key} =", named, seen)
        if kernel.settings and not has_workloads:
            raise UserError(
                f"{path}: kernels: “{kernel.name}” has settings, and there is no workload",
                hint="they are written before a workload starts",
            )
        if kernel.of and (kernel.on or kernel.patches or seen[kernel.of].of):
            raise UserError(
                f"{path}: kernels: “{kernel.name}” is {kernel.of} under other conditions",
                hint="leave out its `on` and `patches`, and name a kernel that has its own source",
            )
        seen[kernel.name] = kernel
    if not any(kernel.role is Role.PATCHED for kernel in kernels):
        raise UserError(f"{path}: kernels: none is on trial", hint='give one role = "patched"')


def check_name(name: str, where: str = "") -> None:
    """Names get into the names of cases and into paths."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"{where}“{name}” is no name", hint="use lower-case letters, digits, - and _"
        )
