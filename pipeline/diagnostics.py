"""What compilers and linkers say in the output of a kernel build, and what of it is new. Pure.

A build is made with --output-sync=target (`recipe`), so that what is said of an object follows
the line that names it ("  CC      mm/slub.o"). An increment's output has only what was made
anew: warnings are kept by what make made (`Spoken`), and what is made now replaces what was.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline import buildlog
from pipeline.model import Diagnostic

# By target ("mm/slub.o", "Module.symvers"; "" for what comes before any).
Spoken = Mapping[str, tuple[Diagnostic, ...]]

COMPILER = "compiler"
# kbuild's short lines: "  CC [M]  fs/xfs/xfs.o", "  CHECK   /src/mm/slub.c"
TARGET = re.compile(r"^  (?P<verb>[A-Z][A-Z0-9_]*(?: \[M\])?) +(?P<target>\S+)$")
SOURCE = re.compile(r"\.(?:c|S|rs)$")
# gcc names the function before what it says of it, and for inlined code whom it went into.
SECTION = re.compile(r"^(?P<file>\S+): (?:In function '(?P<function>[^']+)'|At top level):$")
INLINED = re.compile(r"^(?:In function|\s+inlined from) '(?P<function>[^']+)'(?: at .*)?[,:]$")

PLACED = re.compile(
    r"^(?P<file>[^\s:()]+|<stdin>):(?P<line>\d+)(?::\d+|\.[\d.-]+)?: ?"
    r"(?P<level>[Ww]arning|error)(?: \((?P<check>\w+)\))?: (?P<text>.*)$"
)
# sparse tells types in lines of their own: "mm/slub.c:5:9:    expected int *p"
CONTINUED = re.compile(r"^\S+:\d+:\d+: {2,}(?P<text>\S.*)$")
OBJTOOL = re.compile(
    r"^(?P<file>\S+): warning: objtool: (?:(?P<function>[\w.]+)(?:\(\))?(?:\+0x[0-9a-f]+)?: )?"
    r"(?P<text>.*)$"
)
# "Found 3 section mismatch(es)" only counts those above.
MODPOST = re.compile(
    r"^WARNING: modpost: (?!Found \d+ )"
    r"(?P<text>(?:.*in reference(?: from the \w+|:) (?P<function>[\w.]+))?.*)$"
)
LINKER = re.compile(r"^(?:\S*-)?ld(?:\.\w+)?: warning: (?:(?P<file>[^\s:]+\.[oa]): )?(?P<text>.*)$")
COMPILER_ALONE = re.compile(r"^(?:cc1|clang|\S*gcc): warning: (?P<text>.*)$")
OPTION = re.compile(r"\s*\[(?P<kind>-W[^\]]*)\]$")

# What moves with the code around it, or is counted by the compiler.
SHIFTING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<=[\w>]):\d+(?::\d+)?\b"), ""),  # "… at mm/slub.c:5:3"
    (re.compile(r"\bline \d+"), "line"),
    (re.compile(r"\+0x[0-9a-f]+"), ""),
    (re.compile(r"\b(__UNIQUE_ID_\w*?|__compiletime_assert_)\d+\b"), r"\1"),
    (re.compile(r"\.(?:constprop|isra|part|cold)(?:\.\d+)*\b"), ""),
)
NUMBER = re.compile(r"\b\d+\b")


def read(
    log: str, *, roots: Sequence[str], tool: str = COMPILER
) -> dict[str, tuple[Diagnostic, ...]]:
    """The warnings of a build by target, with one that said nothing for each other target.

    `roots`: source and build folder as the tools name them. Of a `tool` that is not the
    compiler's build itself errors are taken too: they are findings like the others.
    """
    reader = _Reader(roots=roots, tool=tool)
    for line in log.splitlines():
        reader.take(line.rstrip().replace("‘", "'").replace("’", "'"))
    return reader.spoken()


def merge(
    before: Spoken, now: Spoken, *, exists: Callable[[str], bool] = lambda _: True
) -> dict[str, tuple[Diagnostic, ...]]:
    """All warnings of a kernel: those of a build `before`, and of what was made anew `now`.

    `exists` tells whether the tree has a file: nothing is said any more of one that is gone.
    """
    both = {**before, **now}
    kept = {
        target: tuple(each for each in found if not SOURCE.search(each.file) or exists(each.file))
        for target, found in both.items()
    }
    return {target: found for target, found in kept.items() if found}


def flat(spoken: Spoken) -> tuple[Diagnostic, ...]:
    """All of them, by file and line. What many objects say of one header is one."""
    most: Counter[tuple[str, ...]] = Counter()
    first: dict[tuple[str, ...], list[Diagnostic]] = {}
    for found in spoken.values():
        counts = Counter(map(identity, found))
        for key in counts:
            if counts[key] > most[key]:
                first[key] = [each for each in found if identity(each) == key]
        most |= counts
    whole = [each for group in first.values() for each in group]
    return tuple(sorted(whole, key=lambda each: (each.file, each.line, each.text)))


def new(
    base: Iterable[Diagnostic],
    patched: Iterable[Diagnostic],
    *,
    renamed: Mapping[str, str] | None = None,
) -> tuple[Diagnostic, ...]:
    """What is said of `patched` more often than of `base`, wherever in its file it stands.

    `renamed`: files that `base` has by another name (old -> new).
    """
    names = renamed or {}
    known = [replace(each, file=names.get(each.file, each.file)) for each in base]
    lines = Counter((identity(each), each.line) for each in known)
    left = Counter(map(identity, known))
    moved: list[Diagnostic] = []
    for each in patched:  # one in the same line is the same one
        key = identity(each)
        if lines[key, each.line] > 0:
            lines[key, each.line] -= 1
            left[key] -= 1
        else:
            moved.append(each)
    return tuple(_beyond(moved, left))


def _beyond(found: Iterable[Diagnostic], known: Counter[tuple[str, ...]]) -> Iterator[Diagnostic]:
    for each in found:
        key = identity(each)
        if known[key] > 0:
            known[key] -= 1
        else:
            yield each


def identity(each: Diagnostic) -> tuple[str, ...]:
    """Its key, but for the size of a frame that is too large: that changes with any edit."""
    if each.kind.startswith(("-Wframe-larger-than", "-Wstack-usage")):
        return replace(each, text=NUMBER.sub("N", each.text)).key
    return each.key


def dump(spoken: Spoken) -> str:
    """warnings.json: [file, line, function, text, kind, tool] of each, by target."""
    rows = {
        target: [[d.file, d.line, d.function, d.text, d.kind, d.tool] for d in found]
        for target, found in spoken.items()
        if found
    }
    return json.dumps(rows, indent=0) + "\n"


def load(text: str) -> dict[str, tuple[Diagnostic, ...]]:
    return {
        target: tuple(
            Diagnostic(file=file, line=line, function=function, text=words, kind=kind, tool=tool)
            for file, line, function, words, kind, tool in rows
        )
        for target, rows in json.loads(text).items()
    }


# ---------------------------------------------------------------------- line by line


@dataclass(kw_only=True)
class _Reader:
    """A log, line by line. `parts`: what was said in each section, by kbuild's word and target:
    one that is made again within a log replaces what was said before."""

    roots: Sequence[str]
    tool: str
    parts: dict[tuple[str, str], list[Diagnostic]] = field(default_factory=lambda: {("", ""): []})
    part: tuple[str, str] = ("", "")
    function: str = ""
    inlined: str = ""

    def take(self, line: str) -> None:
        if found := TARGET.match(line):
            self.part = found["verb"], self._target(found["target"])
            self.parts[self.part] = []
            self.function = self.inlined = ""
        elif found := SECTION.match(line):
            self.function, self.inlined = _plain(found["function"] or ""), ""
        elif found := INLINED.match(line):
            self.inlined = _plain(found["function"])
        elif said := self._said(line):
            self.parts[self.part].append(said)
            self.inlined = ""
        elif (found := CONTINUED.match(line)) and self.parts[self.part]:
            last = self.parts[self.part][-1]
            text = _plain(f"{last.text}; {' '.join(found['text'].split())}")
            self.parts[self.part][-1] = replace(last, text=text)

    def spoken(self) -> dict[str, tuple[Diagnostic, ...]]:
        found: dict[str, tuple[Diagnostic, ...]] = {}
        for (_, target), said in self.parts.items():
            found[target] = (*found.get(target, ()), *said)
        return found

    def _target(self, name: str) -> str:
        return SOURCE.sub(".o", buildlog.relative(name, self.roots))

    def _said(self, line: str) -> Diagnostic | None:
        if found := OBJTOOL.match(line):
            function = _plain(found["function"] or "")
            return self._made(found["text"], kind="objtool", file=found["file"], function=function)
        if found := MODPOST.match(line):
            function = _plain(found["function"] or "")
            return self._made(found["text"], kind="modpost", file=self.part[1], function=function)
        if found := LINKER.match(line):
            return self._made(found["text"], kind="ld", file=found["file"] or self.part[1])
        if found := COMPILER_ALONE.match(line):
            return self._made(found["text"], file=self.part[1])
        return self._placed(line)

    def _placed(self, line: str) -> Diagnostic | None:
        found = PLACED.match(line.lstrip())  # kernel-doc's are indented
        if found is None or (found["level"] == "error" and self.tool == COMPILER):
            return None
        return self._made(
            found["text"],
            kind=found["check"] or "",
            file=found["file"],
            line=int(found["line"]),
            function=self.inlined or self.function,
        )

    def _made(
        self, text: str, *, file: str, line: int = 0, function: str = "", kind: str = ""
    ) -> Diagnostic:
        option = OPTION.search(text)
        return Diagnostic(
            tool=self.tool,
            file=buildlog.relative(file, self.roots),
            line=line,
            function=function,
            text=_plain(OPTION.sub("", text)),
            kind=option["kind"].replace("-Werror=", "-W") if option else kind,
        )


def _plain(text: str) -> str:
    """Without what differs where the code around it differs."""
    for pattern, to in SHIFTING:
        text = pattern.sub(to, text)
    return text.strip()


# ---------------------------------------------------------------------- whose function

# The first line of a function's definition: at the margin, with parameters, no declaration.
ATTRIBUTES = "__(?:attribute__|printf|scanf|aligned|section|alloc_size|assume_aligned)"
HEAD = re.compile(
    r"^(?!typedef\b)(?=[A-Za-z_])(?:.*?\b)??"
    rf"(?P<function>(?!{ATTRIBUTES}\b)[A-Za-z_]\w*)\s*\([^;]*$"
)


def enclosing(source: str, line: int) -> str:
    """The function of C source, as the kernel lays it out, that this line (from 1) stands in.

    sparse, clang and kernel-doc do not tell it. "" outside of any.
    """
    above = source.splitlines()[:line][::-1]
    for number, text in enumerate(above):
        if number and text.startswith("}"):
            return ""
        if found := HEAD.match(text):
            return found["function"]
    return ""


def placed(found: Iterable[Diagnostic], source: Callable[[str], str]) -> tuple[Diagnostic, ...]:
    """The same with the functions of those that do not tell it; `source` has a file's text."""
    return tuple(
        each
        if each.function or not each.line
        else replace(each, function=enclosing(source(each.file), each.line))
        for each in found
    )
