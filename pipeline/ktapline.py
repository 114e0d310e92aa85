"""The lines of a log that KTAP and TAP know, without whatever a console put before them. Pure.

Read are KTAP version 1 (Documentation/dev-tools/ktap.rst), TAP 13 and 14, and how kselftest
and KUnit print them: prefixes of printk, dmesg, journals and serial loggers; kselftest's `# `
before the output of a test; names behind the directive; two lines that lost the newline
between them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

# How deep a line lies: kselftest's `# ` before it, and columns of white space behind those.
Depth = tuple[int, int]

TAB = 8
MOST_MARKERS = 8


class Kind(Enum):
    VERSION = auto()  # KTAP version 1
    SUBTEST = auto()  # `# Subtest: name`
    STARTED = auto()  # `# selftests: folder: test`: kselftest's runner begins a test
    PLAN = auto()  # 1..4
    RESULT = auto()  # ok 1 name
    BAIL = auto()  # Bail out!
    END = auto()  # the kernel that was testing is gone


@dataclass(frozen=True, kw_only=True)
class Line:
    """`kernel`: behind a prefix of printk's. `text`: the name; of a VERSION KTAP or TAP; of a
    PLAN why all is skipped; of a BAIL its reason; of an END what ended it.

    `count`: the number of a RESULT, None where it has none; the version; the planned tests.
    `directive`: SKIP, TODO, XFAIL, TIMEOUT, ERROR or nothing. `detail`: what follows it. `said`: of
    a RESULT that is not ok, the diagnostic lines that stand before it, and what continues them.
    """

    kind: Kind
    number: int
    depth: Depth = (0, 0)
    kernel: bool = False
    text: str = ""
    count: int | None = None
    passed: bool = False
    directive: str = ""
    detail: str = ""
    said: tuple[str, ...] = ()


MOST_SAID = 24  # lines before a result

# What a line must have to be looked at. Almost no line of a console has it.
_WORTH = re.compile(
    rb"ok\b|TAP version|1\.\.\d|# Subtest|# selftests: |Bail out!"
    rb"|Kernel panic|List of all partitions|reboot: |Linux version"
)
_SOIL = re.compile(
    "\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>cM78])|[\x00-\x08\x0b-\x1f\x7f\ufeff]"
)

_STAMP = r"\[ *\d+\.\d+(?: *< *[+-]?\d+\.\d+>)?\]"  # [   12.345678], also with dmesg's delta
_CALLER = r"\[ *[TC]\d+\]"  # CONFIG_PRINTK_CALLER
_LEVEL = r"<\d{1,3}>"
_KMSG = r"\d+,\d+,\d+,[-c+](?:,[^;]*)?;"  # /dev/kmsg
_CTIME = r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\]"  # dmesg -T
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"  # dmesg, journalctl
_DECODED = r"(?:kern|user|daemon|syslog) *:(?:emerg|alert|crit|err|warn|notice|info|debug) *:"
_SYSLOG = r"(?:[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d(?:\.\d+)?|" + _ISO + r") \S+ kernel:"
_PREFIX = re.compile(
    f"(?:(?:{_SYSLOG}|{_STAMP}|{_CALLER}|{_LEVEL}|{_KMSG}|{_CTIME}|{_ISO}|{_DECODED}) ?)+"
)
# Where a kernel line begins in the middle of what a program wrote, and where kselftest's
# runner wrote behind a test that did not end its last line.
_GLUED = re.compile(r"(?<=.)(?=\[ *\d+\.\d{6}\])|(?<=.)(?=(?:not )?ok \d+ selftests: \S+: )")
_BLANK = re.compile(r"[ \t#]*")
_VERSION_AT_END = re.compile(r"K?TAP version \d+\s*$")

_VERSION = re.compile(r"(K?TAP) version (\d+)\s*$")
_SUBTEST = re.compile(r"# Subtest(?::\s*(.*)|\s*$)")
_STARTED = re.compile(r"# (selftests: \S+: \S.*)$")
_PLAN = re.compile(r"1\.\.(\d{1,18})\s*(?:#\s*(.*))?$")
_RESULT = re.compile(r"(not )?ok(?:[ \t]+(\d{1,18}))?(?=\s|$)[ \t]*(.*)$")
# kselftest.h writes its sums behind a reason that did not end its line.
_BAIL = re.compile(r"Bail out!\s*(.*?)\s*(?:# (?:Planned tests|Totals:) .*)?$")
_END = re.compile(
    r"\s*(Kernel panic - not syncing.*|List of all partitions:|Linux version \d.*"
    r"|reboot: (?:System halted|Restarting system|Power down|machine restart).*)"
)
_SEPARATOR = re.compile(r"(?:^|(?<=\s))#(?=\s|$)")
_DIRECTIVE = re.compile(
    r"(?:^|(?<=\s))#\s*(?:(SKIP)\S*|(?i:(skip)(?:ped)?|(todo)|(xfail)|(timeout)|(error))(?=[\s:]|$))"
    r"[\s:]*(.*)$"
)


def read(raw_lines: Iterable[bytes]) -> Iterator[Line]:
    """What of a log KTAP knows; `raw_lines` with or without their ends, cut at newlines.

    What stands before a version line and is no known prefix (the mark of a serial logger, say)
    is taken away from the lines after it too, where they have it; its digits may differ.
    """
    mark: re.Pattern[str] | None = None
    others: deque[bytes] = deque(maxlen=MOST_SAID)  # since the last line that KTAP knows
    for number, raw in enumerate(raw_lines, 1):
        if not _WORTH.search(raw):
            others.append(raw)
            continue
        text = _clean(raw)
        marked = mark.match(text) if mark else None
        text = text[marked.end() :] if marked else text
        known = False
        for part in _unglued(text):
            message, kernel = _without_prefix(part)
            line = parse(message, number)
            if line is None and (begun := _VERSION_AT_END.search(message)):
                mark = _likewise(message[: begun.start()])
                line = parse(begun[0], number)
            # Without a prefix a boot's first line may be a test's `cat /proc/version`.
            if line is not None and (kernel or not line.text.startswith("Linux version")):
                failed = line.kind is Kind.RESULT and not line.passed
                said = tuple(_said(others, mark)) if failed else ()
                others.clear()
                known = True
                yield replace(line, kernel=kernel, said=said)
        if not known:
            others.append(raw)


def _said(others: Iterable[bytes], mark: re.Pattern[str] | None) -> Iterator[str]:
    """The diagnostic lines (`# …`) among those, and what follows them, without their prefixes."""
    begun = False
    for raw in others:
        text = _clean(raw)
        marked = mark.match(text) if mark else None
        message, _ = _without_prefix(text[marked.end() :] if marked else text)
        begun = begun or message.lstrip().startswith("#")
        if begun and (words := message.strip(" \t#")):
            yield words


def _likewise(lead: str) -> re.Pattern[str]:
    """Matches `lead` and what differs from it in its digits only."""
    return re.compile(re.sub(r"\d+", r"\\d+", re.escape(lead)))


def _clean(raw: bytes) -> str:
    text = raw.decode("utf-8", errors="replace").rstrip("\r\n")
    # What stands before a carriage return was overwritten on the screen.
    return _SOIL.sub("", text.rpartition("\r")[2])


def _unglued(text: str) -> Iterator[str]:
    """The lines in one, where the newline between them was lost."""
    start, own = 0, _lead_end(text, 0)
    for found in _GLUED.finditer(text):
        place = found.start()
        # In "not ok 1 …" a second boundary lies before "ok": it is none.
        if place > own and not text.startswith("not ", place - 4):
            yield text[start:place]
            start, own = place, _lead_end(text, place)
    yield text[start:]


def _lead_end(text: str, start: int) -> int:
    """Where a line that begins at `start` has its first word."""
    prefix = _PREFIX.match(text, start)
    blank = _BLANK.match(text, prefix.end() if prefix else start)
    return blank.end() if blank else start


def _without_prefix(text: str) -> tuple[str, bool]:
    """The message of a line, and whether the kernel wrote it."""
    prefix = _PREFIX.match(text)
    if prefix is None:
        return text, False
    message = text[prefix.end() :]
    # rsyslog's tab
    return (message.replace("#011", "\t") if message.startswith("#011") else message), True


def parse(message: str, number: int = 0) -> Line | None:
    """One line without prefix; None where KTAP does not know it."""
    ended = _END.match(message)
    if ended:
        return Line(kind=Kind.END, number=number, text=ended[1].strip())
    markers, rest = 0, message
    while True:
        body = rest.lstrip(" \t")
        line = _body(body.rstrip(), number)
        if line is not None:
            width = len(rest[: len(rest) - len(body)].expandtabs(TAB))
            return replace(line, depth=(markers, width))
        if not body.startswith(("# ", "#\t")) or markers == MOST_MARKERS:
            return None
        markers, rest = markers + 1, body[2:]


def _body(body: str, number: int) -> Line | None:
    for pattern, line in _FORMS:
        if found := pattern.match(body):
            return line(found, number)
    return None


def _version(found: re.Match[str], number: int) -> Line:
    return Line(kind=Kind.VERSION, number=number, text=found[1], count=int(found[2]))


def _subtest(found: re.Match[str], number: int) -> Line:
    return Line(kind=Kind.SUBTEST, number=number, text=(found[1] or "").strip())


def _started(found: re.Match[str], number: int) -> Line:
    return Line(kind=Kind.STARTED, number=number, text=found[1])


def _plan(found: re.Match[str], number: int) -> Line:
    skip = re.match(r"(?i)(skip)\S*\s*(.*)$", found[2] or "")
    return Line(
        kind=Kind.PLAN,
        number=number,
        count=int(found[1]),
        directive="SKIP" if skip else "",
        text=skip[2] if skip else "",
    )


def _bail(found: re.Match[str], number: int) -> Line:
    return Line(kind=Kind.BAIL, number=number, text=found[1])


def _result(found: re.Match[str], number: int) -> Line:
    name, directive, detail = _description(found[3], passed=not found[1])
    return Line(
        kind=Kind.RESULT,
        number=number,
        text=name,
        count=int(found[2]) if found[2] else None,
        passed=not found[1],
        directive=directive,
        detail=detail,
    )


def _description(text: str, *, passed: bool) -> tuple[str, str, str]:
    """Name, directive and detail of a result line, from what follows its number."""
    text = re.sub(r"^-(?:\s+|$)", "", text)
    separator = _SEPARATOR.search(text)
    found = _DIRECTIVE.search(text)
    word = next(filter(None, found.groups()[:-1]), "") if found else ""
    # kselftest writes "not ok 3 # error name"; behind an "ok" a small word is just a word.
    if found and not (passed and word in ("timeout", "error")):
        first = min(found.start(), separator.start() if separator else found.start())
        name, directive, detail = text[:first], word.upper(), found.groups()[-1]
        if not name.strip():
            name, detail = detail, ""
    elif separator:
        name, directive, detail = text[: separator.start()], "", text[separator.end() :]
    else:
        name, directive, detail = text, "", ""
    return name.strip().replace("\\#", "#"), directive, detail.strip()


_FORMS = (
    (_RESULT, _result),
    (_VERSION, _version),
    (_SUBTEST, _subtest),
    (_STARTED, _started),
    (_PLAN, _plan),
    (_BAIL, _bail),
)
