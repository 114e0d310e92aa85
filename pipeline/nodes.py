"""The nodes of a plan: what is to be done, in which order, and what each asks of the host. Pure.

The same nodes are run by `trial` and weighed by `ktrial plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from pipeline import plan as plans
from pipeline.budget import Budget, Node, guests_at_most
from pipeline.model import BootId, Cell, KernelPlan, Plan, Role, Target


class Kind(Enum):
    """The kinds of work, by the first word of a node's id."""

    TREE = "tree"
    APPLY = "apply"
    BUILD = "build"
    COMPARE = "compare"  # a kernel with the one below it
    EXAMINE = "examine"  # what a series changed, and which of its lines were compiled
    COVER = "cover"  # the lines that none of the configurations compiles, in one more
    CHECK = "check"
    VERIFY = "verify"
    PROGRAMS = "programs"  # of the tree, for a workload
    IMAGE = "image"
    ACCELERATOR = "accelerator"
    BOOT = "boot"
    LOOK = "look"  # at a trial, between two blocks: whether it goes on


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a node does. What it is not about is empty."""

    kind: Kind
    kernel: str = ""
    target: Target | None = None
    architecture: str = ""
    boot: BootId | None = None
    name: str = ""  # of a check, or the label of a workload
    below: str = ""  # the kernel that this one is held against
    cell: Cell | None = None  # of a look
    block: int = 0  # of a look: the one that would come next


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a node asks of the host: see `budget.Node`."""

    seconds: float = 0.0
    cores: float = 0.0
    memory: int = 0
    exclusive: bool = False


Weigh = Callable[[Job], Demand]
Builds = tuple[tuple[Target, KernelPlan], ...]


def nodes(plan: Plan, weigh: Weigh) -> list[Node]:
    """In plan order: tree, images and accelerators, series, builds, boots."""
    return list(_nodes(plan, weigh))


def limited(budget: Budget, todo: list[Node]) -> Budget:
    """The budget with what each pool may run at once; one build at a time has all cores."""
    guests = guests_at_most([node for node in todo if node.pool == "guest"], budget)
    return replace(budget, at_most={"light": 4, "build": 1, "image": 1, "guest": guests})


def build_id(target: str, kernel: str) -> str:
    """The id of a build's node; that of a boot is its name."""
    return node_id(Kind.BUILD, target, kernel)


def programs_id(target: str, kernel: str, label: str) -> str:
    return node_id(Kind.PROGRAMS, target, kernel, label)


def node_id(kind: Kind, *names: str) -> str:
    """The id of a node of this kind; empty names are left out."""
    return ".".join(filter(None, (kind.value, *names)))


def _nodes(plan: Plan, weigh: Weigh) -> Iterator[Node]:
    yield _node("tree", "light", Job(kind=Kind.TREE), weigh)
    for architecture in dict.fromkeys(boot.cell.architecture for boot in plan.boots):
        for kind, pool in ((Kind.IMAGE, "image"), (Kind.ACCELERATOR, "light")):
            job = Job(kind=kind, architecture=architecture)
            yield _node(f"{kind.value}.{architecture}", pool, job, weigh)
    for kernel in (each for each in plan.scenario.kernels if not each.of):
        need = f"{Kind.APPLY.value}.{kernel.on}" if kernel.on else "tree"
        job = Job(kind=Kind.APPLY, kernel=kernel.name)
        yield _node(f"{Kind.APPLY.value}.{kernel.name}", "light", job, weigh, needs=(need,))
        for check in plan.patch_checks if kernel.series else ():
            name = node_id(Kind.CHECK, kernel.name, check)
            applied = (node_id(Kind.APPLY, kernel.name),)
            its = replace(job, kind=Kind.CHECK, name=check)
            yield _node(name, "light", its, weigh, needs=applied)
    builds = plans.to_build(plan)
    for target, kernel in builds:
        yield _build(plan, builds, target, kernel, weigh)
    for target, kernel in builds:
        yield from _of_build(plan, builds, target, kernel, weigh)
    if plan.cover:
        yield from _covers(plan, builds, weigh)
    before: dict[Cell, BootId] = {}
    for boot in plan.boots:
        last = before.get(boot.cell)
        if last and boot.block > last.block and _looks(plan):
            yield _look(boot, last, weigh)
        yield _boot(plan, boot, last, weigh)
        before[boot.cell] = boot


