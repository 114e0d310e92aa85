"""One line of a console: what a terminal would show, and what printk put in front of it. Pure.

Prefixes that are known, alone or together, also behind what a program wrote without ending its
line: `<4>`, `[   12.345678]`, the caller `[T123]` or `[C1]` (CONFIG_PRINTK_CALLER), a wall
clock (`2024/01/31 10:00:00`, RFC 3339, syslog's with host and tag), Android's `c0   123`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|.?)"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_PIECES = re.compile(
    r"(?m)^(?:.*?\[ *(?P<stamp>\d+\.\d+)\](?:\[ *(?P<caller>[TC]\d+)\])? ?"
    r"(?:c\d+ +\d+ (?=\S))?)?(?P<text>.*)$"
)
_CONTROLS = bytes([*range(9), *range(11, 32), 127])
_STAMP = re.compile(r"\[ *(\d+\.\d+)\](?:\[ *([TC]\d+)\])? ?(?:c\d+ +\d+ (?=\S))?")
_CLOCK = re.compile(
    r"(?:\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d\S*|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) "
    r"(?:\S+ (?:kernel|klogd)(?:\[\d+\])?: )?"
)
_LEVEL = re.compile(r"<\d{1,3}>")


class Line(NamedTuple):
    """`stamp`: the seconds as printed, "" without a stamp.

    `context`: "" without a stamp, "console" with one that names no caller, else the caller.
    """

    text: str
    context: str = ""
    stamp: str = ""


def decode(raw: bytes) -> str:
    """The bytes of lines as a person would see them; what is no UTF-8 is left out."""
    if b"\x1b" in raw:
        return clean(raw.decode("utf-8", errors="ignore"))
    return raw.translate(None, _CONTROLS).decode("utf-8", errors="ignore")


def clean(line: str) -> str:
    """A line without escape sequences and control characters (a tab stays)."""
    return _CONTROL.sub("", _ESCAPES.sub("", line) if "\x1b" in line else line)


def message(line: str) -> str:
    """A console line without escapes, control characters and printk's prefix."""
    return split(clean(line)).text.strip()


def split(line: str) -> Line:
    """A clean line, taken apart at its first stamp."""
    found = _STAMP.search(line)
    if found is None:
        return Line(text=_bare(line))
    return _at(line, found)


def lines(text: str) -> Iterator[Line]:
    """The lines of a clean text, each as `split` gives it."""
    for found in _PIECES.finditer(text):
        stamp, caller, words = found.groups()
        yield Line(words.rstrip(), caller or "console", stamp) if stamp else Line(_bare(words))


def readings(line: str) -> list[Line]:
    """Every way to read a line in which several messages met: from each stamp on.

    The first is what `split` gives.
    """
    stamped = [_at(line, found) for found in _STAMP.finditer(line)]
    return stamped or [Line(text=_bare(line))]


def _at(line: str, found: re.Match[str]) -> Line:
    return Line(line[found.end() :].rstrip(), found[2] or "console", found[1])


def _bare(line: str) -> str:
    line = line.strip()
    for prefix in (_LEVEL, _CLOCK):
        found = prefix.match(line)
        if found:
            line = line[found.end() :]
    return line.lstrip() if line[:1] == " " else line
