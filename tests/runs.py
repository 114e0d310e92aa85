"""Plans, evidence and whole runs for the tests of verdict, report and record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pipeline import verdict
from pipeline.model import (
    Accelerator,
    Action,
    Better,
    BootId,
    BootResult,
    Build,
    Cell,
    Configuration,
    Event,
    EventResult,
    EventState,
    Evidence,
    Finding,
    Image,
    KernelPlan,
    Output,
    Patch,
    Phase,
    Plan,
    Reading,
    Revision,
    Role,
    Run,
    Sample,
    Scenario,
    Series,
    Stop,
    Table,
    Tree,
    TreeSpec,
    Value,
    WorkloadRun,
    WorkloadSpec,
)

ROOT = Path("/results/run1")
TCG = Accelerator(name="tcg", reason="a timed boot under kvm did not end in 2 s")

HACKBENCH = WorkloadSpec(
    name="hackbench",
    description="messages",
    command="hackbench",
    parameters=(),
    needs=("hackbench",),
    deadline=60.0,
    readings=(
        Reading(
            pattern=r"^Time: (?P<time>[0-9.]+)$",
            values=(Value(group="time", name="time", unit="s", better=Better.LOWER),),
        ),
    ),
)

BASE = KernelPlan(name="base", role=Role.BASE)
PREREQUISITE = KernelPlan(
    name="prerequisite",
    role=Role.PREREQUISITE,
    on="base",
    series=Series(
        name="prerequisite",
        origin="patches/slub",
        patches=(
            Patch(
                number=1,
                subject="mm/slub: let number of online CPUs determine the slub page order",
                author="Bharata B Rao",
                email="bharata@linux.ibm.com",
                files=("mm/slub.c",),
                mail=b"From: Bharata B Rao\n",
            ),
        ),
    ),
)
FIX = KernelPlan(
    name="fix",
    role=Role.PATCHED,
    on="prerequisite",
    series=Series(
        name="fix",
        origin="patches/slub",
        patches=(
            Patch(
                number=1,
                subject="mm/slub: let number of present CPUs determine the slub page order",
                author="Bharata B Rao",
                email="bharata@linux.ibm.com",
                files=("mm/slub.c",),
                message_id="20210121053003.GB2587010@in.ibm.com",
                mail=b"From: Bharata \xb5 Rao\n",
            ),
        ),
    ),
)
PATCHED = replace(FIX, name="patched", on=None)
KERNELS = (BASE, PREREQUISITE, FIX)
TABLES = (
    Table(
        title="Objects per slab and order of each cache that changes",
        layout="per-key",
        source="slab-orders",
        columns=("objects", "order"),
        phases=(Phase.AFTER_BOOT,),
        only_changed=True,
    ),
    Table(
        title="Slab memory (kB)",
        layout="per-phase",
        source="slab-memory",
        metrics=("Slab",),
        phases=(Phase.AFTER_BOOT, Phase.DURING, Phase.AFTER_DROP),
    ),
    Table(title="hackbench time (s)", layout="per-phase", source="hackbench", metrics=("time",)),
)


def scenario(
    kernels: Iterable[KernelPlan] = KERNELS,
    *,
    architectures: tuple[str, ...] = ("x86_64",),
    guests: tuple[str, ...] = ("smp2of8",),
    probes: tuple[str, ...] = ("slab-orders", "slab-memory"),
    labels: tuple[str, ...] = ("hackbench",),
    boots: int = 1,
    tables: tuple[Table, ...] = TABLES,
    configurations: tuple[str, ...] = (),
    events: tuple[str, ...] = (),
) -> Scenario:
    return Scenario(
        name="num_present_cpus",
        title="mm/slub: let number of present CPUs determine the slub page order",
        posted="https://lore.kernel.org/all/20210121053003.GB2587010@in.ibm.com/",
        tree=TreeSpec(name="debian:5.10", base="debian/5.10"),
        kernels=tuple(kernels),
        architectures=architectures,
        fragments=("base",),
        guests=guests,
        image="bench",
        workloads=tuple(WorkloadRun(spec=HACKBENCH, parameters={}, label=each) for each in labels),
        probes=probes,
        boots=boots,
        tables=tables,
        notes=("the prerequisite is not on trial",),
        configurations=tuple(Configuration(name=each, fragments=()) for each in configurations),
        events=tuple(
            Event(action=Action.VCPU_ADD, when="after 1 s", label=each, guests=("smp2of8",))
            for each in events
        ),
    )


def plan(made: Scenario | None = None, unsupported: Mapping[Cell, str] | None = None) -> Plan:
    made = made or scenario()
    causes = dict(unsupported or {})
    cells = tuple(
        Cell(architecture=architecture, guest=guest, workload=label, configuration=configuration)
        for architecture in made.architectures
        for configuration in [each.name for each in made.configurations] or [""]
        for guest in made.guests
        for label in [run.label for run in made.workloads] or ["boot"]
    )
    boots = tuple(
        BootId(cell=cell, kernel=kernel.name, block=block)
        for cell in cells
        if cell not in causes
        for block in range(made.boots)
        for kernel in made.kernels
    )
    targets = tuple(dict.fromkeys(cell.built_for for cell in cells))
    return Plan(scenario=made, cells=cells, boots=boots, unsupported=causes, targets=targets)


def revision(kernel: KernelPlan, files: tuple[str, ...] = ()) -> Revision:
    seed = kernel.name.encode().hex().ljust(40, "0")[:40]
    return Revision(
        kernel=kernel.name, role=kernel.role, commit=seed, tree_id=seed[::-1], files_changed=files
    )


def build(kernel: str, architecture: str = "x86_64") -> Build:
    folder = Path("/cache/builds") / f"{architecture}.{kernel}"
    return Build(
        kernel=kernel,
        architecture=architecture,
        key=f"key-{kernel}",
        folder=folder,
        image=folder / "bzImage",
        vmlinux=folder / "vmlinux",
        config=folder / "config",
        modules=None,
        log=ROOT / "builds" / f"{architecture}.{kernel}" / "build.log",
        release="5.10.262",
        compiler="gcc (Debian 12.2.0-14) 12.2.0",
        sandboxed=True,
        seconds=7.25,
        how="increment on base",
        digest=f"digest-{kernel}",
        warnings=(),
    )


def image(architecture: str = "x86_64") -> Image:
    return Image(
        name="bench",
        architecture=architecture,
        key="k",
        path=Path("/cache/images/k"),
        seconds=0.0,
        how="cached",
    )


def output(
    source: str,
    phase: Phase = Phase.WORKLOAD,
    status: int | None = 0,
    text: str = "Time: 0.297\n",
    *,
    problem: str = "",
    timed_out: bool = False,
) -> Output:
    return Output(
        source=source,
        phase=phase,
        exit_status=status,
        text=text,
        seconds=1.5,
        problem=problem,
        timed_out=timed_out,
    )


def sample(
    source: str,
    metric: str,
    value: float,
    *,
    phase: Phase = Phase.AFTER_BOOT,
    unit: str = "",
    better: Better = Better.NEITHER,
) -> Sample:
    return Sample(
        source=source, phase=phase, metric=metric, value=float(value), unit=unit, better=better
    )


def finding(
    kind: str = "panic", title: str = "Oops in calculate_order", *, fatal: bool = True
) -> Finding:
    return Finding(kind=kind, title=title, line=412, excerpt=f"BUG: {title}\n", fatal=fatal)


PANICS_AT_BOOT: Mapping[str, object] = {
    "stop": Stop.KERNEL,
    "reason": "the kernel panicked",
    "findings": (finding(),),
    "outputs": (),
    "samples": (),
    "ready": None,
    "differences": None,
}

ORDERS = {  # objects, order of kmalloc-1k and kmalloc-512, as seen on 5.10 with 2 of 8 CPUs
    "base": (32, 3, 32, 2),
    "prerequisite": (8, 1, 8, 0),
    "fix": (16, 2, 16, 1),
}


def samples(kernel: str, label: str, boot: int = 0) -> tuple[Sample, ...]:
    large, large_order, small, small_order = ORDERS.get(kernel, ORDERS["fix"])
    slab = 9000.0 + 100 * large_order
    memory = {
        Phase.AFTER_BOOT: slab,
        Phase.DURING: slab + 2048 + 512 * boot,
        Phase.AFTER: slab + 1024,
        Phase.AFTER_DROP: slab + 10,
    }
    return (
        sample("slab-orders", "kmalloc-1k.objects", large),
        sample("slab-orders", "kmalloc-1k.order", large_order),
        sample("slab-orders", "kmalloc-512.objects", small),
        sample("slab-orders", "kmalloc-512.order", small_order),
        sample("slab-orders", "dentry.objects", 21),
        sample("slab-orders", "dentry.order", 0),
        *(
            sample("slab-memory", "Slab", value, phase=phase, unit="kB", better=Better.LOWER)
            for phase, value in memory.items()
        ),
        sample(
            label,
            "time",
            0.3 + boot / 50,
            phase=Phase.WORKLOAD,
            unit="s",
            better=Better.LOWER,
        ),
    )


def good_boot(
    boot: BootId,
    probes: Iterable[str] = ("slab-orders", "slab-memory"),
    events: Iterable[Event] = (),
) -> BootResult:
    label = boot.cell.workload
    return BootResult(
        boot=boot,
        stop=Stop.COMPLETED,
        reason="",
        findings=(),
        outputs=(
            output("shape", Phase.AFTER_BOOT, text="…"),
            *(output(probe, Phase.AFTER_BOOT, text="…") for probe in probes),
            output(label),
        ),
        samples=samples(boot.kernel, label, boot.block),
        problems=(),
        accelerator=TCG,
        started=1000.0,
        ready=1003.5,
        ended=1010.0,
        differences=(),
        events=tuple(
            EventResult(label=each.label, state=EventState.GOOD, host="added", seconds=0.5, at=1.0)
            for each in events
        ),
        folder=ROOT / "cells" / boot.cell.name / f"{boot.kernel}.block{boot.block}.boot{boot.boot}",
    )


def good_evidence(made: Plan) -> Evidence:
    kernels = made.scenario.kernels
    architectures = made.scenario.architectures
    targets = {cell.target: cell.architecture for cell in made.cells} or {
        each: each for each in architectures
    }
    return Evidence(
        tree=Tree(
            name=made.scenario.tree.name,
            origin="debian-5.10",
            repository=Path("/cache/trees/debian-5.10.git"),
            base="b" * 40,
            version="5.10.262",
        ),
        revisions={kernel.name: revision(kernel) for kernel in kernels},
        builds={(t, k.name): build(k.name, a) for t, a in targets.items() for k in kernels},
        images={a: image(a) for a in architectures},
        accelerators=dict.fromkeys(architectures, TCG),
        boots=tuple(
            good_boot(boot, made.scenario.probes, made.scenario.events_in(boot.cell.guest))
            for boot in made.boots
        ),
    )


def change_boot(
    evidence: Evidence, kernel: str, change: Mapping[str, object], *, block: int | None = None
) -> Evidence:
    """The evidence with fields of the boots of one kernel changed."""
    return replace(
        evidence,
        boots=tuple(
            replace(result, **change)  # type: ignore[arg-type]
            if result.boot.kernel == kernel and block in {None, result.boot.block}
            else result
            for result in evidence.boots
        ),
    )


def run(made: Plan, evidence: Evidence) -> Run:

    return Run(
        id="20240102-030405-beef",
        plan=made,
        evidence=evidence,
        cases=verdict.judge(made, evidence, root=ROOT),
        folder=ROOT,
        command="ktrial run patches/num_present_cpus",
        started=1704164645.0,
        ended=1704164705.5,
        host={"ktrial": "0.1.0", "cpus": "2", "qemu": "7.2.22"},
        notes=("the prerequisite is not on trial",),
    )
