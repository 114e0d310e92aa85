"""One report of the kernel on its console: what belongs to it, its title, its excerpt. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from pipeline import fingerprint, splat
from pipeline.consoleline import Line, decode, lines
from pipeline.consolepatterns import Match, Patterns, compiled
from pipeline.model import Finding

EXCERPT_LINES = 80
REPORT_LINES = 400  # a report's lines; lockdep's chains and stalls of many CPUs are long
REPORT_BYTES = 32768
DETAIL_LINES = 40  # in which what completes the title stands
LONGEST_LINE = 512  # in an excerpt
LEAD_LINES = 12  # before its first line, with what led to it

# Where a report is found differs each time for these: the title alone tells them apart.
_ANYWHERE = {"hang", "panic", "oom", "program", "reboot", "boot"}
# What is still of a report: its frames, registers, rules, and what the kernel says of itself.
_OF_REPORT = re.compile(
    r"---\[ end |={20}|-{20}|Kernel panic - |Code: |Call [Tt]race|"
    r"\s+(?:<[A-Z/]+>\s*)?(?:\[<.*>\] )?(?:\? )?[\w.$]+\+0x|"
    r"[RE]?[A-Z][A-Z0-9]{1,2}: [0-9a-f]{8}|R\d\d: |x\d+ ?: |"
    r"Kernel Offset|Modules linked in|CPU: \d+|RIP: |Hardware name"
)
# Between such a line and a report stands what it is about: the words of a WARN, a broken list.
_CUT_HERE = re.compile(r"-+\[ cut here \]-+$")
_RULE = re.compile(r"={20,}$")
_ENDS = re.compile(r"---\[ end |Kernel Offset|Rebooting in|\s+(?:\? )?[\w.$]+\+0x")
# What is said without such a line.
_LEADS = re.compile(
    r"(?:usercopy: )?Kernel memory \w+ attempt|(?:\w+: )?detected buffer overflow"
    r"|list_\w+ corruption|refcount_t: |ODEBUG: |kasan: |KASAN: |traps: Missing"
    r"|\w+: Corrupted page table|kernel tried to execute|Kernel attempted to|8<--- cut here ---"
)
_LAST = re.compile(r"---\[ end (?:trace|Kernel panic)")
_ALL_CPUS = re.compile(r"Sending NMI from CPU|NMI backtrace for cpu")


class Body:
    """A report's lines, those of its caller only, read no further than somebody asks."""

    def __init__(self, header: Line, raw: bytes) -> None:
        self._known = [header]
        self._more = self._read(header.context, raw)

    def __iter__(self) -> Iterator[Line]:
        yield from self._known
        for line in self._more:
            self._known.append(line)
            yield line

    def texts(self) -> Iterator[str]:
        return (line.text for line in self)

    @staticmethod
    def _read(context: str, raw: bytes) -> Iterator[Line]:
        every_cpu = False
        for line in islice(lines(decode(raw)), 1, REPORT_LINES):
            every_cpu = every_cpu or bool(_ALL_CPUS.match(line.text))
            # What comes before the kernel has a clock has no stamp.
            early = context == "" and line.context == "console"
            if line.context == context or early or (every_cpu and line.context[:1] == "C"):
                yield line


@dataclass(eq=False)
class Report:
    """`match`: its first line, `header` that line's reading. `raw`: from there, as it came."""

    match: Match
    header: Line
    line: int
    fatal: bool
    offset: int = 0  # where its text begins in the block that is being read
    raw: bytearray = field(default_factory=bytearray)
    lead: bytes = b""  # what came before it, with its last whole lines
    key: tuple[str, str] = ("", "")  # of its finding, as soon as that is known

    @property
    def kind(self) -> str:
        return self.match.family.kind

    @property
    def full(self) -> bool:
        return len(self.raw) >= REPORT_BYTES

    def add(self, block: bytes) -> None:
        """More of the console; what is beyond a report's length is left."""
        self.raw += block[: REPORT_BYTES - len(self.raw)]

    def title(self, patterns: Patterns) -> str:
        return self._title(self._body(), patterns)

    def finding(self, patterns: Patterns) -> Finding:
        """What is known of it so far."""
        body = self._body()
        title = self._title(body, patterns)
        frames = () if self.kind in _ANYWHERE else splat.top_frames(body.texts, patterns.skips)
        return Finding(
            kind=self.kind,
            title=title,
            line=self.line,
            excerpt=self._excerpt(body),
            fatal=self.fatal,
            fingerprint=fingerprint.fingerprint(self.kind, title, frames),
        )

    def _body(self) -> Body:
        end = self.raw.rfind(b"\n") + 1 if self.full else len(self.raw)
        return Body(self.header, bytes(self.raw[:end]))

    def _title(self, body: Body, patterns: Patterns) -> str:
        pattern, words = self.match.pattern, self.match.groups
        groups = {"function": "", **{name: fingerprint.stable(words[name]) for name in words}}
        for detail in pattern.details:
            regex = compiled(detail)
            groups.update({name: "" for name in regex.groupindex if name not in groups})
            texts = islice(body.texts(), 1, DETAIL_LINES)
            found = next((f for text in texts if (f := regex.search(text))), None)
            if found:
                groups.update({name: part or "" for name, part in found.groupdict().items()})
        if pattern.places:
            groups["function"] = splat.function_at_fault(
                pattern.search, words.get("function", ""), body.texts, patterns.skips
            )
        return fingerprint.title(pattern.title, groups)

    def _excerpt(self, body: Body) -> str:
        shown: list[Line] = []
        last = 1
        for line in islice(body, EXCERPT_LINES):
            shown.append(line)
            if self.fatal or _OF_REPORT.match(line.text):
                last = len(shown)
                if not self.fatal and _LAST.match(line.text):
                    break
        return "\n".join(map(_shown, [*self._led(), *shown[:last]])).rstrip()

    def _led(self) -> list[Line]:
        """The lines before the first one that belong to the report."""
        near = [each for each in lines(decode(self.lead)) if each.context == self.header.context]
        found: list[Line] = []
        sure = 0
        for line in reversed(near[-LEAD_LINES:]):
            found.append(line)
            if _CUT_HERE.match(line.text) or (_RULE.match(line.text) and len(found) == 1):
                return found[::-1]
            if _ENDS.match(line.text) or self.match.family.kind == "reboot":
                break
            if _LEADS.match(line.text) and sure == len(found) - 1:
                sure = len(found)
        return found[:sure][::-1]


def _shown(line: Line) -> str:
    stamp = f"[{line.stamp:>12}] " if line.stamp else ""
    return f"{stamp}{line.text}"[:LONGEST_LINE]
