"""Whether a patch would find its place but for blanks and tabs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipeline import diffs


def explains(mail: bytes, path: str, content: str) -> bool:
    """Whether a hunk of the mail's patch to `path` is in its content, and not as it stands there.

    Blanks of any kind count, at any place: `git apply --ignore-whitespace` knows some of them.
    """
    lines = content.split("\n")
    for before in _hunks(diffs.body(mail).split("\n"), path):
        bare = _bare(before)
        if any(bare) and _within(bare, _bare(lines)) and not _within(before, lines):
            return True
    return False


def _hunks(lines: Sequence[str], path: str) -> Iterator[list[str]]:
    """The lines that each hunk for `path` finds, as the hunk's header counts them."""
    found: list[str] = []
    name, left = "", 0
    for line in lines:
        if left > 0 and line[:1] not in {"+", "\\"}:
            found.append(line[1:])
            left -= 1
            if not left:
                yield found
        elif left <= 0 and line.startswith("--- "):
            name = diffs.stripped(diffs.unquoted(line[4:].split("\t")[0]))
        elif left <= 0 and (header := diffs.HUNK.match(line)) and name == path:
            found, left = [], int(header[1] or 1)


def _bare(lines: Sequence[str]) -> list[str]:
    return [re.sub(r"\s", "", line) for line in lines]


def _within(some: Sequence[str], lines: Sequence[str]) -> bool:
    size = len(some)
    return any(
        lines[at] == some[0] and lines[at : at + size] == some
        for at in range(len(lines) - size + 1)
    )
