"""One boot of one kernel: compose the initramfs, start the guest, run its program, read numbers.

A guest whose QEMU died says nothing of the kernel: it is booted once more, afresh.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline import (
    accelerator,
    binding,
    deterministic,
    events,
    firmware,
    guesttests,
    guestview,
    host,
    image,
    metrics,
    patience,
    plan,
    repeat,
    results,
    symbols,
    workload,
)
from pipeline.actor import Setting
from pipeline.catalog import Catalog
from pipeline.domain import GuestSpec
from pipeline.errors import InfraError
from pipeline.hypervisor import Hypervisor
from pipeline.keys import Keys, new_keys
from pipeline.model import (
    Accelerator,
    Action,
    BootId,
    BootResult,
    Build,
    Cell,
    EventResult,
    GuestShape,
    Image,
    KernelPlan,
    Output,
    ProbeSpec,
    Scenario,
    Stop,
)
from pipeline.progress import Step
from pipeline.results import Folder
from pipeline.scope import Scope
from pipeline.transport import Carried, OverConsole, OverSsh, Program, Transport

# A boot as a whole, on top of what its steps and events may take.
SLACK_SECONDS = 60.0
# Memory that is to go again must hold nothing that cannot be moved.
GIVES_MEMORY_BACK = {Action.MEMORY_REMOVE, Action.MEMORY_OFFLINE}

DETERMINISTIC = Accelerator(name="tcg", reason="a deterministic guest counts instructions")


@dataclass(frozen=True, kw_only=True)
class BootJob:
    """What to boot, with what. `expected_seconds`: of the workload, None where nobody knows.
    `cores`: the host's, where the boot has them to itself."""

    boot: BootId
    kernel: KernelPlan
    build: Build
    image: Image
    accelerator: Accelerator
    expected_seconds: float | None = None
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Account:
    """What a boot came to, before it is written down."""

    carried: Carried
    started: float
    ready: float | None


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A guest's definition and what was made for it. `tables`: an archive in front of the
    initramfs, empty where there is none."""

    spec: GuestSpec
    way: Transport
    program: Program
    tables: bytes = b""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Booter:
    """Runs the boots of one run, several at once. `cache`: the cache's folder.

    The keys are the run's own, and made at once: `guest/key` in the results lets into each guest.
    """

    folder: Folder
    shelf: Catalog
    scenario: Scenario
    cache: Path
    over: str = "ssh"
    keys: Keys = field(default_factory=new_keys)
    _took: dict[Cell, float] = field(default_factory=dict, compare=False)  # seconds of a workload

    @property
    def _counts(self) -> bool:
        """Whether the guests' time counts instructions."""
        return self.scenario.deterministic

    def probes(self, cell: Cell) -> tuple[ProbeSpec, ...]:
        """Those that are read in a cell, with their parameters. One that slows the kernel is not
        read where time is measured."""
        run, given = self.scenario.workload(cell.workload), self.scenario.probe_parameters
        return tuple(
            binding.of_probe(self.shelf.probes[name], given.get(name, {}))
            for name in plan.probes_in(self.scenario, cell)
            if run is None or run.counted or not self.shelf.probes[name].slows
        )

    def run(
        self, job: BootJob, hypervisor: Hypervisor, *, scope: Scope, step: Step
    ) -> tuple[BootResult, ...]:
        """Boot, run, power off; once more where QEMU died or did not start. The last counts.

        What the guest does wrong is in the result.

        Raises:
            InfraError: libvirt or QEMU refuses to start the guest, twice.
            Cancelled: the run was cancelled; the guest is gone.
        """
        if self._counts:
            job = replace(job, accelerator=DETERMINISTIC)
        again = replace(job, boot=replace(job.boot, boot=job.boot.boot + 1))
        try:
            first = self._attempt(job, hypervisor, scope=scope, step=step)
        except InfraError as error:
            scope.check()
            second = self._attempt(again, hypervisor, scope=scope, step=step)
            note = f"booted once more, since the first attempt did not start: {error}"
            return (replace(second, notes=(*second.notes, note)),)
        if first.stop is not Stop.INFRA:
            return (first,)
        try:
            second = self._attempt(again, hypervisor, scope=scope, step=step)
            note = f"booted once more, afresh, since in the first attempt {first.reason}"
            return (first, replace(second, notes=(*second.notes, note)))
        except InfraError as error:
            note = f"a second attempt did not start: {error}"
            return (replace(first, notes=(*first.notes, note)),)

    def _attempt(
        self, job: BootJob, hypervisor: Hypervisor, *, scope: Scope, step: Step
    ) -> BootResult:
        here = self.folder.boot(job.boot)
        program = self._program(job)
        seconds = sum(each.deadline for each in program.steps)
        seconds += sum(map(events.allowance, program.events))
        whole = scope.child(
            patience.boot_seconds(job.accelerator, self._shape(job)) * job.build.slower
            + seconds * host.MOST_CROWDED
            + SLACK_SECONDS
        )
        stem = hypervisor.root / uuid.uuid4().hex
        with _files(stem) as (initrd, overlay):
            made = self._made(job, program, here, initrd)
            if job.image.disk is not None:
                repeat.lay_over(job.image, overlay, scope=whole)
                made = replace(made, spec=replace(made.spec, disk=overlay))
            made = self._with_tables(job, made, hypervisor, scope=whole, step=step)
            if self._counts:
                made = replace(made, notes=(*made.notes, self._repeatable(job, made.spec, whole)))
            self._keep_recipe(job, made, here)
            account = self._guest(job, made, hypervisor, scope=whole, step=step)
        self._write_outputs(account.carried.outputs, here)
        self._remember(job, account)
        return self._result(job, made, account, here, whole)

    # ------------------------------------------------------------------ before

    def _shape(self, job: BootJob) -> GuestShape:
        return self.shelf.guests[plan.guest_of(job.boot.cell, job.kernel)]

    def _program(self, job: BootJob) -> Program:
        cell = job.boot.cell
        expected = job.expected_seconds
        return Program(
            run=self.scenario.workload(cell.workload),
            probes=self.probes(cell),
            events=plan.events_of(self.scenario, cell, job.kernel),
            expected=self._took.get(cell) if expected is None else expected,
            slower=job.build.slower * (deterministic.SLOWER if self._counts else 1.0),
            settings=job.kernel.settings,
            seed=job.boot.block if self._counts else 0,
        )

    def _remember(self, job: BootJob, account: _Account) -> None:
        """How long the workload took, for the events of the boots that follow."""
        for output in account.carried.outputs:
            if output.source == job.boot.cell.workload and output.exit_status == 0:
                self._took[job.boot.cell] = output.seconds

    def _made(self, job: BootJob, program: Program, here: Path, initrd: Path) -> _Made:
        way: Transport = OverSsh(keys=self.keys, program=program)
        if self.over == "console" or self._counts:
            way = OverConsole(program=program)
        image.compose(
            job.image,
            modules=job.build.modules,
            programs=job.build.programs,
            files=way.files(),
            target=initrd,
        )
        spec = GuestSpec(
            name=job.boot.name,
            uuid=str(uuid.uuid4()),
            architecture=self.shelf.architecture(job.boot.cell.architecture),
            shape=self._shape(job),
            accelerator=job.accelerator,
            kernel=job.build.image,
            initrd=initrd,
            console=here / "console.log",
            cmdline=(
                *job.build.cmdline,
                *job.kernel.cmdline,
                *binding.kernel_arguments(program.run),
            ),
            network=way.network,
            slower=job.build.slower,
            reserves=job.build.reserves,
            deterministic=self._counts,
            cores=job.cores,
        )
        return _Made(spec=spec, way=way, program=program)

    def _with_tables(
        self, job: BootJob, made: _Made, hypervisor: Hypervisor, *, scope: Scope, step: Step
    ) -> _Made:
        wanted = self.scenario.table_override and not self._counts
        if not (wanted and firmware.wanted(made.spec, job.build)):
            return made
        setup = firmware.Setup(
            image=job.image, keys=self.keys, cache=self.cache, hypervisor=hypervisor
        )
        tables = firmware.replaced(made.spec, job.build, setup, scope=scope, step=step)
        return replace(made, tables=tables.archive, notes=(*made.notes, tables.note))

    def _repeatable(self, job: BootJob, spec: GuestSpec, scope: Scope) -> str:
        """What the numbers of a deterministic boot depend on, besides its kernel."""
        digest = hashlib.sha256(job.image.path.read_bytes()).hexdigest()
        return deterministic.note(
            accelerator.qemu_version(spec.architecture, scope), f"{job.image.name} {digest[:16]}"
        )

    def _keep_recipe(self, job: BootJob, made: _Made, here: Path) -> None:
        """What was booted, and a script that does it again."""
        repeat.write(
            repeat.Recipe(
                spec=made.spec,
                build=job.build,
                kept=self.folder.build(
                    plan.target_of(job.boot.cell.built_for, job.kernel).name, job.kernel.source
                ),
                image=job.image,
                files=made.way.files(),
                steps=made.program.steps,
                tables=made.tables,
                key=self.keys.private,
            ),
            self.folder,
            here,
        )

    # ------------------------------------------------------------------ the guest

    def _guest(
        self, job: BootJob, made: _Made, hypervisor: Hypervisor, *, scope: Scope, step: Step
    ) -> _Account:
        name = job.accelerator.name
        gives_back = any(each.action in GIVES_MEMORY_BACK for each in made.program.events)
        setting = Setting(
            shape=made.spec.shape,
            architecture=made.spec.architecture,
            accelerator=name,
            overridden=bool(made.tables),
            zone="online_movable" if gives_back else "online",
        )
        with hypervisor.guest(made.spec, scope=scope) as guest:
            step.note("booting")
            end = patience.until_ready(guest, scope)
            carried = (
                made.way.carry(guest, setting, scope=scope, step=step)
                if end is None
                else Carried(
                    outputs=(),
                    end=end,
                    events=tuple(
                        EventResult(label=each.label, reason="the guest did not get ready")
                        for each in made.program.events
                    ),
                )
            )
        # A disk that cannot be booted is no fault of the kernel.
        if guest.ready_at is None and (wrong := image.fault(guest.last_words())):
            end = replace(carried.end, stop=Stop.INFRA, reason=f"the image: {wrong}")
            carried = replace(carried, end=end)
        return _Account(carried=carried, started=guest.started, ready=guest.ready_at)

    # ------------------------------------------------------------------ after

    def _write_outputs(self, outputs: tuple[Output, ...], here: Path) -> None:
        folder = results.made(here / "outputs")
        for number, output in enumerate(outputs):
            name = f"{number:02}-{output.source}.{output.phase.value}.txt"
            results.write(folder / name, output.text)

    def _result(
        self, job: BootJob, made: _Made, account: _Account, here: Path, scope: Scope
    ) -> BootResult:
        carried, end = account.carried, account.carried.end
        differences, known = against_shape(made.spec, carried.outputs)
        program = made.program
        samples, problems = metrics.of_boot(program.readings, program.deltas, carried.outputs)
        told = guesttests.of(
            made.program.run, carried.outputs, made.spec.console, off=_powered_off(carried)
        )
        if end.qemu_log_tail:
            results.write(here / "qemu.log", end.qemu_log_tail + "\n")
        return BootResult(
            boot=job.boot,
            stop=end.stop,
            reason=end.reason,
            findings=symbols.decoded(end.findings, job.build, scope),
            outputs=carried.outputs,
            samples=samples,
            problems=(*problems, *told.problems),
            tests=told.results,
            accelerator=job.accelerator,
            started=account.started,
            ready=account.ready,
            ended=time.time(),
            since=end.since,
            folder=here,
            differences=differences,
            events=carried.events,
            notes=(
                *made.notes,
                *known,
                *told.notes,
                *patience.notes(made.spec),
                *(f"{each.name}: {each.note}" for each in made.program.probes if each.note),
            ),
        )


def against_shape(
    spec: GuestSpec, outputs: tuple[Output, ...]
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """As `guestview.held_against` has it; None where the guest's view was not read."""
    for output in outputs:
        if output.source == workload.SHAPE and output.exit_status == 0:
            return guestview.held_against(
                spec.shape, spec.architecture, output.text, reserves=spec.reserves
            )
    return None, ()


def _powered_off(carried: Carried) -> bool | None:
    """Whether a guest that did all its work powered off; None for one that did not get there."""
    if carried.end.stop is not Stop.COMPLETED:
        return None
    return bool(carried.end.reason)  # "" of one that still ran when it was ended


@contextmanager
def _files(stem: Path) -> Iterator[tuple[Path, Path]]:
    """The initramfs and the disk of one guest, gone with it."""
    try:
        yield stem.with_suffix(".initrd"), stem.with_suffix(".qcow2")
    finally:
        for path in stem.parent.glob(f"{stem.name}.*"):
            path.unlink(missing_ok=True)
