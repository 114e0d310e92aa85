"""One boot of one kernel: compose the initramfs, start the guest, run the steps, read numbers."""

from __future__ import annotations

import shlex
import time
import uuid
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pipeline import domain, image, initramfs, keys, metrics, results, workload
from pipeline.catalog import Catalog
from pipeline.domain import GuestSpec
from pipeline.guest import GuestEnd
from pipeline.hypervisor import Hypervisor
from pipeline.model import (
    Accelerator,
    BootId,
    BootResult,
    Build,
    Image,
    Output,
    ProbeSpec,
    Reading,
    Sample,
    Scenario,
    WorkloadRun,
)
from pipeline.progress import Step
from pipeline.results import Folder
from pipeline.scope import Scope
from pipeline.transport import Carried, OverConsole, OverSsh, Transport

# Generous: a slow host must not turn a good kernel into a hang. A guest that says nothing
# more for SILENCE is given up long before; both are per accelerator.
BOOT_SECONDS = {"kvm": 60.0, "tcg": 240.0}
SILENCE_SECONDS = {"kvm": 15.0, "tcg": 40.0}
# A boot as a whole, on top of what its steps may take.
SLACK_SECONDS = 60.0
BY_HAND_PORT = 2222


@dataclass(frozen=True, kw_only=True)
class BootJob:
    """What to boot, with what."""

    boot: BootId
    build: Build
    image: Image
    accelerator: Accelerator


@dataclass(frozen=True, kw_only=True)
class _Account:
    """What a boot came to, before it is written down."""

    end: GuestEnd
    outputs: tuple[Output, ...]
    started: float
    ready: float | None


