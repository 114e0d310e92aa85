"""What the evidence says of each planned case, before anyone is charged. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pipeline import diagnostics, plan, trials, trialview
from pipeline.bootview import (
    Fault,
    Observation,
    State,
    blocked,
    boot_view,
    event_view,
    shape_view,
    source_view,
)
from pipeline.effects import Judgement
from pipeline.model import (
    ApplyFailure,
    BootId,
    BootResult,
    Build,
    BuildFailure,
    Cell,
    Comparison,
    ConfigFailure,
    Diagnostic,
    Evidence,
    KernelPlan,
    Plan,
    Revision,
    Role,
    Stop,
)
from pipeline.severalboots import TOLD, together
from pipeline.slots import SHAPE, Slot, What
from pipeline.trials import Compared

IDENTICAL = "skipped: image identical to {}"


@dataclass(frozen=True)
class Witness:
    """Answers for each slot what the evidence says of it."""

    plan: Plan
    evidence: Evidence

    def observe(self, slot: Slot) -> Observation:
        """What became of this case; nothing that is not in the evidence is good."""
        of_build = {
            What.APPLY: lambda: self.apply(slot.kernel),
            What.BUILD: lambda: self.build(slot.target, slot.kernel),
            What.WARNINGS: lambda: self._warnings(slot.target, slot.kernel),
            What.CHECK: lambda: self._check(slot),
            What.VERIFY: lambda: self._verified(slot.target, slot.kernel),
        }
        if slot.what in of_build:
            return of_build[slot.what]()
        assert slot.cell is not None
        return (self._trial if slot.what is What.TRIAL else self._in_cell)(slot, slot.cell)

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

    def _ready(self, target: str, kernel: KernelPlan) -> Observation | None:
        """Why nothing can be said of a build, None where it is there."""
        built = self.build(target, kernel)
        if built.state is State.GOOD:
            return None
        return blocked(f"{kernel.name} to build for {target}", built)

    def _warnings(self, target: str, kernel: KernelPlan) -> Observation:
        """What the compiler says of this kernel and did not say of the one directly below."""
        if missing := self._ready(target, kernel):
            return missing
        below = self._below_that_builds(target, kernel)
        if missing := self._ready(target, below):
            return missing
        now, before = self._said(target, kernel), self._said(target, below)
        if now is None or before is None:
            reason = "what the compiler said of a kernel is not known: it was built by an older run"
            return Observation(state=State.UNSUPPORTED, reason=reason)
        log = self.build(target, kernel).evidence
        return _of_diagnostics(diagnostics.new(before, now), "warning", log)

    def _below_that_builds(self, target: str, kernel: KernelPlan) -> KernelPlan:
        """The kernel directly below, or where that does not build the next one that does."""
        for each in plan.beneath(self.plan.scenario, kernel):
            if self.build(target, each).state is State.GOOD:
                return each
        below = plan.below(self.plan.scenario, kernel)
        assert below is not None
        return below

    def _said(self, target: str, kernel: KernelPlan) -> tuple[Diagnostic, ...] | None:
        built = self.evidence.builds[target, kernel.name]
        return built.warnings if isinstance(built, Build) else None

    def _check(self, slot: Slot) -> Observation:
        """What a check says of this kernel, or of its patches, that it did not say below."""
        if not slot.target and (applied := self.apply(slot.kernel)).state is not State.GOOD:
            return blocked(f"{slot.kernel.name} to apply", applied)
        if slot.target and (missing := self._ready(slot.target, slot.kernel)):
            return missing
        node = ".".join(filter(None, ("check", slot.target, slot.kernel.name, slot.source)))
        found = self.evidence.checked.get((slot.target, slot.kernel.name, slot.source))
        if found is None:
            return self._fault(node) or self._missing(node)
        log = str(found.log or "")
        if found.new or not found.problem:
            return _of_diagnostics(found.new, slot.source, log)
        return Observation(state=State.UNSUPPORTED, reason=found.problem, evidence=log)

    def _verified(self, target: str, kernel: KernelPlan) -> Observation:
        """Whether the build is what a clean one gives; if not, that is our fault."""
        if missing := self._ready(target, kernel):
            return missing
        node = f"verify.{target}.{kernel.name}"
        found = self.evidence.verified.get((target, kernel.name))
        if found is None:
            return self._fault(node) or self._missing(node)
        if not found.differing:
            return Observation(state=State.GOOD, seconds=found.seconds)
        reason = f"not what a clean build gives: {', '.join(found.differing)}"
        return Observation(state=State.HARNESS, reason=reason, evidence=str(found.log or ""))

    def _trial(self, slot: Slot, cell: Cell) -> Observation:
        """What a trial says of a kernel in a cell."""
        found = self._compared.get((cell, slot.kernel.name, slot.source), ())
        for name in dict.fromkeys((slot.kernel.name, *(each.base for each in found))):
            ran = self._ran(slot, self._kernels[name], cell)
            if ran.state is not State.GOOD:
                return blocked(f"every boot of {name} to go well", ran)
        if not found:
            return Observation(state=State.HARNESS, reason="no boot gave the numbers for it")
        return _of_trial(found)

    def _ran(self, slot: Slot, kernel: KernelPlan, cell: Cell) -> Observation:
        """Whether a kernel booted in a cell and its workload ran: one that breaks has no times."""
        about = replace(slot, kernel=kernel, what=What.BOOT, source="")
        booted = self._in_cell(about, cell)
        if booted.state is not State.GOOD or self.plan.scenario.workload(cell.workload) is None:
            return booted
        return self._in_cell(replace(about, what=What.WORKLOAD, source=cell.workload), cell)

    def findings(self, cell: Cell, kernel: str) -> frozenset[tuple[str, str]]:
        """Everything that this kernel reported in the cell, in whatever boot and attempt."""
        return frozenset(
            (finding.kind, finding.title)
            for result in self.evidence.boots
            if (result.boot.cell, result.boot.kernel) == (cell, kernel)
            for finding in result.findings
        )

    def often(self, twin: Slot, there: Sequence[Slot], key: tuple[str, str]) -> tuple[int, int]:
        """In how many of how many boots of the kernel below a fault came, in whatever step.

        `twin`: the case that tells whether a boot could have shown it; `there`: all of that kernel
        in that cell.
        """
        assert twin.cell is not None
        boots = self._boots[twin.cell, twin.kernel.name]
        with_it = [boot for boot in boots if key in self._keys(there, boot)]
        whole = [
            boot for boot in boots if boot in with_it or self._in_boot(twin, boot).state in TOLD
        ]
        return len(with_it), len(whole)

    def told(self, slot: Slot) -> Observation | None:
        """What those boots say together that could show a fault; None where there are none."""
        assert slot.cell is not None
        boots = self._boots[slot.cell, slot.kernel.name]
        views = [self._in_boot(slot, boot) for boot in boots]
        return together([view for view in views if view.state in TOLD])

    def _keys(self, there: Sequence[Slot], boot: BootId) -> set[tuple[str, str]]:
        """All that a kernel did wrong in a boot that its host let come to an end."""
        result = self._results.get(boot)
        if result is None or result.stop in {Stop.INFRA, Stop.CUT}:
            return set()
        views = (self._in_boot(slot, boot) for slot in there if slot.what is not What.TRIAL)
        found = {fault.key for view in views for fault in view.faults}
        return found | {(finding.kind, finding.title) for finding in result.findings}

    def _in_cell(self, slot: Slot, cell: Cell) -> Observation:
        if cell in self.plan.unsupported:
            return Observation(state=State.UNSUPPORTED, reason=self.plan.unsupported[cell])
        kernels = self._kernels
        target = plan.target_of(cell.built_for, slot.kernel).name
        built = self.build(target, kernels[slot.kernel.source])
        if built.state is not State.GOOD:
            return blocked(f"{slot.kernel.source} to build for {target}", built)
        if same := self._same_as(cell, slot.kernel):
            return Observation(state=State.IDENTICAL, reason=same)
        host = self._fault(f"image.{cell.architecture}", f"accelerator.{cell.architecture}")
        if host:
            return host if slot.what is What.BOOT else blocked("the boot", host)
        boots = self._boots[cell, slot.kernel.name]
        return together([self._in_boot(slot, boot) for boot in boots]) or self._missing()

    def _same_as(self, cell: Cell, kernel: KernelPlan) -> str:
        """Why a kernel need not boot in a cell: it is the one below it, or nothing on trial is
        another than that."""
        if kernel.role is Role.PATCHED:
            found = self._compared_in(cell, kernel)
            return IDENTICAL.format(found.below) if found and found.identical else ""
        tried = [k for k in self._kernels.values() if k.role is Role.PATCHED and k.boots]
        all_same = all((it := self._compared_in(cell, k)) and it.identical for k in tried)
        return IDENTICAL.format("base") if tried and all_same else ""

    def _compared_in(self, cell: Cell, kernel: KernelPlan) -> Comparison | None:
        target = plan.target_of(cell.built_for, kernel).name
        return self.evidence.comparisons.get((target, kernel.name))

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
        run = self.plan.scenario.workload(slot.source) if slot.what is What.WORKLOAD else None
        return source_view(
            result,
            slot.source,
            what=slot.what,
            needs_numbers=run is None
            or (not run.counted and any(each.required for each in run.spec.readings)),
            needs_tests=run is not None and bool(run.spec.ktap),
        )

    def _planned_outputs(self, result: BootResult) -> BootResult:
        """A fault under a step that no case stands for is the boot's, not lost."""
        labels = {run.label for run in self.plan.scenario.workloads}
        cell = result.boot.cell
        sources = {SHAPE, *plan.probes_in(self.plan.scenario, cell), *(labels & {cell.workload})}
        outputs = tuple(output for output in result.outputs if output.source in sources)
        return replace(result, outputs=outputs)

    @cached_property
    def _kernels(self) -> Mapping[str, KernelPlan]:
        return {kernel.name: kernel for kernel in self.plan.scenario.kernels}

    @cached_property
    def _boots(self) -> Mapping[tuple[Cell, str], list[BootId]]:
        boots: defaultdict[tuple[Cell, str], list[BootId]] = defaultdict(list)
        wanted = dict.fromkeys(b for b in self.plan.boots if b.name not in self.evidence.enough)
        for boot in wanted:
            boots[boot.cell, boot.kernel].append(boot)
        return boots

    @cached_property
    def _compared(self) -> Mapping[tuple[Cell, str, str], tuple[Compared, ...]]:
        return trials.by_place(trials.compare(self.plan, self.evidence.boots))

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


