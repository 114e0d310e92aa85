"""The diffstat that a mail has under its message: what it says itself that it changes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.model import Diffstat

SUMMARY = re.compile(
    r"^\s*(?P<files>\d+) files? changed"
    r"(?:, (?P<insertions>\d+) insertions?\(\+\))?(?:, (?P<deletions>\d+) deletions?\(-\))?"
)
LINE = re.compile(r"^\s?(?P<path>\S.*?)\s+\|\s+(?P<lines>\d+)(?:\s+[+-]+)?\s*$")
RENAMED = re.compile(r"\{(?P<old>.*?) => (?P<new>.*?)\}")


def parse(lines: Sequence[str]) -> Diffstat | None:
    """The last diffstat in these lines; None where there is none."""
    ends = [at for at, line in enumerate(lines) if SUMMARY.match(line)]
    if not ends:
        return None
    start = ends[-2] + 1 if len(ends) > 1 else 0
    summary = SUMMARY.match(lines[ends[-1]])
    assert summary is not None
    found = [match for line in lines[start : ends[-1]] if (match := LINE.match(line))]
    return Diffstat(
        files=int(summary["files"]),
        insertions=int(summary["insertions"] or 0),
        deletions=int(summary["deletions"] or 0),
        lines={
            _path(match["path"]): int(match["lines"])
            for match in found
            if not match["path"].startswith("...")
        },
    )


def _path(shown: str) -> str:
    """The path after a rename, of "mm/{a.c => b.c}" or "a.c => b.c"."""
    if RENAMED.search(shown):
        return RENAMED.sub(lambda match: match["new"], shown).replace("//", "/")
    return shown.rpartition(" => ")[2]
