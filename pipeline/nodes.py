"""The nodes of a plan: what is to be done, in which order, and what each asks of the host. Pure.

The same nodes are run by `trial` and weighed by `ktrial plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from pipeline import plan as plans
from pipeline.budget import Budget, Node, guests_at_most
from pipeline.model import BootId, KernelPlan, Plan, Role, Target


class Kind(Enum):
    """The kinds of work, by the first word of a node's id."""

    TREE = "tree"
    APPLY = "apply"
    BUILD = "build"
    COMPARE = "compare"  # a kernel with the one below it
    EXAMINE = "examine"  # what a series changed, and which of its lines were compiled
    CHECK = "check"
    VERIFY = "verify"
    PROGRAMS = "programs"  # of the tree, for a workload
    IMAGE = "image"
    ACCELERATOR = "accelerator"
    BOOT = "boot"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a node does. What it is not about is empty."""

    kind: Kind
    kernel: str = ""
    target: Target | None = None
    architecture: str = ""
    boot: BootId | None = None
    name: str = ""  # of a check, or the label of a workload


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a node asks of the host: see `budget.Node`."""

    seconds: float = 0.0
    cores: float = 0.0
    memory: int = 0
    exclusive: bool = False


Weigh = Callable[[Job], Demand]


def nodes(plan: Plan, weigh: Weigh) -> list[Node]:
    """In plan order: tree, images and accelerators, series, builds, boots."""
    return list(_nodes(plan, weigh))


def limited(budget: Budget, todo: list[Node]) -> Budget:
    """The budget with what each pool may run at once; one build at a time has all cores."""
    guests = guests_at_most([node for node in todo if node.pool == "guest"], budget)
    return replace(budget, at_most={"light": 4, "build": 1, "image": 1, "guest": guests})


def build_id(target: str, kernel: str) -> str:
    """The id of a build's node; that of a boot is its name."""
    return _id(Kind.BUILD, target, kernel)


def programs_id(target: str, kernel: str, label: str) -> str:
    return _id(Kind.PROGRAMS, target, kernel, label)


def _id(kind: Kind, *names: str) -> str:
    return ".".join(filter(None, (kind.value, *names)))


def _nodes(plan: Plan, weigh: Weigh) -> Iterator[Node]:
    yield _node("tree", "light", Job(kind=Kind.TREE), weigh)
    for architecture in dict.fromkeys(boot.cell.architecture for boot in plan.boots):
        for kind, pool in ((Kind.IMAGE, "image"), (Kind.ACCELERATOR, "light")):
            job = Job(kind=kind, architecture=architecture)
            yield _node(f"{kind.value}.{architecture}", pool, job, weigh)
    for kernel in plan.scenario.kernels:
        need = f"{Kind.APPLY.value}.{kernel.on}" if kernel.on else "tree"
        job = Job(kind=Kind.APPLY, kernel=kernel.name)
        yield _node(f"{Kind.APPLY.value}.{kernel.name}", "light", job, weigh, needs=(need,))
        for check in plan.patch_checks if kernel.series else ():
            name = _id(Kind.CHECK, kernel.name, check)
            yield _node(
                name, "light", replace(job, kind=Kind.CHECK, name=check), weigh, needs=(need,)
            )
    for target in plans.to_build(plan):
        for kernel in plan.scenario.kernels:
            yield _build(plan, target, kernel, weigh)
        for kernel in plan.scenario.kernels:
            yield from _of_build(plan, target, kernel, weigh)
    before: dict[object, BootId] = {}
    for boot in plan.boots:
        yield _boot(plan, boot, before.get(boot.cell), weigh)
        before[boot.cell] = boot


def _build(plan: Plan, target: Target, kernel: KernelPlan, weigh: Weigh) -> Node:
    """Base is built first, since the others start from its folder; they are built even where it
    breaks, since that tells whether the fault is base's own. A commit in the middle of a series
    comes behind the one before it, for the same reason."""
    first = plan.scenario.kernels[0]
    behind = dict.fromkeys((first.name, kernel.on or first.name))
    return _node(
        build_id(target.name, kernel.name),
        "build",
        _job(Kind.BUILD, target, kernel),
        weigh,
        needs=(_id(Kind.APPLY, kernel.name),),
        any_of=_on_trial(plan, kernel, Kind.APPLY.value),
        after=() if kernel == first else tuple(build_id(target.name, name) for name in behind),
    )


