"""The plan, the evidence, the cases, and the run as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.model.build import (
    Build,
    BuildFailure,
    Checked,
    Comparison,
    ConfigFailure,
    Covered,
    Examination,
    Verified,
)
from pipeline.model.guest import Accelerator, BootId, BootResult, Cell, Image, Target
from pipeline.model.outcome import Outcome
from pipeline.model.scenario import Expected, Scenario
from pipeline.model.source import ApplyFailure, Revision, Tree


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be done, before anything is: every boot of it appears in the result."""

    scenario: Scenario
    cells: tuple[Cell, ...]
    boots: tuple[BootId, ...]  # in the order in which they run: interleaved by block
    unsupported: Mapping[Cell, str]  # cells that this host cannot give, with the cause
    targets: tuple[Target, ...] = ()  # what kernels are built for
    known: tuple[Expected, ...] = ()  # known issues that the user named
    sequential: bool = False  # trials are looked at as they go, and end once they are clear
    most_seconds: float = 0.0  # after which no further block of boots is begun; 0: no limit
    rate: float = 0.0  # of a fault that is to be found on some boots; 0: none is looked for
    patch_checks: tuple[str, ...] = ()  # of the scenario's checks, those that read patches alone
    verify: bool = False  # each kernel is built once more, clean
    cover: bool = False  # one more configuration, for changed lines that no other compiles


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the stages came back with. What is missing here was not run.

    Keys of `builds` are (target, kernel), with the target as `Cell.target` has it; those of
    `images` and `accelerators` the architecture. `boots` has every attempt at a boot, of which
    the last one counts. `faults`: harness faults by plan node ("tree", "apply.KERNEL",
    "build.TARGET.KERNEL", "image.ARCH", "accelerator.ARCH", or a BootId's name); `spared`:
    nodes that were not worth their time any more, and why; `enough`: boots that a trial had no
    need of any more. `comparisons`, `examinations`,
    `verified`: by (target, kernel); `checked`: by (target, kernel, check), with the target "" of
    a check that reads the patches alone; `covered`: by (architecture, kernel).
    """

    tree: Tree | None = None
    revisions: Mapping[str, Revision | ApplyFailure] = field(default_factory=dict)
    builds: Mapping[tuple[str, str], Build | BuildFailure | ConfigFailure] = field(
        default_factory=dict
    )
    images: Mapping[str, Image] = field(default_factory=dict)
    accelerators: Mapping[str, Accelerator] = field(default_factory=dict)
    comparisons: Mapping[tuple[str, str], Comparison] = field(default_factory=dict)
    examinations: Mapping[tuple[str, str], Examination] = field(default_factory=dict)
    checked: Mapping[tuple[str, str, str], Checked] = field(default_factory=dict)
    verified: Mapping[tuple[str, str], Verified] = field(default_factory=dict)
    covered: Mapping[tuple[str, str], Covered] = field(default_factory=dict)
    boots: tuple[BootResult, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    spared: Mapping[str, str] = field(default_factory=dict)
    enough: Mapping[str, str] = field(default_factory=dict)
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
