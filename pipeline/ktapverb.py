"""`ktrial ktap FILE|-`: somebody's KTAP or TAP, read and told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from pipeline import incoming, ktap, text
from pipeline.errors import UserError
from pipeline.ktap import Report, Status
from pipeline.scope import Scope


def examine(source: str, *, as_json: bool, scope: Scope) -> tuple[int, str]:
    """The exit code and what to print: 0 where nothing is wrong, 1 where something is.

    `source` is a file, or - for standard input. Raises UserError (exit 2) where it cannot be
    read or holds no KTAP, Cancelled where Ctrl-C ended the wait for it.
    """
    report = ktap.parse(_lines(incoming.chunks(source, scope)))
    if not report.found:
        raise UserError(
            f"{incoming.name(source)}: there is no KTAP in it: no version line, no plan, no result",
            hint="KTAP begins with a line such as “KTAP version 1”; "
            "`ktrial console` reads a log without it",
        )
    return (0 if report.good else 1), (render_json(report) if as_json else render(report))


def render_json(report: Report) -> str:
    """`cases`, `plan`, `complete`, `problems`, and the `documents` that they are from."""
    whole = {
        "cases": [
            {
                "name": case.name,
                "status": case.status.value,
                "line": case.line,
                "detail": case.detail,
                "said": list(case.said),
            }
            for case in report.cases
        ],
        "plan": report.plan,
        "complete": report.complete,
        "problems": list(report.problems),
        "documents": [
            {
                "line": each.line,
                "version": each.version,
                "plan": each.plan,
                "complete": each.complete,
            }
            for each in report.documents
        ],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def render(report: Report) -> str:
    """A line for each case and each problem, and their sum."""
    lines: list[str] = []
    for case in report.cases:
        why = f"  # {case.detail}" if case.detail else ""
        lines += [
            f"{case.status.value:8} {case.name}{why}",
            *(f"           {x}" for x in case.said),
        ]
    lines += [f"problem  {words}" for words in report.problems]
    return text.clean("\n".join([*lines, _sum(report)]) + "\n")


def _sum(report: Report) -> str:
    counts = Counter(case.status for case in report.cases)
    parts = [f"{counts[status]} {status.value}" for status in Status if counts[status]]
    count = len(report.cases)
    tests = f"{count} test{'s' * (count != 1)}" + (f": {', '.join(parts)}" if parts else "")
    return "; ".join([tests, "complete" if report.complete else "incomplete"])


# ------------------------------------------------------------------------- reading


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    pieces: list[bytes] = []  # of the line that has not ended yet, which may be huge
    for chunk in chunks:
        head, *lines = chunk.split(b"\n")
        pieces.append(head)
        for line in lines:
            yield b"".join(pieces)
            pieces = [line]
    if any(pieces):
        yield b"".join(pieces)
