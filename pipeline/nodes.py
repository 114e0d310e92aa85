"""The nodes of a plan: what is to be done, in which order, and what each asks of the host. Pure.

The same nodes are run by `trial` and weighed by `ktrial plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from pipeline.budget import Budget, Node, guests_at_most
from pipeline.model import BootId, Cell, KernelPlan, Plan, Role


class Kind(Enum):
    """The kinds of work, by the first word of a node's id."""

    TREE = "tree"
    APPLY = "apply"
    BUILD = "build"
    IMAGE = "image"
    ACCELERATOR = "accelerator"
    BOOT = "boot"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a node does. What it is not about is empty."""

    kind: Kind
    kernel: str = ""
    cell: Cell | None = None  # any cell of the target, for a build
    architecture: str = ""
    boot: BootId | None = None


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
    return f"{Kind.BUILD.value}.{target}.{kernel}"


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
    for cell in _one_of_each_target(plan).values():
        for kernel in plan.scenario.kernels:
            yield _build(plan, cell, kernel, weigh)
    before: dict[Cell, BootId] = {}
    for boot in plan.boots:
        yield _boot(plan, boot, before.get(boot.cell), weigh)
        before[boot.cell] = boot


def _build(plan: Plan, cell: Cell, kernel: KernelPlan, weigh: Weigh) -> Node:
    """Base is built first, since the others start from its folder; they are built even where it
    breaks, since that tells whether the fault is base's own."""
    first = plan.scenario.kernels[0]
    return _node(
        build_id(cell.target, kernel.name),
        "build",
        Job(kind=Kind.BUILD, kernel=kernel.name, cell=cell, architecture=cell.architecture),
        weigh,
        needs=(f"{Kind.APPLY.value}.{kernel.name}",),
        any_of=_on_trial(plan, kernel, Kind.APPLY.value),
        after=() if kernel == first else (build_id(cell.target, first.name),),
    )


def _boot(plan: Plan, boot: BootId, before: BootId | None, weigh: Weigh) -> Node:
    """The boots of a cell keep their order: blocks are interleaved against a drift of the host."""
    name, target = boot.cell.architecture, boot.cell.target
    kernel = next(each for each in plan.scenario.kernels if each.name == boot.kernel)
    return _node(
        boot.name,
        "guest",
        Job(kind=Kind.BOOT, kernel=kernel.name, cell=boot.cell, architecture=name, boot=boot),
        weigh,
        needs=(
            build_id(target, boot.kernel),
            f"{Kind.IMAGE.value}.{name}",
            f"{Kind.ACCELERATOR.value}.{name}",
        ),
        any_of=_on_trial(plan, kernel, f"{Kind.BUILD.value}.{target}"),
        # A kernel that is to be compared waits for those that it is compared with.
        after=(
            *(build_id(target, each.name) for each in plan.scenario.kernels),
            *((before.name,) if before else ()),
        ),
    )


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


def _one_of_each_target(plan: Plan) -> Mapping[str, Cell]:
    """Targets with a cell that can run, in plan order."""
    booted = dict.fromkeys(boot.cell for boot in plan.boots)
    found: dict[str, Cell] = {}
    for cell in booted:
        found.setdefault(cell.target, cell)
    return found


def _on_trial(plan: Plan, kernel: KernelPlan, stage: str) -> tuple[str, ...]:
    """For a kernel that only stands beside those on trial: the nodes of which one must do.

    Where no patched kernel applies, or builds, base has nothing to be compared with.
    """
    if kernel.role is Role.PATCHED:
        return ()
    patched = [each for each in plan.scenario.kernels if each.role is Role.PATCHED]
    return tuple(f"{stage}.{each.name}" for each in patched)
