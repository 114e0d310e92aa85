"""From what the nodes of a plan came to, to the evidence that is judged. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
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
    Covered,
    Evidence,
    Examination,
    Image,
    Plan,
    Revision,
    Tree,
    Verified,
)
from pipeline.nodes import Kind, node_id
from pipeline.scheduler import Done


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a look at a trial came to: `enough` says why it ends, "" where it goes on."""

    enough: str = ""


Value = TypeVar("Value")
Key = TypeVar("Key", str, tuple[str, str], tuple[str, str, str])


def gather(plan_: Plan, done: tuple[Done, ...]) -> Evidence:
    """All that came back from the nodes of this plan, by what it is."""
    faults = {each.id: each.fault for each in done if each.fault}
    values = {each.id: each.value for each in done}
    architectures = dict.fromkeys(cell.architecture for cell in plan_.cells)
    kernels = [kernel.name for kernel in plan_.scenario.kernels]
    pairs = [(target.name, kernel) for target in plan.targets(plan_) for kernel in kernels]
    checks = [
        (*pair, check)
        for pair in (*(("", kernel) for kernel in kernels), *pairs)
        for check in plan_.scenario.checks
    ]
    covers = [
        (architecture, kernel)
        for architecture in dict.fromkeys(target.architecture for target in plan.targets(plan_))
        for kernel in kernels
    ]
    applied = _those(values, Kind.APPLY, kernels, object)
    built = _those(values, Kind.BUILD, pairs, object)
    looks = {each.id: values.get(each.blocked_by) for each in done if each.blocked_by}
    opened = values.get(Kind.TREE.value)
    return Evidence(
        tree=opened if isinstance(opened, Tree) else None,
        revisions={
            k: _plain(v) if isinstance(v, Revision) else v
            for k, v in applied.items()
            if isinstance(v, Revision | ApplyFailure)
        },
        builds={
            k: v for k, v in built.items() if isinstance(v, Build | BuildFailure | ConfigFailure)
        },
        images=_those(values, Kind.IMAGE, architectures, Image),
        accelerators=_those(values, Kind.ACCELERATOR, architectures, Accelerator),
        comparisons=_those(values, Kind.COMPARE, pairs, Comparison),
        examinations=_those(values, Kind.EXAMINE, pairs, Examination),
        verified=_those(values, Kind.VERIFY, pairs, Verified),
        covered=_those(values, Kind.COVER, covers, Covered),
        checked=_those(values, Kind.CHECK, checks, Checked),
        boots=tuple(result for each in done for result in attempts(each.value)),
        faults=faults,
        spared={
            each.id: _why_spared(each, faults)
            for each in done
            if each.blocked_by and not isinstance(looks[each.id], Look)
        },
        enough={name: look.enough for name, look in looks.items() if isinstance(look, Look)},
        cut=any(each.cut for each in done),
    )


def _those(
    values: Mapping[str, object], kind: Kind, keys: Iterable[Key], type_: type[Value]
) -> dict[Key, Value]:
    """What nodes of a kind came to, by what is behind the kind in their ids."""
    found = ((key, values.get(node_id(kind, *_words(key)))) for key in keys)
    return {key: value for key, value in found if isinstance(value, type_) and value is not None}


def _words(key: str | tuple[str, ...]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


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


def _plain(found: Revision) -> Revision:
    """What of a series that was applied is kept: a record has no kinds of its own for the rest."""
    return Revision(**{each.name: getattr(found, each.name) for each in fields(Revision)})


def _why_spared(done: Done, faults: Mapping[str, str]) -> str:
    """… with the host's fault that stopped it, which may be of no case that is told."""
    why = done.reason or "nothing on trial is left to compare with"
    fault = faults.get(done.blocked_by, "")
    return f"{why}: see {done.blocked_by}{f', {fault}' if fault else ''}"
