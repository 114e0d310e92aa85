"""The records that the stages hand to each other: frozen, keyword-only, without behaviour
beyond what follows from their own fields.

In the order of the pipeline: series, tree, build, guest, workload, verdict, report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

# --------------------------------------------------------------------------- outcomes


class Outcome(Enum):
    """What became of a planned case. A verdict starts as NOT_RUN: no evidence is no pass."""

    PASSED = "passed"
    FAILED = "failed"
    BASE_BROKEN = "base broken"
    KNOWN = "known"
    INCONCLUSIVE = "inconclusive"
    UNSUPPORTED = "unsupported"
    NOT_RUN = "not run"
    ERROR = "error"


class Role(Enum):
    """What a kernel is in the comparison; only PATCHED ones are on trial."""

    BASE = "base"
    PREREQUISITE = "prerequisite"
    PATCHED = "patched"


class Phase(Enum):
    """When in a boot a probe reads the guest, or a workload reports."""

    AFTER_BOOT = "after-boot"
    BEFORE = "before"
    DURING = "during"
    WORKLOAD = "workload"
    AFTER = "after"
    AFTER_DROP = "after-drop"


class Better(Enum):
    """Which direction of a metric is an improvement."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


# --------------------------------------------------------------------------- series


@dataclass(frozen=True, kw_only=True)
class Patch:
    """One patch: a mail as `git am` takes it (`mail`), or a commit that the tree has already."""

    number: int
    subject: str
    author: str
    email: str
    files: tuple[str, ...] = ()
    message_id: str = ""
    mail: bytes = b""
    commit: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Patches in the order in which they apply. `origin` is what the user named."""

    name: str
    origin: str
    version: int = 1
    patches: tuple[Patch, ...] = ()
    notes: tuple[str, ...] = ()


# --------------------------------------------------------------------------- tree


@dataclass(frozen=True, kw_only=True)
class TreeSpec:
    """Which tree is meant: `debian:5.10`, or a path to a git repository; and the base revision."""

    name: str
    base: str = "HEAD"

    @property
    def debian_version(self) -> str | None:
        prefix, _, version = self.name.partition(":")
        return version if prefix == "debian" else None


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A kernel tree that ktrial may write to: its own bare repository and the base commit.

    `origin` is a stable id of where it came from (one source folder per origin);
    `version` is the kernel's own (5.10.262).
    """

    name: str
    origin: str
    repository: Path
    base: str
    version: str
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class KernelPlan:
    """One kernel to be compared: base itself, or patches on top of another kernel (`on`).

    With `commit` the kernel is that commit of the tree and `series` only describes it.
    """

    name: str
    role: Role
    on: str | None = None
    series: Series | None = None
    commit: str | None = None


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A kernel's source as it lies in the tree's repository. `tree_id` names the content."""

    kernel: str
    role: Role
    commit: str
    tree_id: str
    files_changed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ApplyFailure:
    """A series that does not apply: which patch, which file and hunk, and git's own words."""

    kernel: str
    patch: Patch
    of: int
    file: str
    hunk: str
    words: str
    log: Path | None = None

    def __str__(self) -> str:
        where = f"{self.file}{f' at line {self.hunk}' if self.hunk else ''}"
        return (
            f"patch {self.patch.number}/{self.of} “{self.patch.subject}” does not apply"
            f"{f': {where}' if self.file else ''}"
        )


@dataclass(frozen=True, kw_only=True)
class FileTimes:
    """The modification times with which a build folder has seen its sources.

    Each file of `tree_id` has the time EPOCH (see `layout`) but for those in `later`
    (path -> ns since the epoch). Kept with the build folder: make trusts times, so a file
    whose content a folder has seen must keep its time there, and any other must be newer.
    `newest`: the latest time of a file in the build folder itself, 0 where that is unknown.
    """

    tree_id: str
    later: Mapping[str, int]
    newest: int = 0


@dataclass(frozen=True, kw_only=True)
class Sources:
    """A source tree laid out on disk, with the times that the build folder is to remember."""

    path: Path
    times: FileTimes