@dataclass(frozen=True)
class Booter:
    """Runs the boots of one run; the keys are the run's own."""

    folder: Folder
    shelf: Catalog
    scenario: Scenario
    over: str = "ssh"

    @cached_property
    def keys(self) -> keys.Keys:
        return keys.new_keys()

    @cached_property
    def probes(self) -> tuple[ProbeSpec, ...]:
        return tuple(self.shelf.probes[name] for name in self.scenario.probes)

    def _workload_of(self, label: str) -> WorkloadRun | None:
        return next((run for run in self.scenario.workloads if run.label == label), None)

    def run(self, job: BootJob, hypervisor: Hypervisor, *, scope: Scope, step: Step) -> BootResult:
        """Boot, run, power off. What the guest does wrong is in the result.

        Raises:
            InfraError: libvirt or QEMU refuses to start the guest.
            Cancelled: the run was cancelled; the guest is gone.
        """
        here = self.folder.boot(job.boot)
        run = self._workload_of(job.boot.cell.workload)
        steps = workload.steps(run, self.probes)
        whole = scope.child(
            BOOT_SECONDS[job.accelerator.name]
            + sum(each.deadline for each in steps)
            + SLACK_SECONDS
        )
        initrd = hypervisor.root / f"{uuid.uuid4().hex}.initrd"
        try:
            way = self._transport(run)
            spec = self._spec(job, here, initrd, way)
            self._write_recipe(job, spec, here, way)
            account = self._guest(job, spec, hypervisor, way, scope=whole, step=step)
        finally:
            initrd.unlink(missing_ok=True)
        self._write_outputs(account.outputs, here)
        return self._result(job, account, run, here)

    # ------------------------------------------------------------------ before

    def _transport(self, run: WorkloadRun | None) -> Transport:
        if self.over == "console":
            return OverConsole(run=run, probes=self.probes)
        return OverSsh(keys=self.keys, run=run, probes=self.probes)

    def _spec(self, job: BootJob, here: Path, initrd: Path, way: Transport) -> GuestSpec:
        image.compose(job.image, modules=job.build.modules, files=way.files(), target=initrd)
        return GuestSpec(
            name=job.boot.name,
            uuid=str(uuid.uuid4()),
            architecture=self.shelf.architecture(job.boot.cell.architecture),
            shape=self.shelf.guests[job.boot.cell.guest],
            accelerator=job.accelerator,
            kernel=job.build.image,
            initrd=initrd,
            console=here / "console.log",
            network=way.network,
        )

    def _write_recipe(self, job: BootJob, spec: GuestSpec, here: Path, way: Transport) -> None:
        """The domain, the steps, and a script that boots the same guest by hand."""
        results.write(here / "domain.xml", domain.render(spec))
        run = self._workload_of(job.boot.cell.workload)
        lines = [
            f"# {each.source}, {each.phase.value}\n{each.command}\n"
            for each in workload.steps(run, self.probes)
        ]
        results.write(
            here / "steps.sh", "# What was run in the guest, in this order.\n\n" + "\n".join(lines)
        )
        up = Path("../../..")
        parts = self._parts(job, here, way)
        by_hand = f"ssh -i {up}/guest/key -p {BY_HAND_PORT} root@127.0.0.1 sh < steps.sh"
        own = replace(
            spec,
            kernel=up / self._kept_build(job).relative_to(self.folder.root) / job.build.image.name,
            initrd=Path("initrd.img"),
            ssh_port=BY_HAND_PORT,
        )
        results.write(
            here / "repeat.sh",
            "#!/bin/sh\n# Boots this guest by hand; its console is the terminal.\n"
            f"# {by_hand if way.network else 'It runs its steps by itself and powers off.'}\n"
            'cd "$(dirname "$0")" || exit 1\n'
            f"cat {shlex.join(str(up / part) for part in parts)} > initrd.img\n"
            f"exec {shlex.join(domain.by_hand(own))}\n",
        )
        (here / "repeat.sh").chmod(0o755)

    def _kept_build(self, job: BootJob) -> Path:
        return self.folder.build(job.boot.cell.architecture, job.boot.kernel)

    def _parts(self, job: BootJob, here: Path, way: Transport) -> list[Path]:
        """The archives of the initramfs, kept in the run's folder; relative to that."""
        guest = results.made(self.folder.root / "guest")
        kept = [guest / f"{job.image.name}.{job.image.architecture}.cpio"]
        results.link(job.image.path, kept[0])
        if job.build.modules:
            kept.append(self._kept_build(job) / job.build.modules.name)
            results.link(job.build.modules, kept[-1])
        kept.append(here / "guest-files.cpio")
        files = [
            initramfs.file(path, given.data, given.mode)
            for path, given in sorted(way.files().items())
        ]
        kept[-1].write_bytes(initramfs.archive(files))
        key = guest / "key"
        key.touch(mode=0o600)
        key.write_text(self.keys.private)
        return [path.relative_to(self.folder.root) for path in kept]

    # ------------------------------------------------------------------ the guest

    def _guest(
        self,
        job: BootJob,
        spec: GuestSpec,
        hypervisor: Hypervisor,
        way: Transport,
        *,
        scope: Scope,
        step: Step,
    ) -> _Account:
        name = job.accelerator.name
        with hypervisor.guest(spec, scope=scope) as guest:
            step.note("booting")
            end = guest.wait_ready(scope.child(BOOT_SECONDS[name]), silence=SILENCE_SECONDS[name])
            carried = (
                way.carry(guest, scope=scope, step=step)
                if end is None
                else Carried(outputs=(), end=end)
            )
            return _Account(
                end=carried.end,
                outputs=carried.outputs,
                started=guest.started,
                ready=guest.ready_at,
            )

    # ------------------------------------------------------------------ after

    def _write_outputs(self, outputs: tuple[Output, ...], here: Path) -> None:
        folder = results.made(here / "outputs")
        for number, output in enumerate(outputs):
            name = f"{number:02}-{output.source}.{output.phase.value}.txt"
            results.write(folder / name, output.text)

    def _readings(self, source: str, run: WorkloadRun | None) -> tuple[Reading, ...]:
        if run is not None and source == run.label:
            return run.spec.readings
        return next((probe.readings for probe in self.probes if probe.name == source), ())

    def _result(
        self, job: BootJob, account: _Account, run: WorkloadRun | None, here: Path
    ) -> BootResult:
        samples: list[Sample] = []
        problems: list[str] = []
        for output in account.outputs:
            found, trouble = metrics.read(self._readings(output.source, run), output)
            samples += found
            problems += trouble
        if account.end.qemu_log_tail:
            results.write(here / "qemu.log", account.end.qemu_log_tail + "\n")
        return BootResult(
            boot=job.boot,
            stop=account.end.stop,
            reason=account.end.reason,
            findings=account.end.findings,
            outputs=account.outputs,
            samples=tuple(samples),
            problems=tuple(problems),
            accelerator=job.accelerator,
            started=account.started,
            ready=account.ready,
            ended=time.time(),
            folder=here,
        )
