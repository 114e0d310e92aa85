"""What the evidence says of each planned case, before anyone is charged. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pipeline.bootview import (
    Fault,
    Observation,
    State,
    blocked,
    boot_view,
    event_view,
    shape_view,
    source_view,
    together,
)
from pipeline.model import (
    ApplyFailure,
    BootId,
    BootResult,
    Build,
    BuildFailure,
    Cell,
    ConfigFailure,
    Evidence,
    KernelPlan,
    Plan,
    Revision,
)
from pipeline.slots import SHAPE, Slot, What


@dataclass(frozen=True)
class Witness:
    """Answers for each slot what the evidence says of it."""

    plan: Plan
    evidence: Evidence

    def observe(self, slot: Slot) -> Observation:
        """What became of this case; nothing that is not in the evidence is good."""
        if slot.what is What.APPLY:
            return self.apply(slot.kernel)
        if slot.what is What.BUILD:
            return self.build(slot.target, slot.kernel)
        assert slot.cell is not None
        return self._in_cell(slot, slot.cell)

    def apply(self, kernel: KernelPlan) -> Observation:
        """Whether the kernel's series applies, on one that applies itself."""
        fault = self._fault("tree", f"apply.{kernel.name}")
        if fault:
            return fault
        under = self._kernels.get(kernel.on or "")
        if under and (below := self.apply(under)).state is not State.GOOD:
            return blocked(f"{under.name} to apply", below)
        found = self.evidence.revisions.get(kernel.name)
        if isinstance(found, ApplyFailure):
            return _not_applied(found)
        if isinstance(found, Revision):
            return Observation(state=State.GOOD)
        return self._missing(f"apply.{kernel.name}")

    def build(self, target: str, kernel: KernelPlan) -> Observation:
        """Whether the kernel builds for a target that this host can give at all."""
        cause = self._unsupported_everywhere(target)
        if cause:
            return Observation(state=State.UNSUPPORTED, reason=cause)
        applied = self.apply(kernel)
        if applied.state is not State.GOOD:
            return blocked(f"{kernel.name} to apply", applied)
        fault = self._fault(f"build.{target}.{kernel.name}")
        if fault:
            return fault
        found = self.evidence.builds.get((target, kernel.name))
        if found is None:
            return self._missing(f"build.{target}.{kernel.name}")
        return _built(found)

    def findings(self, cell: Cell, kernel: str) -> frozenset[tuple[str, str]]:
        """Everything that this kernel reported in the cell, in whatever boot and attempt."""
        return frozenset(
            (finding.kind, finding.title)
            for result in self.evidence.boots
            if (result.boot.cell, result.boot.kernel) == (cell, kernel)
            for finding in result.findings
        )

    def _in_cell(self, slot: Slot, cell: Cell) -> Observation:
        if cell in self.plan.unsupported:
            return Observation(state=State.UNSUPPORTED, reason=self.plan.unsupported[cell])
        built = self.build(cell.target, slot.kernel)
        if built.state is not State.GOOD:
            return blocked(f"{slot.kernel.name} to build for {cell.target}", built)
        host = self._fault(f"image.{cell.architecture}", f"accelerator.{cell.architecture}")
        if host:
            return host if slot.what is What.BOOT else blocked("the boot", host)
        boots = self._boots[cell, slot.kernel.name]
        return together([self._in_boot(slot, boot) for boot in boots]) or self._missing()

    def _in_boot(self, slot: Slot, boot: BootId) -> Observation:
        result = self._results.get(boot)
        if fault := self._fault(boot.name):
            return fault if slot.what is What.BOOT else blocked("the boot", fault)
        if result is None:
            missing = self._missing(boot.name)
            return missing if slot.what is What.BOOT else blocked("the boot", missing)
        result = self._planned_outputs(result)
        if slot.what is What.BOOT:
            return boot_view(result)
        if slot.what is What.SHAPE:
            return shape_view(result)
        if slot.what is What.EVENT:
            return event_view(result, slot.source)
        needs_numbers = slot.what is What.PROBE or self._has_readings(slot.source)
        return source_view(result, slot.source, what=slot.what, needs_numbers=needs_numbers)

    def _planned_outputs(self, result: BootResult) -> BootResult:
        """A fault under a step that no case stands for is the boot's, not lost."""
        labels = {run.label for run in self.plan.scenario.workloads}
        sources = {SHAPE, *self.plan.scenario.probes, *(labels & {result.boot.cell.workload})}
        outputs = tuple(output for output in result.outputs if output.source in sources)
        return replace(result, outputs=outputs)

    def _has_readings(self, label: str) -> bool:
        return any(
            reading.required
            for run in self.plan.scenario.workloads
            if run.label == label
            for reading in run.spec.readings
        )

    @cached_property
    def _kernels(self) -> Mapping[str, KernelPlan]:
        return {kernel.name: kernel for kernel in self.plan.scenario.kernels}

    @cached_property
    def _boots(self) -> Mapping[tuple[Cell, str], list[BootId]]:
        boots: defaultdict[tuple[Cell, str], list[BootId]] = defaultdict(list)
        for boot in dict.fromkeys(self.plan.boots):
            boots[boot.cell, boot.kernel].append(boot)
        return boots

    @cached_property
    def _results(self) -> Mapping[BootId, BootResult]:
        """By the boot as planned; of several attempts the last one counts."""
        attempts = sorted(self.evidence.boots, key=lambda result: result.boot.boot)
        return {replace(result.boot, boot=0): result for result in attempts}

    def _fault(self, *nodes: str) -> Observation | None:
        for node in nodes:
            if node in self.evidence.faults:
                reason = self.evidence.faults[node] or f"{node} failed"
                return Observation(state=State.HARNESS, reason=reason)
        return None

    def _missing(self, node: str = "") -> Observation:
        """No evidence: cut, not worth its time, or else a defect of the harness."""
        if self.evidence.cut:
            return Observation(state=State.CUT, reason="the run was cut before its end")
        if node in self.evidence.spared:
            return Observation(state=State.BLOCKED, reason=self.evidence.spared[node])
        return Observation(state=State.HARNESS, reason="no result came back")

    def _unsupported_everywhere(self, target: str) -> str:
        cells = [cell for cell in self.plan.cells if cell.target == target]
        causes = [self.plan.unsupported.get(cell, "") for cell in cells]
        return causes[0] if causes and all(cell in self.plan.unsupported for cell in cells) else ""


def _not_applied(failure: ApplyFailure) -> Observation:
    return Observation(
        state=State.FAULTY,
        reason=str(failure),
        evidence=str(failure.log or ""),
        detail=failure.words,
        faults=(Fault(kind="apply", title=str(failure), text=str(failure)),),
    )


def _built(found: Build | BuildFailure | ConfigFailure) -> Observation:
    if isinstance(found, Build):
        return Observation(state=State.GOOD, evidence=str(found.log), seconds=found.seconds)
    if isinstance(found, ConfigFailure) and found.unsupported:
        # The fragment itself says that it is not for such a tree or architecture.
        return Observation(state=State.UNSUPPORTED, reason=found.words, evidence=str(found.log))
    if isinstance(found, BuildFailure):
        # Without the line, which moves as soon as the series touches the file above it.
        title = f"{found.file}: {found.error}"
        fault = Fault(kind="build", title=title, text=str(found), file=found.file)
        detail = ""
    else:
        fault = Fault(kind="config", title=found.what, text=str(found))
        detail = found.words
    return Observation(
        state=State.FAULTY,
        reason=fault.text,
        evidence=str(found.log),
        detail=detail,
        faults=(fault,),
    )