# --------------------------------------------------------------------------- data files


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A tiny bare-metal program whose run time tells what an accelerator is worth.

    `program`: lines of "OFFSET: HEX BYTES ; source", offsets in hex; `size` of the file in
    bytes; `arguments` put it into QEMU ("{program}" is its path); `exit_status` is QEMU's
    when it is through.
    """

    program: tuple[str, ...]
    size: int
    arguments: tuple[str, ...]
    exit_status: int


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """pipeline/data/architectures/NAME.toml."""

    name: str
    description: str
    aliases: tuple[str, ...]
    machines: tuple[str, ...]  # `uname -m` of hosts on which it is native
    kernel_arch: str  # make ARCH=
    source_dir: str  # arch/<source_dir>
    debian_arch: str
    image_target: str  # make target
    image_path: str  # below the build folder
    fragments: tuple[str, ...]  # kconfig fragments that every build of it takes
    qemu: str
    qemu_package: str
    machine: str
    cpu: Mapping[str, str]  # accelerator -> QEMU CPU model
    console: str  # tty name in the guest
    earlycon: str  # kernel argument
    console_type: str  # libvirt <target type=…> of the serial device
    vcpu_hotplug: bool
    acpi: bool
    gic: str = ""
    calibration: Calibration | None = None


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """pipeline/data/toolchains/NAME.toml: one compiler family, per target architecture."""

    name: str
    description: str
    make: tuple[str, ...]  # extra make arguments, such as LLVM=1
    compilers: Mapping[str, str]  # "<target>" or "<target>-on-<host>" -> compiler prefix or ""
    probe: Mapping[str, str]  # target -> the program whose version is recorded
    packages: Mapping[str, str]  # target -> Debian package that brings it


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """kconfigs/NAME.config. `symbols` maps CONFIG_X to its wanted value ("n" for not set)."""

    name: str
    path: Path
    symbols: Mapping[str, str]
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class GuestShape:
    """vm_images/guests/NAME.toml. Memory in MiB."""

    name: str
    description: str
    vcpus: int
    max_vcpus: int
    memory: int
    cmdline: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """vm_images/NAME/image.toml and the folder beside it."""

    name: str
    description: str
    folder: Path
    suite: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]  # what workloads may count on (`needs`); their libraries come along
    keep: tuple[str, ...] = ()  # globs below the packages' root: files to have besides programs
    remove: tuple[str, ...] = ()  # globs below the guest's root: files not to have after all
    overlays: tuple[str, ...] = ()  # folders beside this one whose overlay/ comes first


@dataclass(frozen=True, kw_only=True)
class Value:
    """One number in a line of output: regex group, metric name template, unit, direction."""

    group: str
    name: str
    unit: str
    better: Better


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How numbers are read: a regex per line of output and the values that its groups hold."""

    pattern: str
    values: tuple[Value, ...]
    required: bool = True


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A workload's parameter: how it is put on the command line, and its default."""

    name: str
    argument: str  # such as "-l {value}"; a switch has no "{value}"
    description: str
    kind: str  # int, float, str, bool
    default: str | int | float | bool | None = None  # None: not put on the command line


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    """pipeline/data/workloads/NAME.toml. `deadline` in seconds under the slowest accelerator."""

    name: str
    description: str
    command: str
    parameters: tuple[Parameter, ...]
    needs: tuple[str, ...]
    deadline: float
    readings: tuple[Reading, ...]


@dataclass(frozen=True, kw_only=True)
class ProbeSpec:
    """pipeline/data/probes/NAME.toml. `phases` are those in which it is read by default."""

    name: str
    description: str
    command: str
    phases: tuple[Phase, ...]
    needs: tuple[str, ...]
    kconfigs: tuple[str, ...]  # fragments without which there is nothing to read
    deadline: float
    readings: tuple[Reading, ...]


# --------------------------------------------------------------------------- scenario