def _of_build(plan: Plan, target: Target, kernel: KernelPlan, weigh: Weigh) -> Iterator[Node]:
    """What is done with a kernel that is built, besides booting it."""
    built = build_id(target.name, kernel.name)
    below = plans.below(plan.scenario, kernel)

    def node(kind: Kind, *, needs: tuple[str, ...], name: str = "", pool: str = "build") -> Node:
        job = replace(_job(kind, target, kernel), name=name)
        return _node(_id(kind, target.name, kernel.name, name), pool, job, weigh, needs=needs)

    if below is not None:
        both = (built, build_id(target.name, below.name))
        if kernel.boots:
            yield replace(node(Kind.COMPARE, needs=(built,), pool="light"), after=both[1:])
            yield node(Kind.EXAMINE, needs=both)
        on = plans.directly_below(plan.scenario, kernel) or below
        for check in plan.scenario.checks:
            if check not in plan.patch_checks:
                pair = (built, build_id(target.name, on.name))
                yield node(Kind.CHECK, needs=pair, name=check)
    if plan.verify:
        yield node(Kind.VERIFY, needs=(built,))
    booted = {boot.cell.workload for boot in plan.boots if boot.cell.built_for == target}
    for run in plan.scenario.workloads:
        if run.spec.programs and run.label in booted and kernel.boots:
            yield node(Kind.PROGRAMS, needs=(built,), name=run.label)


def _boot(plan: Plan, boot: BootId, before: BootId | None, weigh: Weigh) -> Node:
    """The boots of a cell keep their order: blocks are interleaved against a drift of the host.

    A kernel that is, bit for bit, the one below it is not booted (`compare`), nor is base where
    there is no other.
    """
    name, target = boot.cell.architecture, boot.cell.built_for
    kernel = next(each for each in plan.scenario.kernels if each.name == boot.kernel)
    compared = plans.below(plan.scenario, kernel) is not None
    run = plan.scenario.workload(boot.cell.workload)
    return _node(
        boot.name,
        "guest",
        replace(_job(Kind.BOOT, target, kernel), boot=boot),
        weigh,
        needs=(
            build_id(target.name, boot.kernel),
            *((_id(Kind.COMPARE, target.name, kernel.name),) if compared else ()),
            *(
                (programs_id(target.name, kernel.name, run.label),)
                if run and run.spec.programs
                else ()
            ),
            f"{Kind.IMAGE.value}.{name}",
            f"{Kind.ACCELERATOR.value}.{name}",
        ),
        any_of=_tried(plan, kernel, target),
        # A kernel that is to be compared waits for those that it is compared with.
        after=(
            *(build_id(target.name, each.name) for each in plan.scenario.kernels),
            *((before.name,) if before else ()),
        ),
    )


def _job(kind: Kind, target: Target, kernel: KernelPlan) -> Job:
    return Job(kind=kind, kernel=kernel.name, target=target, architecture=target.architecture)


def _node(
    name: str,
    pool: str,
    job: Job,
    weigh: Weigh,
    *,
    needs: tuple[str, ...] = (),
    any_of: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
) -> Node:
    asks = weigh(job)
    return Node(
        id=name,
        pool=pool,
        job=job,
        needs=needs,
        any_of=any_of,
        after=after,
        cores=asks.cores,
        memory=asks.memory,
        exclusive=asks.exclusive,
        seconds=asks.seconds,
    )


def _tried(plan: Plan, kernel: KernelPlan, target: Target) -> tuple[str, ...]:
    """As `_on_trial`, for boots: one of those on trial must differ from the kernel below it."""
    if kernel.role is Role.PATCHED:
        return ()
    patched = [each for each in plan.scenario.kernels if each.role is Role.PATCHED and each.boots]
    kinds = (Kind.COMPARE if plans.below(plan.scenario, k) else Kind.BUILD for k in patched)
    return tuple(_id(kind, target.name, k.name) for kind, k in zip(kinds, patched, strict=True))


def _on_trial(plan: Plan, kernel: KernelPlan, stage: str) -> tuple[str, ...]:
    """For a kernel that only stands beside those on trial: the nodes of which one must do.

    Where no patched kernel applies, or builds, base has nothing to be compared with.
    """
    if kernel.role is Role.PATCHED:
        return ()
    patched = [each for each in plan.scenario.kernels if each.role is Role.PATCHED and each.boots]
    return tuple(f"{stage}.{each.name}" for each in patched)
