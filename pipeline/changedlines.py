"""Which lines a series changed, from `git diff --unified=0`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

DIFF = (
    "diff",
    "--unified=0",
    "--no-color",
    "--no-ext-diff",
    "--no-renames",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)  # then the two revisions
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass
class _File:
    lines: set[int] = field(default_factory=set)
    gone: bool = False


def read(diff: str) -> dict[str, tuple[int, ...]]:
    """Path -> lines of the new side that were added or changed: none where lines only went.

    Hunk lengths are counted, so that content that looks
    like a header is never taken for one.
    """
    found: dict[str, _File] = {}
    at: _File | None = None
    old = ""
    left = 0
    for line in diff.split("\n"):
        if left and line[:1] in "+-":
            left -= 1
        elif line.startswith("--- "):
            old = line[4:].rstrip("\t")
        elif line.startswith("+++ "):
            new = line[4:].rstrip("\t")
            gone = new == "/dev/null"
            at = found.setdefault((old if gone else new)[2:], _File(gone=gone))
        elif at is not None and (match := _HUNK.match(line)):
            removed, start, added = int(match[2] or 1), int(match[3]), int(match[4] or 1)
            left = removed + added
            if not at.gone:
                at.lines |= set(range(start, start + added))
    return {path: tuple(sorted(file.lines)) for path, file in found.items()}
