"""The file of a scenario, `patches/NAME/scenario.toml`: its keys, and what it may not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline import catalog, known, schema
from pipeline.errors import UserError
from pipeline.model import CellPattern, Event, Expected, Role, Table, Trial

FILE = "scenario.toml"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
PER_KEY = "per-key"
LAYOUTS = (PER_KEY, "per-phase")
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


def load(folder: Path) -> ScenarioFile:
    """Read and check a scenario's file. UserError names the file, the key and what to type."""
    path = folder / FILE
    found = schema.read(path, ScenarioFile, folder=folder)
    for kernels in (found.kernels, *(variant.kernels for variant in found.variants)):
        _check_kernels(path, kernels, has_workloads=bool(found.workloads))
    if found.boots < 1:
        raise UserError(f"{path}: boots: expected 1 or more, not {found.boots}")
    _check_tables(path, found)
    _check_trials(path, found)
    for number, each in enumerate(found.expected, 1):
        known.checked(each, f"{path}: expected {number}")
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
