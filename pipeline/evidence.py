"""From what the nodes of a plan came to, to the evidence that is judged. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pipeline import outcomes, plan, verdict
from pipeline.model import (
    Accelerator,
    ApplyFailure,
    BootResult,
    Build,
    BuildFailure,
    Checked,
    Comparison,
    ConfigFailure,
    Evidence,
    Examination,
    Image,
    Plan,
    Revision,
    Tree,
    Verified,
)
from pipeline.observation import IDENTICAL
from pipeline.scheduler import Done


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a look at a trial came to: `enough` says why it ends, "" where it goes on."""

    enough: str = ""


def gather(plan_: Plan, done: tuple[Done, ...]) -> Evidence:
    """All that came back from the nodes of this plan, by what it is."""
    faults = {each.id: each.fault for each in done if each.fault}
    values = {each.id: each.value for each in done}
    architectures = list(dict.fromkeys(cell.architecture for cell in plan_.cells))
    targets = [target.name for target in plan.targets(plan_)]

    def those(prefix: str, names: list[str]) -> dict[str, object]:
        return {n: v for n in names if (v := values.get(f"{prefix}.{n}")) is not None}

    kernels = [kernel.name for kernel in plan_.scenario.kernels]
    pairs = [(target, kernel) for target in targets for kernel in kernels]
    opened = values.get("tree")
    return Evidence(
        tree=opened if isinstance(opened, Tree) else None,
        revisions={
            name: value
            for name, value in those("apply", kernels).items()
            if isinstance(value, Revision | ApplyFailure)
        },
        builds={
            (target, kernel): value
            for target in targets
            for kernel, value in those(f"build.{target}", kernels).items()
            if isinstance(value, Build | BuildFailure | ConfigFailure)
        },
        images={
            name: value
            for name, value in those("image", architectures).items()
            if isinstance(value, Image)
        },
        accelerators={
            name: value
            for name, value in those("accelerator", architectures).items()
            if isinstance(value, Accelerator)
        },
        comparisons=_of(Comparison, "compare", pairs, values),
        examinations=_of(Examination, "examine", pairs, values),
        verified=_of(Verified, "verify", pairs, values),
        checked={
            (target, kernel, check): value
            for target, kernel in (*(("", name) for name in kernels), *pairs)
            for check in plan_.scenario.checks
            if isinstance(value := values.get(_name("check", target, kernel, check)), Checked)
        },
        boots=tuple(result for each in done for result in attempts(each.value)),
        faults=faults,
        spared={
            each.id: _why_spared(each, faults)
            for each in done
            if each.blocked_by and not isinstance(values.get(each.blocked_by), Look)
        },
        enough={
            each.id: look.enough
            for each in done
            if isinstance(look := values.get(each.blocked_by), Look)
        },
        cut=any(each.cut for each in done),
    )


Value = TypeVar("Value")


def _of(
    kind: type[Value],
    prefix: str,
    pairs: Iterable[tuple[str, str]],
    values: Mapping[str, object],
) -> dict[tuple[str, str], Value]:
    found = {pair: values.get(_name(prefix, *pair)) for pair in pairs}
    return {pair: value for pair, value in found.items() if isinstance(value, kind)}


def _name(*parts: str) -> str:
    return ".".join(filter(None, parts))


def so_far(plan_: Plan, todo: Iterable[str], done: Sequence[Done]) -> Evidence:
    """As `gather`, of a run that is not through: what is not over counts as cut."""
    over = {each.id for each in done}
    waiting = tuple(Done(id=name, cut=True) for name in todo if name not in over)
    return gather(plan_, (*done, *waiting))


def failed(plan_: Plan, todo: Iterable[str], done: Sequence[Done]) -> bool:
    """Whether what came back so far, of the nodes `todo`, holds a failure already: a fault of the
    host, or a case that is charged to the series, as far as can be told by now.

    What base does wrong too is none: it may be that all else is good.
    """
    if any(each.fault for each in done):
        return True
    over = {each.id for each in done}
    waiting = tuple(Done(id=name, blocked_by=name) for name in todo if name not in over)
    begun = {(boot.cell, boot.kernel) for boot in plan_.boots if boot.name in over}
    # A kernel of which one boot is over is judged by that: the others may tell the same.
    boots = (b for b in plan_.boots if b.name in over or (b.cell, b.kernel) not in begun)
    so_far = replace(plan_, boots=tuple(boots))
    cases = verdict.judge(so_far, gather(so_far, (*done, *waiting)))
    return any(outcomes.case_exit(case) != outcomes.GOOD for case in cases)


def attempts(value: object) -> tuple[BootResult, ...]:
    """The boots among what a node came to."""
    found = value if isinstance(value, tuple) else ()
    return tuple(each for each in found if isinstance(each, BootResult))


def _why_spared(done: Done, faults: Mapping[str, str]) -> str:
    """… with the host's fault that stopped it, which may be of no case that is told."""
    if done.blocked_by.startswith("compare."):
        return IDENTICAL.format("base")
    why = done.reason or "nothing on trial is left to compare with"
    fault = faults.get(done.blocked_by, "")
    return f"{why}: see {done.blocked_by}{f', {fault}' if fault else ''}"
