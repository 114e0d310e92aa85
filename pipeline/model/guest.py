"""Images, guests, and what a boot leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pipeline.model.outcome import Better, Phase


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
