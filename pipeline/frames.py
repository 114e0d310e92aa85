"""What an init-started run prints on the console, and how it is read back. Pure.

`script` makes the shell script for the guest's /ktrial/run.sh; `read` finds the outputs in
the console's text. Each output is framed:

    ktrial: begin NAME
    ktrial: data NUMBER BASE64
    ktrial: end NAME STATUS SECONDS MD5 LENGTH

The kernel may print between these lines, and into one of them: lines have numbers, the
whole has a checksum (Debian's busybox has no `cksum`), and a line that was torn by kernel
messages is put together again where the checksum then agrees. A frame that stays damaged
is reported as such.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.console import clean

_BEGIN = re.compile(r"ktrial: begin (\S+)")
_DATA = re.compile(r"ktrial: data (\d+) ([A-Za-z0-9+/=]*)")
_END = re.compile(r"ktrial: end (\S+) (\d+) (\d+(?:\.\d+)?) ([0-9a-f]{32}) (\d+)")
_KERNEL = re.compile(r"\[ *\d+\.\d{6}\]")
_REST = re.compile(r"[A-Za-z0-9+/=]+$")

# busybox sh; `timeout` ends a command that does not end itself. /proc/uptime has 10 ms steps.
_HEAD = """\
#!/bin/sh
ktrial_frame() {
    name=$1 limit=$2 file=/tmp/.ktrial-output
    read -r begun rest < /proc/uptime
    timeout -s KILL "$limit" sh -c "$3" > "$file" 2>&1 < /dev/null
    status=$?
    read -r ended rest < /proc/uptime
    sum=$(md5sum < "$file")
    length=$(wc -c < "$file")
    echo "ktrial: begin $name"
    base64 < "$file" | tr -d '\\n' | fold -w 76 | awk '{ print "ktrial: data " NR " " $0 }'
    seconds=$(echo "$ended $begun" | awk '{ printf "%.2f", $1 - $2 }')
    echo "ktrial: end $name $status $seconds ${sum%% *} $length"
}
"""


@dataclass(frozen=True, kw_only=True)
class FramedCommand:
    """A command of the script. `name` has no white space; `deadline` in seconds."""

    name: str
    command: str
    deadline: float


@dataclass(frozen=True, kw_only=True)
class Framed:
    """An output as it was read back; exit_status None with a `problem` where it is not whole."""

    name: str
    exit_status: int | None
    text: str
    seconds: float
    problem: str = ""


def script(commands: Sequence[FramedCommand]) -> str:
    """The shell script that runs the commands one after the other and frames what they print.

    Raises:
        ValueError: a name has white space.
    """
    lines = [_HEAD]
    for each in commands:
        if not each.name or re.search(r"\s", each.name):
            raise ValueError(f"{each.name!r} cannot name a frame")
        words = (shlex.quote(each.name), f"{each.deadline:.0f}", shlex.quote(each.command))
        lines.append(f"ktrial_frame {' '.join(words)}\n")
    return "".join(lines)


def read(console: str) -> tuple[Framed, ...]:
    """The outputs in a console's text, in their order; damaged and unfinished ones too."""
    found: list[Framed] = []
    name, lines = "", list[str]()
    for raw in console.split("\n"):
        line = clean(raw)
        begin, end = _BEGIN.search(line), _END.search(line)
        if begin:
            if name:
                found.append(_damaged(name, "its end is missing"))
            name, lines = begin[1], []
        elif end and end[1] == name:
            found.append(_frame(name, lines, end))
            name = ""
        elif name:
            lines.append(line)
    if name:
        found.append(_damaged(name, "its end is missing"))
    return tuple(found)


def _frame(name: str, lines: Sequence[str], end: re.Match[str]) -> Framed:
    checksum, length = end[4], int(end[5])
    for pieces in (_whole(lines), _mended(lines)):
        data = _decode(pieces)
        if data is not None and len(data) == length and _sum(data) == checksum:
            return Framed(
                name=name,
                exit_status=int(end[2]),
                text=data.decode("utf-8", errors="replace"),
                seconds=float(end[3]),
            )
    return _damaged(name, "its checksum does not agree")


def _sum(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _damaged(name: str, how: str) -> Framed:
    problem = f"the output of {name} on the console is damaged: {how}"
    return Framed(name=name, exit_status=None, text="", seconds=0.0, problem=problem)


def _whole(lines: Sequence[str]) -> list[tuple[int, str]]:
    return [(int(found[1]), found[2]) for line in lines if (found := _DATA.search(line))]


def _mended(lines: Sequence[str]) -> list[tuple[int, str]]:
    """As `_whole`, with what follows a torn line's kernel messages put behind it."""
    pieces: list[tuple[int, str]] = []
    torn = False
    for line in lines:
        found = _DATA.search(line)
        if found:
            pieces.append((int(found[1]), found[2]))
            torn = bool(_KERNEL.match(line[found.end() :]))
        elif torn and not _KERNEL.match(line) and (rest := _REST.match(line)):
            number, piece = pieces[-1]
            pieces[-1] = (number, piece + rest[0])
            torn = False
    return pieces


def _decode(pieces: Sequence[tuple[int, str]]) -> bytes | None:
    if [number for number, _ in pieces] != list(range(1, len(pieces) + 1)):
        return None
    try:
        return base64.b64decode("".join(piece for _, piece in pieces), validate=True)
    except binascii.Error:
        return None
