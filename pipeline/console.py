"""What the kernel itself reports on its console: an incremental classifier.

Patterns are data (`pipeline/data/console/*.toml`, one file per family). Console bytes
may be cut anywhere and may hold NULs, invalid UTF-8, escape sequences and carriage
returns. Pure but for
`read_families`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pipeline import schema
from pipeline.model import Finding

LONGEST_LINE = 4096
EXCERPT_LINES = 60
# Lines behind a report's first one that may still name its function, or be its panic.
REPORT_LINES = 120

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>cM78])")
# printk's prefix, behind whatever a program wrote without ending its line.
_PREFIX = re.compile(r".*?\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ?|(?:<\d+>)?(?:\[ *\d+\.\d+\] ?)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """`regex` is matched at the start of a message; `title` may name its groups.

    `consequence`: says what an earlier report led to, and starts one only where there is none.
    """

    regex: str
    title: str
    consequence: bool = False
    fatal: bool | None = None  # None: as its family


@dataclass(frozen=True, kw_only=True)
class Family:
    """pipeline/data/console/NAME.toml: one kind of report.

    `order`: families with lower numbers are tried first. `where`: regexes whose group
    `where` names the function at fault, in the lines of the report.
    """

    name: str
    description: str
    kind: str
    fatal: bool
    order: int
    patterns: tuple[Pattern, ...]
    where: tuple[str, ...] = ()


@dataclass
class _Report:
    family: Family
    title: str
    line: int
    fatal: bool
    where: str = ""
    lines: list[str] = field(default_factory=list)
    last: int = 0
    closed: bool = False
    count: int = 1

    def finding(self) -> Finding:
        return Finding(
            kind=self.family.kind,
            title=f"{self.title} in {self.where}" if self.where else self.title,
            line=self.line,
            excerpt="\n".join(self.lines),
            fatal=self.fatal,
            count=self.count,
        )


def read_families(folder: Path) -> tuple[Family, ...]:
    """All families of a folder. The only function here that reads files."""
    return tuple(
        schema.read(path, Family, name=path.stem) for path in sorted(folder.glob("*.toml"))
    )


@lru_cache(maxsize=1024)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


def message(line: str) -> str:
    """A console line without escapes, control characters and printk's prefix."""
    return _text(clean(line))


def _text(line: str) -> str:
    prefix = _PREFIX.match(line)
    return line[prefix.end() if prefix else 0 :].strip()


def clean(line: str) -> str:
    """A console line as a person would see it."""
    return _CONTROL.sub("", _ESCAPES.sub("", line))


def first_cause(findings: Sequence[Finding]) -> Finding | None:
    """The report that the guest broke by: the first fatal one; a panic belongs to its oops."""
    return next((each for each in findings if each.fatal), None)


class Classifier:
    """Feed it the console as it comes; it knows what was reported so far.

    Same reports (kind and title) are counted, not repeated.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = sorted(families, key=lambda family: (family.order, family.name))
        self._partial = b""
        self._number = 0
        self._reports: list[_Report] = []
        self.last_line = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """In the order in which they began."""
        merged: dict[tuple[str, str], Finding] = {}
        for report in self._reports:
            finding = report.finding()
            key = (finding.kind, finding.title)
            known = merged.get(key)
            merged[key] = _again(known, finding) if known else finding
        return tuple(merged.values())

    @property
    def broken(self) -> bool:
        """Whether a fatal report was seen."""
        return any(report.fatal for report in self._reports)

    def feed(self, data: bytes) -> list[Finding]:
        """Take more of the console; reports that began in it, as far as they are known."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > LONGEST_LINE:
            lines.append(self._partial)
            self._partial = b""
        return self._take(lines)

    def finish(self) -> list[Finding]:
        """No more will come: the last line counts although it has no end."""
        rest, self._partial = self._partial, b""
        return self._take([rest] if rest else [])

    def _take(self, lines: list[bytes]) -> list[Finding]:
        before = len(self._reports)
        for raw in lines:
            self._number += 1
            self._line(clean(raw.decode("utf-8", errors="ignore")))
        return [report.finding() for report in self._reports[before:]]

    def _line(self, line: str) -> None:
        text = _text(line)
        if not text:
            return
        self.last_line = line.strip()
        matched = self._match(text)
        current = self._current()
        if matched is None:
            if current:
                self._continue(current, line, text)
            return
        family, pattern, title = matched
        fatal = family.fatal if pattern.fatal is None else pattern.fatal
        if current and self._belongs(current, family, pattern):
            current.fatal = current.fatal or fatal
            self._continue(current, line, text)
            return
        report = _Report(family=family, title=title, line=self._number, fatal=fatal)
        self._reports.append(report)
        self._continue(report, line, text)

    def _match(self, text: str) -> tuple[Family, Pattern, str] | None:
        for family in self._families:
            for pattern in family.patterns:
                found = _compiled(pattern.regex).match(text)
                if found:
                    return family, pattern, _title(pattern.title, found.groupdict())
        return None

    def _current(self) -> _Report | None:
        """The report to which a line may belong: the last one, as long as it is near."""
        if not self._reports:
            return None
        last = self._reports[-1]
        return last if self._number - last.line <= REPORT_LINES else None

    def _belongs(self, current: _Report, family: Family, pattern: Pattern) -> bool:
        if self.broken:  # whatever a broken kernel reports follows from the first cause
            return True
        return pattern.consequence or (family is current.family and not current.closed)

    def _continue(self, report: _Report, line: str, text: str) -> None:
        if len(report.lines) < EXCERPT_LINES:
            report.lines.append(line.rstrip())
        if not report.where and not report.closed:
            report.where = _where(report.family, text)
        if text.startswith("---[ end"):
            report.closed = True


def _again(known: Finding, other: Finding) -> Finding:
    return Finding(
        kind=known.kind,
        title=known.title,
        line=known.line,
        excerpt=known.excerpt,
        fatal=known.fatal or other.fatal,
        count=known.count + other.count,
    )


def _title(template: str, groups: Mapping[str, str | None]) -> str:
    """`template` with the groups in place, without what differs from boot to boot."""
    title = template.format_map({name: value or "" for name, value in groups.items()})
    title = re.sub(r"\b(?:0x)?[0-9a-f]{8,16}\b", "ADDR", title)
    return re.sub(r"\s+", " ", title).strip()


def _where(family: Family, text: str) -> str:
    for regex in family.where:
        found = _compiled(regex).search(text)
        if found:
            # Compilers add suffixes to clones of a function; they say nothing of the fault.
            return re.sub(r"\.(?:part|isra|constprop|cold|llvm)\b[.\d]*", "", found["where"])
    return ""
