"""Finding the first error in the output of a kernel build. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PLACE = r"(?P<file>[^\s:()]+):(?P<line>\d+)(?::\d+)?"


@dataclass(frozen=True, kw_only=True)
class FirstError:
    """`file` is relative to the tree where it is in it; "" and None where none is named."""

    error: str
    file: str = ""
    line: int | None = None


# In the order in which a cause is preferred to what merely follows from it: make's own
# "Error 1" comes last, and with -j another target's messages may stand in between.
CAUSES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        # gcc, clang, gas ("Error:"), dtc
        rf"^{PLACE}: (?:fatal )?[Ee]rror: (?P<error>.*)$",
        # Kconfig, flex, bison
        rf"^{PLACE}: (?P<error>(?:syntax error|invalid statement|unknown|recursive).*)$",
        # make itself: a Makefile that it cannot read
        rf"^{PLACE}: \*\*\* (?P<error>.*?)(?:\.\s+Stop\.)?$",
    )
)
LINKER = (
    # binutils: "ld: mm/slub.o: in function `f':" and then "slub.c:(.text+0x1): undefined …"
    # or, with line numbers, "ld: lib/b.o:lib/b.c:3: multiple definition …"
    re.compile(
        r"^(?:\S*ld(?:\.\w+)?: )?(?:[^\s:]+\.o:)?(?P<file>[^\s:]+\.[coS]):"
        r"(?:(?P<line>\d+):|\([^)]*\):)? "
        r"(?P<error>(?:undefined reference|multiple definition|relocation).*)$"
    ),
    # lld
    re.compile(r"^ld\.lld: error: (?P<error>.*)$"),
)
OTHERS = (
    re.compile(r"^(?:clang|gcc|\S+-gcc|cc1): (?:fatal )?error: (?P<error>.*)$"),
    re.compile(r"^ERROR: (?:modpost: )?(?P<error>.*)$"),
    re.compile(r"^\S*ld(?:\.\w+)?: (?P<error>.*(?:cannot|failed|not found|error|discarded).*)$"),
    re.compile(r"^(?P<file>\S+\.o): (?P<error>error: objtool.*)$"),
    re.compile(r"^(?P<error>(?:error|Error|ERROR): .*)$"),
    re.compile(r"^make(?:\[\d+\])?: \*\*\* (?P<error>No rule to make target .*?)(?:\.\s+Stop\.)?$"),
)
MAKE_STOPPED = re.compile(
    r"^make(?:\[\d+\])?: \*\*\* \[(?:(?P<file>[^\s:\]]+):(?P<line>\d+): )?(?P<target>[^\]]+)\] "
    r"(?P<error>.*)$"
)
# lld tells the place in the lines below: ">>> referenced by slub.c:2 (/src/mm/slub.c:2)" with
# debugging information, else the source's name and in the next line the object.
LLD_PLACE = re.compile(
    r"^>>> (?:referenced by|defined at) (?P<name>[^\s:]+)(?::\d+ \((?P<file>.*):(?P<line>\d+)\))?$"
)
LLD_OBJECT = re.compile(r"^>>> +(?P<file>[^\s:]+\.o):\(")
IN_FUNCTION = re.compile(r"^(?:\S*ld(?:\.\w+)?: )?(?P<file>[^\s:]+\.o): in function")
NO_SPACE = "No space left on device"
# As the tool itself says it, to the end of the line. What quotes the source has quotation
# marks or a "#" before it (excerpts, `#error`, the text of a static_assert), or is gas's word
# for a plain error (`.error`); what it says of the host is a "Fatal error".
HOST_FAULTS = re.compile(
    r"^(?!\S+:\d+(?::\d+)?: [Ee]rror: )\S(?:can't|[^\"'`#])*: (?:"
    rf"{NO_SPACE}|Cannot allocate memory|Killed signal terminated program \S+"
    r"|virtual memory exhausted|out of memory allocating \d+ bytes.*"
    r"|internal compiler error: (?:Killed|Segmentation fault)(?: \(program \S+\))?"
    r"|unable to execute command: (?:Killed|Segmentation fault)(?: \(core dumped\))?|out of memory"
    r")$"
    # clang compiles in the process that make started, so that make alone can tell.
    r"|^make(?:\[\d+\])?: \*\*\* \[[^\]]*\] Killed$"
)
EXCERPT = re.compile(r"^\s*\d* +\|")
# clang before 16 shows the source without line numbers, in the next line.
DIAGNOSTIC = re.compile(r"^[^\s:()]+:\d+:\d+: (?:fatal error|error|warning|note): ")


def first_error(text: str, *, roots: Sequence[str] = ("/src", "/build")) -> FirstError:
    """The first thing in a build's output that is an error, else its last line.

    `roots`: source and build folder; a file below one of them is named relative to it.
    """
    lines = text.splitlines()
    for patterns in (CAUSES, LINKER, OTHERS, (MAKE_STOPPED,)):
        for number, found in _matches(lines, patterns):
            return _error(found, lines[:number], lines[number + 1 :], roots)
    last = next((line for line in reversed(lines) if line.strip()), "make said nothing")
    return FirstError(error=last.strip())


def host_fault(text: str) -> str:
    """The line that shows that the host was at fault (disk, memory), "" where none does."""
    before = ""
    for line in map(str.rstrip, text.splitlines()):
        quoted = EXCERPT.match(line) or (DIAGNOSTIC.match(before) and not DIAGNOSTIC.match(line))
        if not quoted and HOST_FAULTS.match(line):
            return line
        before = line
    return ""


def is_about_disk(fault: str) -> bool:
    return fault.endswith(NO_SPACE)


def _matches(
    lines: list[str], patterns: tuple[re.Pattern[str], ...]
) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(lines):
        for pattern in patterns:
            if found := pattern.match(line):
                yield number, found


def _error(
    found: re.Match[str], before: list[str], after: list[str], roots: Sequence[str]
) -> FirstError:
    groups = found.groupdict()
    if found[0].startswith("ld.lld: "):
        groups |= _lld_place(after)
    error = groups["error"].strip()
    file = groups.get("file") or ""
    if groups.get("target"):
        error = f"{groups['target']}: {error}"
    if file and "/" not in file and (unit := _unit(before)):
        # binutils names the source file without its folder; the object before it has that.
        file = f"{unit.rpartition('/')[0]}/{file}" if "/" in unit else file
    line = groups.get("line")
    return FirstError(error=error, file=relative(file, roots), line=int(line) if line else None)


def _lld_place(after: list[str]) -> dict[str, str | None]:
    place = LLD_PLACE.match(after[0]) if after else None
    if place is None:
        return {}
    if place["file"]:
        return place.groupdict()
    unit = LLD_OBJECT.match(after[1]) if after[1:] else None
    folder = unit["file"].rpartition("/")[0] if unit else ""
    return {"file": f"{folder}/{place['name']}" if folder else place["name"]}


def _unit(before: list[str]) -> str:
    found = IN_FUNCTION.match(before[-1]) if before else None
    return found["file"] if found else ""


def relative(file: str, roots: Sequence[str]) -> str:
    """A path as the tree's own: without /src or /build, and without the way up to it."""
    for root in roots:
        file = file.removeprefix(f"{root}/")
    file = posixpath.normpath(file) if "/" in file else file
    while file.startswith("../"):
        file = file.partition("/")[2]
    return file
