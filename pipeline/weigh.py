"""What each node of a plan asks of this host, and how long it is expected to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline import estimate, shapes
from pipeline import plan as plans
from pipeline.budget import Budget
from pipeline.catalog import Catalog
from pipeline.estimate import BuildKind, Expectation, Known
from pipeline.model import Cell, GuestShape, Plan, Target
from pipeline.nodes import Demand, Job, Kind
from pipeline.planview import BuildOutlook, CellOutlook, Outlook
from pipeline.scheduler import Forecast

# A tree unpacked, an image made: once on a host, and small beside a build.
OTHERS: Mapping[Kind, float] = {Kind.TREE: 1.0, Kind.IMAGE: 2.0, Kind.ACCELERATOR: 1.0}
# What is done with a build besides booting it; a comparison of two digests is nothing.
BESIDES: Mapping[Kind, float] = {
    Kind.EXAMINE: 5.0,
    Kind.CHECK: 5.0,
    Kind.COVER: estimate.BUILD_SECONDS[BuildKind.CLEAN],
    Kind.VERIFY: estimate.BUILD_SECONDS[BuildKind.CLEAN],
    Kind.PROGRAMS: 60.0,
}
CORES: Mapping[Kind, float] = {Kind.COMPARE: 0.0, Kind.EXAMINE: 1.0, Kind.CHECK: 1.0}


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Weighs the jobs of one plan. `known`: durations that this host has measured.

    `accelerator` is the one that is expected; `exclusive`: auto, always, never.
    """

    plan: Plan
    shelf: Catalog
    known: Known
    cores: float
    accelerator: str = "tcg"
    exclusive: str = "auto"

    def __call__(self, job: Job) -> Demand:
        # Of a build one core less than it uses: guests whose times nobody looks at go on beside it.
        most = max(1.0, self.cores - 1)
        if job.boot is not None:
            kernel = plans.kernel_of(self.plan.scenario, job.boot.kernel)
            return self.guest(
                job.boot.cell, self.shelf.guests[plans.guest_of(job.boot.cell, kernel)]
            )
        if job.kind is Kind.BUILD and job.target is not None:
            seconds = self.build(job.target, job.kernel).seconds
            return Demand(seconds=seconds, cores=most)
        if job.target is not None:
            return Demand(seconds=BESIDES.get(job.kind, 0.0), cores=CORES.get(job.kind, most))
        return Demand(seconds=OTHERS.get(job.kind, 0.0))

    def guest(self, cell: Cell, shape: GuestShape | None = None) -> Demand:
        shape = shape or self.shape(cell)
        return Demand(
            seconds=self.boot(cell).seconds,
            cores=estimate.cores(shape, self.plan.scenario.workload(cell.workload)),
            memory=shapes.needed_memory(shape, self.shelf.architecture(cell.architecture)),
            exclusive=self.alone(cell),
        )

    def alone(self, cell: Cell) -> bool:
        """Whether a cell's boots have the host to themselves: those whose times are looked at."""
        if self.exclusive != "auto":
            return self.exclusive == "always"
        run = self.plan.scenario.workload(cell.workload)
        timed = run is not None and run.spec.timed and not run.counted
        return timed and not self.plan.scenario.deterministic

    def shape(self, cell: Cell) -> GuestShape:
        return self.shelf.guests[cell.guest]

    def boot(self, cell: Cell) -> Expectation:
        return estimate.boot(
            self.known,
            architecture=cell.architecture,
            accelerator=self.accelerator,
            shape=self.shape(cell),
            image=self.plan.scenario.image,
            run=self.plan.scenario.workload(cell.workload),
        )

    def kind(self, target: Target, kernel: str) -> BuildKind:
        """How a build will come to be, as far as can be told without its configuration: what
        was built here before is there, and the others start from the first kernel's folder."""
        if kernel != self.plan.scenario.kernels[0].name:
            return BuildKind.INCREMENT
        seen = any(self._key(target, kind) in self.known for kind in BuildKind)
        return BuildKind.CACHED if seen else BuildKind.CLEAN

    def build(self, target: Target, kernel: str) -> Expectation:
        kind = self.kind(target, kernel)
        return estimate.build(self.known, self._key(target, kind), kind)

    def _key(self, target: Target, kind: BuildKind) -> str:
        scenario = self.plan.scenario
        return estimate.build_key(
            architecture=target.architecture,
            fragments=plans.fragments(scenario, target.configuration, self.shelf.probes),
            tree=scenario.tree.name,
            kind=kind,
        )


def outlook(
    scales: Scales, *, budget: Budget, forecast: Forecast, notes: tuple[str, ...] = ()
) -> Outlook:
    """What `ktrial plan` shows."""
    plan = scales.plan
    cells = tuple(dict.fromkeys(boot.cell for boot in plan.boots))
    return Outlook(
        plan=plan,
        builds=tuple(
            BuildOutlook(
                target=target.name,
                kernel=kernel.name,
                kind=scales.kind(target, kernel.name),
                expected=scales.build(target, kernel.name),
            )
            for target, kernel in plans.to_build(plan)
        ),
        cells=tuple(
            CellOutlook(
                cell=cell,
                shape=scales.shape(cell),
                expected=scales.boot(cell),
                memory=scales.guest(cell).memory,
                exclusive=scales.alone(cell),
                boots=sum(boot.cell == cell for boot in plan.boots),
            )
            for cell in cells
        ),
        budget=budget,
        forecast=forecast,
        notes=notes,
    )
