"""Where in a text the message ends and which of its diffs are the patch.

A message may quote a diff, unindented: git am ends the message there and applies it. The patch
that is meant stands under the "---" line, and is what the diffstat counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline import difftext
from pipeline.diffstat import SUMMARY
from pipeline.difftext import FileDiff

UNCERTAIN = "it cannot be told which of the diffs in the mail is the patch"


@dataclass(frozen=True, kw_only=True)
class Cut:
    """`end`: the line after the message. `first`: where the patch starts; both the number of
    lines where there is no patch. `separated`: a "---" line ends the message."""

    diffs: tuple[FileDiff, ...] = ()
    end: int
    first: int
    separated: bool = False
    quoted: int = 0
    damage: tuple[str, ...] = ()


def cut(lines: Sequence[str]) -> Cut:
    """Tell message and patch apart."""
    diffs = difftext.scan(lines)
    separators = [at for at in _outside(lines, diffs) if lines[at].rstrip() == "---"]
    if not diffs:
        return Cut(
            end=(separators or [len(lines)])[0], first=len(lines), separated=bool(separators)
        )
    last = max(diff.start for diff in diffs)
    separators = [at for at in separators if at < last]
    real, damage = _real(lines, diffs, separators)
    first = real[0].start
    before = [at for at in separators if at < first]
    end = _end(lines, before) if before else _without_heads(lines, first)
    return Cut(
        diffs=tuple(real),
        end=end,
        first=first,
        separated=bool(before),
        quoted=len(diffs) - len(real),
        damage=damage,
    )


def _outside(lines: Sequence[str], diffs: Sequence[FileDiff]) -> list[int]:
    """The lines that belong to no diff; the rest of a damaged one may be anything."""
    inside = {at for diff in diffs for at in range(diff.start, diff.end)}
    return [at for at in range(len(lines)) if at not in inside]


def _real(
    lines: Sequence[str], diffs: Sequence[FileDiff], separators: Sequence[int]
) -> tuple[Sequence[FileDiff], tuple[str, ...]]:
    """The diffs that are the patch, and why that is not certain where it is not."""
    if not separators:
        return diffs, ()
    below = [diff for diff in diffs if diff.start > separators[0]]
    outside = _outside(lines, diffs)
    last = max(diff.start for diff in diffs)
    counts = [at for at in outside if separators[0] < at < last and SUMMARY.match(lines[at])]
    if counts:
        counted = [diff for diff in below if diff.start > counts[-1]]
        summary = SUMMARY.match(lines[counts[-1]])
        files = int(summary["files"]) if summary else 0
        for found in (counted, _above_signature(lines, counted, outside)):
            if len({diff.path for diff in found}) == files:
                return found, ()
        return (counted, ()) if len(counted) == len(below) else (below, (UNCERTAIN,))
    if any(at > below[0].start for at in separators):
        return below, (UNCERTAIN,)
    return below, ()


def _above_signature(
    lines: Sequence[str], found: Sequence[FileDiff], outside: Sequence[int]
) -> Sequence[FileDiff]:
    """Those that stand before the "-- " line of format-patch: what follows is talk."""
    first = found[0].start
    ends = [at for at in outside if at > first and lines[at].rstrip() == "--"]
    return [diff for diff in found if not ends or diff.start < ends[0]]


def _end(lines: Sequence[str], separators: Sequence[int]) -> int:
    """Of several "---" lines the one that ends the message: the first with a sign-off above it."""
    signed = [at for at, line in enumerate(lines) if line.startswith("Signed-off-by: ")]
    return next((at for at in separators if any(each < at for each in signed)), separators[0])


def _without_heads(lines: Sequence[str], end: int) -> int:
    """Past lines such as "Index: a.c", "=====" and "diff -ur" that stand before a plain diff."""
    while end and (lines[end - 1].startswith(("diff -", "Index: ", "=====")) or not lines[end - 1]):
        end -= 1
    return end


def breaks(line: str) -> bool:
    """Whether git am takes the line for the start of the patch (patchbreak() in mailinfo.c)."""
    if line.startswith(("diff -", "Index: ")):
        return True
    if not line.startswith("---"):
        return False
    return (line[3:4] == " " and bool(line[4:5].strip())) or not line[3:].strip()