def _of_diagnostics(new: Sequence[Diagnostic], what: str, log: str) -> Observation:
    if not new:
        return Observation(state=State.GOOD, evidence=log)
    count = f"{len(new)} new {what}{'s' if len(new) > 1 else ''}"
    return Observation(
        state=State.FAULTY,
        reason=f"{count}: {new[0]}",
        evidence=log,
        detail="\n".join(map(str, new)),
        faults=tuple(Fault(kind=what, title=str(each.key), text=str(each)) for each in new),
    )


def _of_trial(found: Sequence[Compared]) -> Observation:
    """Worse decides over unclear, unclear over good."""
    worse = [each for each in found if each.judgement is Judgement.REGRESSED]
    unclear = [each for each in found if each.judgement is Judgement.INCONCLUSIVE]
    told = worse or unclear
    reason = "; ".join(f"{each.name}: {_in_words(each)}" for each in told)
    state = State.FAULTY if worse else State.UNCLEAR if unclear else State.GOOD
    faults = (Fault(kind="trial", title=each.name, text=reason) for each in worse)
    return Observation(
        state=state,
        reason=reason,
        detail="\n".join(f"{each.name}: {_in_words(each)}" for each in found),
        faults=tuple(faults),
    )


def _in_words(each: Compared) -> str:
    words = trialview.verdict(each)
    if each.effect is None:
        return words
    ratio, low, high = each.effect.ratio, each.effect.low, each.effect.high
    return f"{words} ({ratio:.4f} of {each.base}, {low:.4f} … {high:.4f})"


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