@dataclass(frozen=True, kw_only=True)
class WorkloadRun:
    """A workload with its parameters as a scenario or the command line gives them."""

    spec: WorkloadSpec
    parameters: Mapping[str, str | int | float | bool]
    label: str  # unique in a scenario; the name of the case

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the text summary: a probe's or workload's metrics by kernel.

    `layout`: "per-key" (one row per key of a metric name `KEY.what`, with `columns`
    inside each kernel's column) or "per-phase" (one row per phase).
    """

    title: str
    layout: str
    source: str
    columns: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    only_changed: bool = False


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


# --------------------------------------------------------------------------- build


@dataclass(frozen=True, kw_only=True)
class LostSymbol:
    """A requested kconfig symbol that the final .config does not have as asked for."""

    symbol: str
    wanted: str
    got: str
    fragment: str
    reason: str  # the unmet dependency, or that the tree does not know the symbol

    def __str__(self) -> str:
        return (
            f"{self.symbol}={self.wanted} (fragment {self.fragment}) is {self.got}: {self.reason}"
        )


@dataclass(frozen=True, kw_only=True)
class ConfigFailure:
    """The configuration of this tree could not be made or lost symbols."""

    kernel: str
    lost: tuple[LostSymbol, ...]
    words: str
    log: Path


@dataclass(frozen=True, kw_only=True)
class Build:
    """A built kernel. `folder` is its cache entry; `image` and `config` lie in it.

    `modules` is a cpio archive (newc, uncompressed) with /lib/modules, None where there are
    none. `how` tells in words what was done: "cached", "clean build", "increment on base".
    """

    kernel: str
    architecture: str
    key: str
    folder: Path
    image: Path
    vmlinux: Path
    config: Path
    modules: Path | None
    log: Path
    release: str
    compiler: str
    sandboxed: bool
    seconds: float
    how: str


@dataclass(frozen=True, kw_only=True)
class BuildFailure:
    """The first error of a build that broke, where it is, and the log."""

    kernel: str
    architecture: str
    error: str
    file: str
    line: int | None
    log: Path

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{self.kernel} does not build for {self.architecture}: {where}{self.error}"


# --------------------------------------------------------------------------- guest


@dataclass(frozen=True, kw_only=True)
class Image:
    """A guest image in the cache: a compressed initramfs, and what built it."""

    name: str
    architecture: str
    key: str
    path: Path
    seconds: float
    how: str


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """What runs the guest's instructions, and why that one."""

    name: str  # "kvm" or "tcg"
    reason: str


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the matrix: what the same comparison is repeated in."""

    architecture: str
    guest: str
    workload: str  # label; "boot" where there is none

    @property
    def name(self) -> str:
        return f"{self.architecture}.{self.guest}.{self.workload}"


@dataclass(frozen=True, kw_only=True)
class BootId:
    """One boot of one kernel in one cell."""

    cell: Cell
    kernel: str
    block: int
    boot: int = 0

    @property
    def name(self) -> str:
        return f"{self.cell.name}.{self.kernel}.block{self.block}.boot{self.boot}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that the kernel itself reported on its console."""

    kind: str  # panic, oops, bug, warning, hang, …
    title: str
    line: int
    excerpt: str
    fatal: bool
    count: int = 1


class Stop(Enum):
    """Why a boot came to its end. KERNEL and HANG speak of the guest, INFRA of the host."""

    COMPLETED = "completed"
    KERNEL = "kernel fault"
    HANG = "no answer"
    INFRA = "infrastructure fault"
    CUT = "cut short"


NO_SSH = "ssh does not connect"  # how `Output.problem` begins where that is so


@dataclass(frozen=True, kw_only=True)
class Output:
    """What one command in the guest printed: the one form for ssh and console alike."""

    source: str  # workload label or probe name
    phase: Phase
    exit_status: int | None  # None where it never came back
    text: str
    seconds: float
    problem: str = ""  # why there is no exit status, or why it was not run
    timed_out: bool = False  # its own deadline passed while the guest was alive
    started: float = 0.0  # seconds since the epoch on the host; 0 where the guest's init ran it


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One number. Together with its BootId: cell × kernel × block × boot × phase × metric."""

    source: str
    phase: Phase
    metric: str
    value: float
    unit: str
    better: Better


@dataclass(frozen=True, kw_only=True)
class BootResult:
    """All that one boot left behind. `started`/`ended`: seconds since the epoch, guest alive.

    `reason`: what happened, and behind "; " what is of this boot alone (the last line said).
    """

    boot: BootId
    stop: Stop
    reason: str
    findings: tuple[Finding, ...]
    outputs: tuple[Output, ...]
    samples: tuple[Sample, ...]
    problems: tuple[str, ...]  # numbers that could not be read: "hackbench: no line matches …"
    accelerator: Accelerator
    started: float
    ready: float | None
    ended: float
    folder: Path


# --------------------------------------------------------------------------- verdict


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be done, before anything is: every boot of it appears in the result."""

    scenario: Scenario
    cells: tuple[Cell, ...]
    boots: tuple[BootId, ...]  # in the order in which they run: interleaved by block
    unsupported: Mapping[Cell, str]  # cells that this host cannot give, with the cause


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the stages came back with. What is missing here was not run.

    Keys of `builds` are (architecture, kernel); those of `images` and `accelerators` the
    architecture. `faults`: harness faults by plan node ("tree", "apply.KERNEL",
    "build.ARCH.KERNEL", "image.ARCH", "accelerator.ARCH", or a BootId's name); `spared`: nodes
    that were not worth their time any more, and why.
    """

    tree: Tree | None = None
    revisions: Mapping[str, Revision | ApplyFailure] = field(default_factory=dict)
    builds: Mapping[tuple[str, str], Build | BuildFailure | ConfigFailure] = field(
        default_factory=dict
    )
    images: Mapping[str, Image] = field(default_factory=dict)
    accelerators: Mapping[str, Accelerator] = field(default_factory=dict)
    boots: tuple[BootResult, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    spared: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False  # the run was ended before it was through


@dataclass(frozen=True, kw_only=True)
class CaseId:
    """Name of a case, the same from run to run. `suite` is a dotted path, `name` has no dots."""

    suite: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """A planned case and what became of it. `evidence` is relative to the run's folder."""

    id: CaseId
    outcome: Outcome = Outcome.NOT_RUN
    reason: str = ""
    evidence: str = ""
    detail: str = ""
    seconds: float = 0.0
    unjudgeable: bool = False  # FAILED, but says nothing of the code: does not apply or build
    on_trial: bool = True  # its passing would say something of the series; see `verdict`


# --------------------------------------------------------------------------- report


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run, whole: what `result.json`, `junit.xml` and the summary are made from."""

    id: str
    plan: Plan
    evidence: Evidence
    cases: tuple[Case, ...]
    folder: Path
    command: str
    started: float  # seconds since the epoch
    ended: float
    host: Mapping[str, str] = field(default_factory=dict)  # cpu, kernel, qemu, libvirt, …
    notes: tuple[str, ...] = ()
