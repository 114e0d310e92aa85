"""A scenario: kernels, cells and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.model.data import WorkloadSpec
from pipeline.model.guest import Action
from pipeline.model.outcome import Phase
from pipeline.model.source import KernelPlan, TreeSpec


@dataclass(frozen=True, kw_only=True)
class WorkloadRun:
    """A workload with its parameters as a scenario or the command line gives them.

    It runs `repeat` times within a boot, whose numbers are then averaged. `probes`: read around
    this one besides those of the scenario. Where it is `counted` its boots count what the kernel
    does, with probes that slow it: its own times are no result.
    """

    spec: WorkloadSpec
    parameters: Mapping[str, str | int | float | bool]
    label: str  # unique in a scenario; the name of the case
    repeat: int = 1
    probes: tuple[str, ...] = ()
    counted: bool = False
    boots: int = 0  # of each kernel, in place of the scenario's; 0: as that has it
    counters: tuple[str, ...] = ()  # fragments that the kernels of a counted one have besides

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something done to the guest at a moment of the workload.

    `when`: "before workload", "at start", "after 5 s", "at 50 %" (of the workload's expected
    time) or "every 2 s" (until the workload ends). `count`: vCPUs, CPUs, memory blocks or DIMMs.
    `memory`: MiB of each DIMM. `node`: NUMA cell of a DIMM. `seconds` and `seed`: of a storm.
    `guests`: the shapes in which it is done; empty for all.
    """

    action: Action
    when: str
    label: str = ""  # unique in a scenario; the name of the case
    count: int = 1
    memory: int = 0
    node: int = 0
    seconds: float = 5.0
    seed: int = 0
    guests: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A point of the kconfig axis: fragments on top of those that the scenario always has.

    `counted`: it is no point of its own, but what counted workloads run with at the point whose
    name it begins with.
    """

    name: str
    fragments: tuple[str, ...]
    counted: bool = False


@dataclass(frozen=True, kw_only=True)
class CellPattern:
    """Names cells; what is empty stands for any. In `include` architecture and guest are given."""

    architecture: str = ""
    configuration: str = ""
    guest: str = ""
    workload: str = ""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A report that is no news: of a scenario, or a known issue.

    It matches a finding by `fingerprint` or by `title` (a regular expression for the whole
    title), whichever is given, in the `workload` and on the `architecture` if they are named.
    Behind the day `expires` (YYYY-MM-DD) it matches nothing any more, and the report says so.
    """

    note: str
    fingerprint: str = ""
    title: str = ""
    workload: str = ""
    architecture: str = ""
    expires: str = ""
    origin: str = ""  # the file that it comes from, or the scenario's name


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the text summary: a probe's or workload's metrics by kernel.

    `layout`: "per-key" (one row per key of a metric name `KEY.what`, with `columns`
    inside each kernel's column), "per-phase" (one row per phase), "histogram" or "profile" (see
    `distributions`; of a profile the `most` largest). With `kernel` it is one table over all
    guests, a column for each, of that kernel alone.
    """

    title: str
    layout: str
    source: str
    columns: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    only_changed: bool = False
    kernel: str = ""
    most: int = 0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Numbers that are compared, kernel by kernel, in every cell.

    `metrics`: "SOURCE/METRIC" or "SOURCE/METRIC@PHASE", with * for any. `base`: the kernel that
    the `kernels` are held against ("": each against the one below it; none named: all on trial).
    `margin`: the least change that matters (0.02: 2 %).
    """

    name: str
    metrics: tuple[str, ...]
    base: str = ""
    kernels: tuple[str, ...] = ()
    margin: float = 0.02


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """patches/NAME/scenario.toml, or what the command line describes in its place."""

    name: str
    title: str
    posted: str
    tree: TreeSpec
    kernels: tuple[KernelPlan, ...]
    architectures: tuple[str, ...]
    fragments: tuple[str, ...]
    guests: tuple[str, ...]
    image: str
    workloads: tuple[WorkloadRun, ...]
    probes: tuple[str, ...]
    boots: int
    tables: tuple[Table, ...] = ()
    variant: str = ""
    notes: tuple[str, ...] = ()
    guests_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # instead of `guests`
    configurations: tuple[Configuration, ...] = ()  # empty: one, without a name
    include: tuple[CellPattern, ...] = ()  # cells besides the product of the axes
    exclude: tuple[CellPattern, ...] = ()  # cells of the product that are not wanted
    events: tuple[Event, ...] = ()
    table_override: bool = True  # firmware tables that show vCPUs which can be added
    expected: tuple[Expected, ...] = ()  # reports that are part of it
    trials: tuple[Trial, ...] = ()
    checks: tuple[str, ...] = ()  # of what the series adds: see `ktrial list checks`
    deterministic: bool = False  # guest time counts instructions: the same in every repetition
    probe_parameters: Mapping[str, Mapping[str, str | int | float | bool]] = field(
        default_factory=dict
    )

    def events_in(self, guest: str) -> tuple[Event, ...]:
        """The events that are done in guests of this shape, in their order."""
        return tuple(each for each in self.events if not each.guests or guest in each.guests)

    def workload(self, label: str) -> WorkloadRun | None:
        """The workload that a cell runs; None where it only boots."""
        return next((run for run in self.workloads if run.label == label), None)
