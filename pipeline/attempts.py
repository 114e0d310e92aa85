"""Which of several attempts at a boot counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.model import BootResult, Cell


def counted(boots: Iterable[BootResult]) -> tuple[BootResult, ...]:
    """The last attempt at each boot, which is the one that counts, in the order given."""
    last: dict[tuple[Cell, str, int], BootResult] = {}
    for each in boots:
        key = (each.boot.cell, each.boot.kernel, each.boot.block)
        if key not in last or each.boot.boot >= last[key].boot.boot:
            last[key] = each
    return tuple(last.values())