def _build(plan: Plan, builds: Builds, target: Target, kernel: KernelPlan, weigh: Weigh) -> Node:
    """Base is built first, since the others start from its folder; they are built even where it
    breaks, since that tells whether the fault is base's own. A commit in the middle of a series
    comes behind the one before it, for the same reason."""
    its = [each.name for where, each in builds if where == target]
    behind = dict.fromkeys((its[0], kernel.on or its[0]))
    return _node(
        build_id(target.name, kernel.name),
        "build",
        _job(Kind.BUILD, target, kernel),
        weigh,
        needs=(node_id(Kind.APPLY, kernel.name),),
        any_of=_on_trial(plan, kernel, Kind.APPLY.value),
        after=tuple(
            build_id(target.name, name) for name in behind if name in its and name != kernel.name
        ),
    )


def _of_build(
    plan: Plan, builds: Builds, target: Target, kernel: KernelPlan, weigh: Weigh
) -> Iterator[Node]:
    """What is done with a kernel that is built, besides booting it."""
    built = build_id(target.name, kernel.name)
    there = [each.name for where, each in builds if where == target]
    below = plans.below(plan.scenario, kernel)

    def node(kind: Kind, name: str = "", *, below: str = "", pool: str = "build") -> Node:
        job = replace(_job(kind, target, kernel), name=name, below=below)
        needs = (built, *((build_id(target.name, below),) if below else ()))
        return _node(node_id(kind, target.name, kernel.name, name), pool, job, weigh, needs=needs)

    if below is not None and below.name in there:
        if _is_compared(plan, kernel) and kernel.boots:
            compare = node(Kind.COMPARE, below=below.name, pool="light")
            # A kernel boots where the one below it does not build, too.
            yield replace(compare, needs=compare.needs[:1], after=compare.needs[1:])
        if kernel.boots:
            yield node(Kind.EXAMINE, below=below.name)
        on = plans.directly_below(plan.scenario, kernel) or below
        for check in plan.scenario.checks:
            if check not in plan.patch_checks:
                yield node(Kind.CHECK, check, below=on.name if on.name in there else below.name)
    if plan.verify:
        yield node(Kind.VERIFY)
    for label in _with_programs(plan, target, kernel):
        yield node(Kind.PROGRAMS, label)


def _covers(plan: Plan, builds: Builds, weigh: Weigh) -> Iterator[Node]:
    """For each architecture and kernel on trial, behind all that was examined of that: whether one
    more configuration is needed is known then. A second architecture gets what is left."""
    waits: dict[str, list[str]] = {}
    places: dict[tuple[str, str], tuple[Target, KernelPlan, str]] = {}
    for target, kernel in builds:
        below, there = plans.below(plan.scenario, kernel), {each.name for _, each in builds}
        if kernel.boots and below is not None and below.name in there:
            examined = node_id(Kind.EXAMINE, target.name, kernel.name)
            waits.setdefault(kernel.name, []).append(examined)
            places.setdefault((target.architecture, kernel.name), (target, kernel, below.name))
    for (architecture, name), (target, kernel, under) in places.items():
        job = replace(_job(Kind.COVER, target, kernel), below=under)
        node = node_id(Kind.COVER, architecture, name)
        yield _node(
            node, "build", job, weigh, needs=tuple(waits[name][:1]), after=tuple(waits[name][1:])
        )
        waits[name].append(node)


