"""The records that the stages hand to each other: frozen, keyword-only, without behaviour
beyond what follows from their own fields.

In the order of the pipeline: series, tree, build, guest, workload, verdict, report.
"""

from __future__ import annotations

from pipeline.model.build import Build, BuildFailure, ConfigFailure, LostSymbol
from pipeline.model.data import (
    Architecture,
    Calibration,
    Fragment,
    GuestShape,
    ImageRecipe,
    Parameter,
    ProbeSpec,
    Reading,
    Toolchain,
    Value,
    WorkloadSpec,
)
from pipeline.model.guest import (
    NO_SSH,
    Accelerator,
    BootId,
    BootResult,
    Cell,
    Finding,
    Image,
    Output,
    Sample,
    Stop,
)
from pipeline.model.outcome import Better, Outcome, Phase, Role
from pipeline.model.run import Case, CaseId, Evidence, Plan, Run
from pipeline.model.scenario import Scenario, Table, WorkloadRun
from pipeline.model.source import (
    ApplyFailure,
    FileTimes,
    KernelPlan,
    Patch,
    Revision,
    Series,
    Sources,
    Tree,
    TreeSpec,
)

__all__ = [
    "NO_SSH",
    "Accelerator",
    "ApplyFailure",
    "Architecture",
    "Better",
    "BootId",
    "BootResult",
    "Build",
    "BuildFailure",
    "Calibration",
    "Case",
    "CaseId",
    "Cell",
    "ConfigFailure",
    "Evidence",
    "FileTimes",
    "Finding",
    "Fragment",
    "GuestShape",
    "Image",
    "ImageRecipe",
    "KernelPlan",
    "LostSymbol",
    "Outcome",
    "Output",
    "Parameter",
    "Patch",
    "Phase",
    "Plan",
    "ProbeSpec",
    "Reading",
    "Revision",
    "Role",
    "Run",
    "Sample",
    "Scenario",
    "Series",
    "Sources",
    "Stop",
    "Table",
    "Toolchain",
    "Tree",
    "TreeSpec",
    "Value",
    "WorkloadRun",
    "WorkloadSpec",
]
