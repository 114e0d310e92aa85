"""Images, guests, and what a boot leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pipeline.model.outcome import Better, Phase


@dataclass(frozen=True, kw_only=True)
class Image:
    """A guest image in the cache: an initramfs, and what built it.

    With `disk` the guest's root is that file (`disk_format`: raw or qcow2), which is never
    written: each guest has an overlay of its own, and the initramfs at `path` hands over to it.
    """

    name: str
    architecture: str
    key: str
    path: Path
    seconds: float
    how: str
    disk: Path | None = None
    disk_format: str = ""


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """What runs the guest's instructions, and why that one."""

    name: str  # "kvm" or "tcg"
    reason: str


@dataclass(frozen=True, kw_only=True)
class Target:
    """What kernels are built for: an architecture, and a point of the kconfig axis if any."""

    architecture: str
    configuration: str = ""

    @property
    def name(self) -> str:
        return ".".join(filter(None, (self.architecture, self.configuration)))


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the matrix: what the same comparison is repeated in."""

    architecture: str
    guest: str
    workload: str  # label; "boot" where there is none
    configuration: str = ""  # name of a point of the kconfig axis, "" where there is none

    @property
    def target(self) -> str:
        """The name of the target whose kernels it boots."""
        return self.built_for.name

    @property
    def built_for(self) -> Target:
        return Target(architecture=self.architecture, configuration=self.configuration)

    @property
    def name(self) -> str:
        return f"{self.target}.{self.guest}.{self.workload}"


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
    """Something that the kernel itself reported on its console.

    `decoded`: the excerpt with file:line behind each frame, "" where nothing was decoded.
    `known`: the note of a known issue or of an expectation of the scenario that it matches.
    """

    kind: str  # panic, oops, bug, warning, hang, …
    title: str
    line: int
    excerpt: str
    fatal: bool
    count: int = 1
    fingerprint: str = ""  # of the kind and the top frames: the same from boot to boot
    decoded: str = ""
    known: str = ""


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


class Action(Enum):
    """What an event does to a guest that runs."""

    VCPU_ADD = "vcpu-add"
    VCPU_REMOVE = "vcpu-remove"
    MEMORY_ADD = "memory-add"
    MEMORY_REMOVE = "memory-remove"
    CPU_OFFLINE = "cpu-offline"
    CPU_ONLINE = "cpu-online"
    MEMORY_OFFLINE = "memory-offline"
    MEMORY_ONLINE = "memory-online"
    CPU_STORM = "cpu-storm"


class EventState(Enum):
    """What became of an event. It starts as NOT_RUN."""

    NOT_RUN = "not run"
    GOOD = "good"
    FAILED = "failed"  # the guest did not do what it was asked for, or something else
    UNSUPPORTED = "unsupported"  # this host, QEMU or kernel cannot, for a known cause
    HARNESS = "harness"  # libvirt or QEMU failed


@dataclass(frozen=True, kw_only=True)
class EventResult:
    """What an event came to. `host` and `guest`: what each did or saw, in words, for people.

    `title` says of a failure what differs, without what changes from boot to boot.
    `seconds`: from the host's call until host and guest agree. `at`: seconds after the
    workload's start (before it: negative), None where it was not begun.
    """

    label: str
    state: EventState = EventState.NOT_RUN
    reason: str = ""
    title: str = ""
    host: str = ""
    guest: str = ""
    seconds: float = 0.0
    at: float | None = None


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """A test or subtest that a workload reported itself (KTAP). `name`: path, parts joined by /.

    `status` as `ktap` has it: passed, failed, skipped, todo, xfail, timeout, error, not-run.
    """

    name: str
    status: str
    detail: str = ""


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
    differences: tuple[str, ...] | None = (
        None  # from its shape, as the guest saw itself; None: not read
    )
    events: tuple[EventResult, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader must know: firmware tables replaced, maxcpus=, …
    shared: bool = False  # other guests or a build of ours ran on the host meanwhile
    tests: tuple[TestResult, ...] = ()  # of the cell's workload, in the order in which they came
    since: float | None = None  # when the host read the first word of what went wrong
