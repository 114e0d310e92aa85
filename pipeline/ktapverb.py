"""`ktrial ktap FILE|-`: somebody's KTAP or TAP, read and told."""

from __future__ import annotations

import json
import os
import select
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline import ktap
from pipeline.errors import UserError
from pipeline.ktap import Report, Status
from pipeline.scope import Scope

STDIN = "-"
POLL_SECONDS = 0.2
CHUNK = 1 << 16


def examine(source: str, *, as_json: bool, scope: Scope) -> tuple[int, str]:
    """The exit code and what to print: 0 where nothing is wrong, 1 where something is.

    `source` is a file, or - for standard input. Raises UserError (exit 2) where it cannot be
    read or holds no KTAP, Cancelled where Ctrl-C ended the wait for it.
    """
    report = ktap.parse(_lines(_chunks(source, scope)))
    if not report.found:
        where = "standard input" if source == STDIN else source
        raise UserError(
            f"{where}: there is no KTAP in it: no version line, no plan, no result",
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
    lines = [
        f"{case.status.value:8} {case.name}" + (f"  # {case.detail}" if case.detail else "")
        for case in report.cases
    ]
    lines += [f"problem  {text}" for text in report.problems]
    return "\n".join([*lines, _sum(report)]) + "\n"


def _sum(report: Report) -> str:
    counts = Counter(case.status for case in report.cases)
    parts = [f"{counts[status]} {status.value}" for status in Status if counts[status]]
    tests = f"{len(report.cases)} tests" + (f": {', '.join(parts)}" if parts else "")
    return "; ".join([tests, "complete" if report.complete else "incomplete"])


# ------------------------------------------------------------------------- reading


def _chunks(source: str, scope: Scope) -> Iterator[bytes]:
    if source == STDIN:
        yield from _stdin(scope)
        return
    try:
        with Path(source).open("rb") as file:
            while chunk := file.read(CHUNK):
                scope.check()
                yield chunk
    except OSError as error:
        raise UserError(f"{source}: {error.strerror}", hint="give a log, or - for stdin") from error


def _stdin(scope: Scope) -> Iterator[bytes]:
    """Standard input as it comes; Ctrl-C ends the wait for more."""
    while True:
        scope.check()
        if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            chunk = os.read(sys.stdin.fileno(), CHUNK)
            if not chunk:
                return
            yield chunk


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    partial = b""
    for chunk in chunks:
        *lines, partial = (partial + chunk).split(b"\n")
        yield from lines
    if partial:
        yield partial
