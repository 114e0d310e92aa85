"""What the boots of one kernel in one cell say together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.bootview import Fault, Observation, State

_WORST_FIRST = (
    State.FAULTY,
    State.HARNESS,
    State.CUT,
    State.BLOCKED,
    State.UNSUPPORTED,
    State.IDENTICAL,
)
# Boots that could have shown a fault; of the others their host, or another fault, kept the kernel.
TOLD = frozenset({State.GOOD, State.FAULTY})


def together(boots: Sequence[Observation]) -> Observation | None:
    """One observation for all boots of a kernel in a cell; good only where each boot is."""
    if not boots:
        return None
    for state in _WORST_FIRST:
        these = [boot for boot in boots if boot.state is state]
        if these:
            return replace(
                these[0],
                reason=_of(len(these), len(boots)) + these[0].reason,
                faults=_merged(boots),
                short=_short(boots),
            )
    seconds = sum(boot.seconds for boot in boots) / len(boots)
    return replace(boots[0], seconds=seconds, short=_short(boots))


def _short(boots: Sequence[Observation]) -> str:
    told = [boot.short for boot in boots if boot.state in {State.GOOD, State.FAULTY}]
    return told[0] if told and all(told) else ""


def _of(count: int, all_: int) -> str:
    return f"{count} of {all_} boots: " if all_ > 1 else ""


def _merged(boots: Sequence[Observation]) -> tuple[Fault, ...]:
    """Each fault once, in the order of the boots, and in how many it was of those that tell."""
    told = [boot for boot in boots if boot.state in TOLD]
    seen: dict[tuple[str, str], list[Fault]] = {}
    for boot in told:
        for fault in {fault.key: fault for fault in boot.faults}.values():
            seen.setdefault(fault.key, []).append(fault)
    return tuple(
        replace(
            same[0],
            text=_of(len(same), len(boots)) + same[0].text,
            boots=len(same),
            of=len(told),
            shared=any(each.shared for each in same),
            known=same[0].known if all(each.known for each in same) else "",
        )
        for same in seen.values()
    )
