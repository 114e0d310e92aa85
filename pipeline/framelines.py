"""Frames of a report (`ring_add+0x12/0x340 [ring]`): which addresses they mean, and the report with
file and line behind each, as scripts/decode_stacktrace.sh prints it. Pure.

A frame is looked up by its symbol and the offset into it, so that it does not matter where the
kernel was loaded. Functions of one name are told apart by their size: kallsyms gives the distance
to the next symbol (get_symbol_pos() in kernel/kallsyms.c, 6.12), so that distance is taken here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from pipeline.rustnames import demangled

MOST_FRAMES = 2000  # of one boot; further ones stay as they are
PADDING = 64  # bytes that may lie between a module's function and the symbol behind it

_FRAME = re.compile(
    r"(?P<name>[A-Za-z_$][\w.$]*)\+0x(?P<offset>[0-9a-f]{1,8})/0x(?P<size>[0-9a-f]{1,8})"
    r"(?: \[(?P<module>[A-Za-z]\w*)(?: [0-9a-f]{40})?\])?"
)
# A line of a stack: nothing but the unwinder's own marks before the function.
_OF_STACK = re.compile(r"(?:\[[^\]]*\]\s?|<[A-Z/_]+>\s*|\(?\[<?[0-9a-f]+>?\]\s*|\s|\? )*$")
# Where the CPU was, not where it will return to: x86, arm, arm64 and riscv, powerpc, s390, WARN.
_POINTER = re.compile(
    r"\b[RE]?IP:|\be?pc ?: |\bPC is at |\bNIP\b|Krnl PSW|--- interrupt: |\bWARNING: "
)
_TRACE = re.compile(r"(?i)call trace:")
_ADDRESS = re.compile(r"0x[0-9a-f]+$")
_NOWHERE = re.compile(r"(?:\?\?|.*:(?:\?|0)$)")
_EXTRA = re.compile(r" \(discriminator \d+\)$")


class Frame(NamedTuple):
    """`module`: "" for the kernel itself. `exact`: the instruction's own address, not that of the
    one behind a call."""

    name: str
    offset: int
    size: int
    module: str
    exact: bool

    @property
    def place(self) -> int:
        """The offset of the instruction that the frame is about.

        -1 where a function ends with a call that does not return: arm64 names the one behind it.
        """
        return self.offset - (not self.exact)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of source. `function`: what is there, inlined or not."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


Places = Mapping[Frame, Sequence[Place]]  # innermost first; the last one is the frame's own


def frames(texts: Iterable[str]) -> list[Frame]:
    """All frames in some reports, each once."""
    found = dict.fromkeys(frame for text in texts for frame in _of(text))
    return list(islice(found, MOST_FRAMES))


def symbols(listing: str, wanted: Iterable[str]) -> dict[str, list[tuple[int, int]]]:
    """Addresses and sizes of functions by name, from a System.map.

    The size is the distance to the next symbol of code, 0 for the last one.
    """
    names = set(wanted)
    rows = [line.split() for line in listing.splitlines()]
    code = sorted((int(row[0], 16), row[2]) for row in rows if len(row) == 3 and row[1] in "tTwW")
    found: dict[str, list[tuple[int, int]]] = {}
    after, last = 0, 0  # the address behind that of the symbol at hand
    for address, name in reversed(code):
        if address != last:
            after, last = last, address
        if name in names:
            found.setdefault(name, []).append((address, max(after - address, 0)))
    return found


def address(frame: Frame, candidates: Sequence[tuple[int, int]]) -> int | None:
    """The address that a frame means; None where several functions could be meant, or none."""
    fitting = [start for start, size in candidates if size == frame.size]
    if not fitting:
        fitting = [start for start, size in candidates if not size or frame.offset <= size]
    return fitting[0] + frame.place if len(set(fitting)) == 1 else None


def nearly(frame: Frame, candidates: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those whose size in the ELF file (without what is behind the function) fits the frame's."""
    near = [each for each in candidates if 0 <= frame.size - each[1] <= PADDING]
    return [(start, frame.size) for start, _ in near] or list(candidates)


def answers(listing: str) -> dict[int, list[Place]]:
    """What `addr2line -afi` printed, by address; of unknown places nothing.

    An address, then pairs of lines: the function, and `file:line`.
    """
    found: dict[int, list[Place]] = {}
    at = -1
    function = ""
    for line in listing.splitlines():
        if _ADDRESS.match(line):
            at, function = int(line, 16), ""
        elif not function:
            function = line
        else:
            file, _, number = _EXTRA.sub("", line).rpartition(":")
            if not _NOWHERE.match(line) and number.isdecimal():
                found.setdefault(at, []).append(
                    Place(function=function, file=file, line=int(number))
                )
            function = ""
    return found


def decode(report: str, places: Places) -> str:
    """The report with file and line behind each known frame.

    In a stack each inlined function has a line of its own before the frame that it is part of.
    """
    exact = _exact(report)
    lines = (each for line in report.split("\n") for each in _decoded(line, exact, places))
    return "\n".join(lines)


def _decoded(line: str, exact: frozenset[str], places: Places) -> list[str]:
    lines: list[str] = []
    parts: list[str] = []
    end = 0
    for found in _FRAME.finditer(line):
        where = places.get(_frame(found, exact))
        parts.append(line[end : found.end()])
        end = found.end()
        if not where:
            continue
        head = line[: found.start()]
        if _OF_STACK.match(head):
            lines += [f"{head}{demangled(each.function)} ({each}) [inline]" for each in where[:-1]]
            parts.append(f" ({where[-1]})")
        else:
            parts.append(f" ({' '.join(map(str, where))})")
    return [*lines, "".join(parts) + line[end:]]


def _of(text: str) -> list[Frame]:
    exact = _exact(text)
    return [_frame(found, exact) for found in _FRAME.finditer(text)]


def _exact(text: str) -> frozenset[str]:
    """The frames that are no calls: what a pointer names (arm64 and others begin the stack with it
    once more), and functions as such."""
    found: set[str] = set()
    above = ""
    for line in text.split("\n"):
        is_pointer = bool(_POINTER.search(line))
        for frame in _FRAME.finditer(line):
            is_call = _OF_STACK.match(line[: frame.start()]) and not _TRACE.search(above)
            if is_pointer or (int(frame["offset"], 16) == 0 and not is_call):
                found.add(frame[0])
        above = line
    return frozenset(found)


def _frame(found: re.Match[str], exact: frozenset[str]) -> Frame:
    return Frame(
        name=found["name"],
        offset=int(found["offset"], 16),
        size=int(found["size"], 16),
        module=found["module"] or "",
        exact=found[0] in exact,
    )
