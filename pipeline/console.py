"""What the kernel itself reports on its console: an incremental classifier.

Patterns are data (`pipeline/data/console/*.toml`, one file per family). Console bytes
may be cut anywhere and may hold NULs, invalid UTF-8, escape sequences and carriage
returns. Pure.

A kernel's line into which a program's output came in its middle is read from its time stamp
on; one whose own words were torn apart is not put together again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipeline.bootwatch import BootWatch
from pipeline.consoleline import Line, clean, decode, message, readings
from pipeline.consolepatterns import SUBTEST, Family, Match, Pattern, Patterns, read_families
from pipeline.consolereport import REPORT_BYTES, REPORT_LINES, Report
from pipeline.model import Finding

__all__ = ["Classifier", "Family", "clean", "first_cause", "message", "read_families"]

LONGEST_LINE = 65536  # of a longer one only the beginning is read
# Lines behind a report's first one in which its consequences are looked for.
NEAR_LINES = 400
FOLLOW_LINES = 60  # in which an exception belongs to the report before it
MOST_OPEN = 8
MOST_FINDINGS = 1000  # further titles are not kept
LEAD_BYTES = 2048  # before a report's first line, in which what led to it is looked for

_END = b"---[ end trace"
_REBOOT = Family(name="reboot", description="", kind="reboot", fatal=True)


def first_cause(findings: Sequence[Finding]) -> Finding | None:
    """The report that the guest broke by: the first fatal one; a panic belongs to its oops."""
    return next((each for each in findings if each.fatal), None)


class Classifier:
    """Feed it the console as it comes; it knows what was reported so far.

    Same reports (kind and title) are counted, not repeated.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self._patterns = Patterns(families)
        self._partial = b""
        self._dropping = False  # inside the rest of a line that is too long
        self._tail = b""  # the last line that says something
        self._before = b""  # what came before this block
        self._open: list[Report] = []
        self._closed: dict[tuple[str, str], Finding] = {}
        self._last: Report | None = None
        self._ruined = False  # whether this boot had a fatal report
        self._suite: re.Pattern[bytes] | None = None  # the end of a suite that provokes reports
        self._provoker = ""  # the name of the suite that is or was the last one
        self._provoked = 0  # the offset in this block up to which its reports are provoked
        self.boots = BootWatch()
        self.broken = False  # whether a fatal report was seen
        self.lines = 0  # how many were read
        self.complete = True  # whether the last line had an end

    @property
    def findings(self) -> tuple[Finding, ...]:
        """In the order in which they began."""
        merged = dict(self._closed)
        for report in self._open:
            _merge(merged, report.finding(self._patterns))
        return tuple(sorted(merged.values(), key=lambda each: each.line))

    @property
    def last_line(self) -> str:
        """The last line that is not empty, as far as it has come, nor words of the harness."""
        for raw in reversed((self._tail + self._partial).split(b"\n")):
            line = decode(raw).strip()
            if line and not self._patterns.noise.match(line):
                return line
        return ""

    def feed(self, data: bytes) -> None:
        """Take more of the console."""
        if self._dropping:
            end = data.find(b"\n")
            if end < 0:
                return
            data, self._dropping = data[end:], False
        data = self._partial + data if self._partial else data
        end = data.rfind(b"\n") + 1
        self._dropping = len(data) - end > LONGEST_LINE
        self._partial = data[end : end + LONGEST_LINE]
        if end:
            self._take(_trimmed(data[:end]))

    def finish(self) -> None:
        """No more will come: the last line counts although it has no end."""
        rest, self._partial, self._dropping = self._partial, b"", False
        self.complete = not rest.strip()
        if rest:
            self._take(rest + b"\n")

    def _take(self, block: bytes) -> None:
        """Whole lines."""
        for report in self._open:
            report.offset = 0
        self._await_suite(block, 0)
        self._scan(block)
        for report in self._open:
            report.add(block[report.offset :])
        self.lines += block.count(b"\n")
        self._remember(block)
        self._before = (self._before + block[-LEAD_BYTES:])[-LEAD_BYTES:]
        for report in [each for each in self._open if self._is_over(each)]:
            self._close(report)

    def _scan(self, block: bytes) -> None:
        position = counted = heard = 0
        number = self.lines + 1
        for place in self._patterns.triggers(block):
            if place < position:
                continue
            start = block.rfind(b"\n", 0, place) + 1
            position = block.index(b"\n", place)
            raw = block[start:position]
            signed = self._patterns.may_be_sign(raw)
            # Whatever a broken kernel reports follows from the first cause: only its next
            # start is of interest.
            if self._ruined and not signed:
                continue
            number += block.count(b"\n", counted, start)
            counted = start
            for line in readings(decode(raw)):
                stage = self._patterns.stage(line.text) if signed else ""
                if stage:
                    self.boots.heard(block[heard:start], self._patterns)
                    heard = start
                    self._boot(stage, line, number, block, start)
                if stage or self._ruined or self._tried(line, number, block, start):
                    break
        self.boots.heard(block[heard:], self._patterns)

    def _boot(self, stage: str, line: Line, number: int, block: bytes, start: int) -> None:
        starts = self.boots.starts
        title = self.boots.sign(stage)
        if self.boots.starts > max(starts, 1):
            if title and not self._ruined:
                pattern = Pattern(literal="", regex="", title=title)
                reboot = Match(family=_REBOOT, pattern=pattern, groups={})
                self._begin(reboot, line, number, block, start)
            self._ruined, self._last = False, None
            self._suite, self._provoked = None, 0  # it went with the kernel that ran it

    def _tried(self, line: Line, number: int, block: bytes, start: int) -> bool:
        """Whether the line is one of a report, or of a suite that provokes some."""
        text = line.text.strip()
        if text.startswith(SUBTEST):
            self._begin_suite(text.removeprefix(SUBTEST), block, start)
            return True
        match = self._patterns.match(text)
        if match is None:
            return False
        if start < self._provoked and self._provoker in match.family.suites:
            return True
        if self._last and self._follows(self._last, match, line, number, block[:start]):
            self._aggravate(self._last, match.fatal)
            return True
        for report in [each for each in self._open if each.header.context == line.context]:
            report.add(block[report.offset : start])
            self._close(report)
        self._begin(match, line, number, block, start)
        return True

    def _follows(self, last: Report, match: Match, line: Line, number: int, before: bytes) -> bool:
        """Whether the report that begins there is a consequence of the last one."""
        away = number - last.line
        if match.pattern.consequence:
            return away <= NEAR_LINES
        return (
            away <= FOLLOW_LINES
            and line.context == last.header.context
            and match.family.name in last.match.family.leads
            and match.pattern is not last.match.pattern
            and _END not in self._so_far(last, before)
        )

    def _so_far(self, report: Report, before: bytes) -> bytes:
        more = before[report.offset :] if report in self._open else b""
        return (bytes(report.raw) + more)[:REPORT_BYTES]

    def _begin(self, match: Match, line: Line, number: int, block: bytes, start: int) -> None:
        report = Report(match=match, header=line, line=number, fatal=match.fatal, offset=start)
        near = block[max(start - LEAD_BYTES, 0) : start]
        report.lead = (self._before + near)[-LEAD_BYTES:]
        if len(self._open) == MOST_OPEN:
            self._close(self._open[0])
        self._open.append(report)
        self._last = report
        self._aggravate(report, match.fatal)

    def _aggravate(self, report: Report, fatal: bool) -> None:
        """What followed from a report may make it fatal."""
        if fatal:
            report.fatal = self._ruined = self.broken = True
            known = self._closed.get(report.key)
            if known:
                self._closed[report.key] = replace(known, fatal=True)

    def _close(self, report: Report) -> None:
        self._open.remove(report)
        report.key = (report.kind, report.title(self._patterns))
        known = self._closed.get(report.key)
        if known:
            fatal = known.fatal or report.fatal
            self._closed[report.key] = replace(known, fatal=fatal, count=known.count + 1)
        elif len(self._closed) < MOST_FINDINGS:
            self._closed[report.key] = report.finding(self._patterns)

    def _is_over(self, report: Report) -> bool:
        return report.full or self.lines - report.line > REPORT_LINES

    def _begin_suite(self, name: str, block: bytes, start: int) -> None:
        if name in self._patterns.suites and start >= self._provoked:
            end = rb"(?m)^.*\bok \d+ (?:- )?" + re.escape(name.encode()) + rb"\s*(?:#.*)?$"
            self._suite, self._provoker = re.compile(end), name
            self._await_suite(block, start)

    def _await_suite(self, block: bytes, start: int) -> None:
        """How far the reports of this block are provoked."""
        self._provoked = 0
        if self._suite:
            end = self._suite.search(block, start)
            self._provoked = end.start() if end else len(block) + 1
            self._suite = None if end else self._suite

    def _remember(self, block: bytes) -> None:
        kept = block.rstrip()
        while kept:
            start = kept.rfind(b"\n") + 1
            if not self._patterns.noise.match(decode(kept[start:]).lstrip()):
                self._tail = kept[start:] + b"\n"
                return
            kept = kept[:start].rstrip()


def _merge(merged: dict[tuple[str, str], Finding], finding: Finding) -> None:
    key = (finding.kind, finding.title)
    known = merged.get(key)
    if known:
        finding = replace(
            known, fatal=known.fatal or finding.fatal, count=known.count + finding.count
        )
    merged[key] = finding


def _trimmed(block: bytes) -> bytes:
    """Whole lines, each with no more than its beginning."""
    at = 0
    while len(block) - at > LONGEST_LINE:
        end = block.rfind(b"\n", at, at + LONGEST_LINE + 1)
        if end < 0:
            end = at + LONGEST_LINE
            block = block[:end] + block[block.index(b"\n", end) :]
        at = end + 1
    return block