def _with_programs(plan: Plan, target: Target, kernel: KernelPlan) -> tuple[str, ...]:
    """The workloads for which programs of this kernel's tree are built for this target."""
    labels: dict[str, None] = {}
    for boot in plan.boots:
        run = plan.scenario.workload(boot.cell.workload)
        booted = plans.kernel_of(plan.scenario, boot.kernel)
        place = plans.target_of(boot.cell.built_for, booted)
        if run and run.spec.programs and (place, booted.source) == (target, kernel.name):
            labels[run.label] = None
    return tuple(labels)


def _boot(plan: Plan, boot: BootId, before: BootId | None, weigh: Weigh) -> Node:
    """The boots of a cell keep their order: blocks are interleaved against a drift of the host.

    A kernel that is, bit for bit, the one below it is not booted (`compare`), nor is base where
    there is no other.
    """
    name, kernel = boot.cell.architecture, plans.kernel_of(plan.scenario, boot.kernel)
    target = plans.target_of(boot.cell.built_for, kernel)
    run = plan.scenario.workload(boot.cell.workload)
    return _node(
        boot.name,
        "guest",
        replace(_job(Kind.BOOT, target, kernel), boot=boot),
        weigh,
        needs=(
            build_id(target.name, kernel.source),
            *(
                (node_id(Kind.COMPARE, target.name, kernel.name),)
                if _is_compared(plan, kernel)
                else ()
            ),
            *(
                (programs_id(target.name, kernel.source, run.label),)
                if run and run.spec.programs
                else ()
            ),
            f"{Kind.IMAGE.value}.{name}",
            f"{Kind.ACCELERATOR.value}.{name}",
            *((look_id(boot.cell, boot.block),) if boot.block and _looks(plan) else ()),
        ),
        any_of=_tried(plan, kernel, boot.cell.built_for),
        # A kernel that is to be compared waits for those that it is compared with.
        after=(
            *dict.fromkeys(
                build_id(plans.target_of(boot.cell.built_for, each).name, each.source)
                for each in plan.scenario.kernels
            ),
            *((before.name,) if before else ()),
        ),
    )


def _looks(plan: Plan) -> bool:
    return plan.sequential or plan.most_seconds > 0


def look_id(cell: Cell, block: int) -> str:
    return node_id(Kind.LOOK, cell.name, f"block{block}")


def _look(boot: BootId, last: BootId, weigh: Weigh) -> Node:
    """Between two blocks; the boots of a cell come one after the other, so that all are over."""
    job = Job(kind=Kind.LOOK, cell=boot.cell, block=boot.block)
    return _node(look_id(boot.cell, boot.block), "light", job, weigh, after=(last.name,))


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


def _tried(plan: Plan, kernel: KernelPlan, place: Target) -> tuple[str, ...]:
    """As `_on_trial`, for boots: one of those on trial must differ from the kernel below it."""
    if kernel.role is Role.PATCHED:
        return ()
    patched = [each for each in plan.scenario.kernels if each.role is Role.PATCHED and each.boots]
    return tuple(
        dict.fromkeys(
            node_id(
                Kind.COMPARE if _is_compared(plan, each) else Kind.BUILD,
                plans.target_of(place, each).name,
                each.source,
            )
            for each in patched
        )
    )


def _is_compared(plan: Plan, kernel: KernelPlan) -> bool:
    """Whether a kernel that is the one below it need not boot: not where conditions differ."""
    below = plans.below(plan.scenario, kernel)
    return below is not None and kernel.of is None and _conditions(kernel) == _conditions(below)


def _conditions(kernel: KernelPlan) -> tuple[object, ...]:
    return kernel.configuration, kernel.cmdline, kernel.settings, kernel.guest, kernel.events


def _on_trial(plan: Plan, kernel: KernelPlan, stage: str) -> tuple[str, ...]:
    """For a kernel that only stands beside those on trial: the nodes of which one must do.

    Where no patched kernel applies, or builds, base has nothing to be compared with.
    """
    if kernel.role is Role.PATCHED:
        return ()
    patched = [each for each in plan.scenario.kernels if each.role is Role.PATCHED and each.boots]
    return tuple(dict.fromkeys(f"{stage}.{each.source}" for each in patched))
