"""`ktrial console FILE|-`: a console log from anywhere, read like a guest's own.

Verdicts: `faults` (the kernel reported something), `hang` (a boot that went quiet before its
first program; told by its time stamps), `truncated` (the log ends inside a line of the kernel,
where a report was to begin, or because QEMU was killed), `no-kernel` (nothing of a kernel: an
empty log, firmware only, a refused image), else `clean`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from pipeline import incoming, text
from pipeline.console import Classifier, Family
from pipeline.consoleline import split
from pipeline.model import Finding
from pipeline.scope import Scope

SHOWN_LINES = 12  # of an excerpt in the text
_CUT_HERE = "[ cut here ]"


@dataclass(frozen=True, kw_only=True)
class Account:
    """What a console log says. `starts`: how often a kernel started in it. `killed`: QEMU says that
    it was ended from outside."""

    verdict: str
    findings: tuple[Finding, ...]
    lines: int
    starts: int
    last_line: str
    killed: bool = False

    @property
    def exit_code(self) -> int:
        return 0 if self.verdict == "clean" else 1


def examine(source: str, families: Iterable[Family], scope: Scope) -> Account:
    """The account of a file, or of standard input where `source` is "-".

    Raises:
        UserError: it cannot be read.
        Cancelled: Ctrl-C ended the wait for more.
    """
    return read(incoming.chunks(source, scope), families)


def read(blocks: Iterable[bytes], families: Iterable[Family]) -> Account:
    """The account of a console that comes in blocks, cut anywhere."""
    classifier = Classifier(families)
    for block in blocks:
        classifier.feed(block)
    classifier.finish()
    findings = classifier.findings
    return Account(
        verdict=_verdict(classifier, findings),
        findings=findings,
        lines=classifier.lines,
        starts=classifier.boots.starts,
        last_line=classifier.last_line,
        killed=classifier.boots.killed,
    )


def as_json(account: Account) -> str:
    """One JSON object, indented."""
    return json.dumps(asdict(account), indent=2, ensure_ascii=False) + "\n"


def as_text(account: Account) -> str:
    """The verdict, then each finding with the beginning of its report."""
    parts = [f"{account.verdict}: {_sentence(account)}"]
    for finding in account.findings:
        times = f", {finding.count} times" if finding.count > 1 else ""
        fatal = ", fatal" if finding.fatal else ""
        parts.append(
            f"\n{finding.kind}: {finding.title}\n"
            f"  line {finding.line}{times}{fatal}, fingerprint {finding.fingerprint}"
        )
        lines = finding.excerpt.splitlines()
        parts += [f"    {line}" for line in lines[:SHOWN_LINES]]
        if len(lines) > SHOWN_LINES:
            parts.append(f"    … {len(lines) - SHOWN_LINES} more lines (--json has them)")
    return text.clean("\n".join(parts) + "\n")


def _sentence(account: Account) -> str:
    count = len(account.findings)
    last = f"the last line is: {account.last_line}"
    return {
        "clean": f"{account.lines} lines and nothing that the kernel reports as a fault",
        "faults": f"{count} different fault{'s' * (count != 1)} in {account.lines} lines",
        "hang": f"the kernel went quiet before its first program; {last}",
        "truncated": (
            f"QEMU was killed while the kernel ran; {last}"
            if account.killed
            else f"the log ends inside a message; {last}"
        ),
        "no-kernel": "there is nothing of a running kernel here"
        + (f"; {last}" * bool(account.last_line)),
    }[account.verdict]


def _verdict(classifier: Classifier, findings: tuple[Finding, ...]) -> str:
    boots = classifier.boots
    if not boots.kernel and all(each.kind == "boot" for each in findings):
        return "no-kernel"
    if findings:
        return "faults"
    last = split(classifier.last_line)
    if last.text.rstrip("-").endswith(_CUT_HERE) or (last.stamp and not classifier.complete):
        return "truncated"
    quiet = boots.banner and not boots.userspace and not boots.ended
    # At 0.000000 no time has passed: that is a log's beginning, not a kernel that waits.
    if quiet and last.stamp and float(last.stamp) > 0:
        return "hang"
    return "truncated" if boots.killed and not boots.ended else "clean"
