"""Reports that are no news: a scenario's expected ones, and a file of known issues.

    [[issue]]
    title = "WARNING in ring_.*"        # a regular expression for the whole title,
    # fingerprint = "0f3b9c2a7d51e846"  # or the fingerprint of a finding: one of the two
    note = "ring: warns with more than 64 CPUs, https://example.org/123"
    expires = 2027-03-31                # the last day on which it counts
    workload = "hackbench"              # only there; every workload by default
    architecture = "x86_64"

A finding that matches is marked and stays where it is: nothing is hidden. Pure but for `read`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import schema
from pipeline.errors import UserError
from pipeline.model import Expected, Finding

KEY = "issue"
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


class Seen(NamedTuple):
    """A finding and where it was made. `workload`: the cell's label."""

    finding: Finding
    workload: str
    architecture: str


def read(path: Path) -> tuple[Expected, ...]:
    """The issues of a file, in their order.

    Raises:
        UserError: it is not there, no TOML, or has an issue that cannot match anything.
    """
    tables = schema.load(path)
    for key in tables:
        if key != KEY:
            raise UserError(f"{path}: unknown key “{key}”", hint=schema.nearest(key, [KEY]))
    issues = tables.get(KEY, [])
    if not isinstance(issues, list) or not all(isinstance(each, dict) for each in issues):
        raise UserError(f"{path}: {KEY}: expected tables, each under [[{KEY}]]")
    return tuple(
        _issue(each, where=f"{path}: {KEY}[{number}]", origin=str(path))
        for number, each in enumerate(issues)
    )


def checked(expected: Expected, where: str) -> Expected:
    """It as it is, if it can match anything.

    Raises:
        UserError: which key is wrong, and what was expected; `where` names file and table.
    """
    if bool(expected.fingerprint) == bool(expected.title):
        what = "both" if expected.title else "neither"
        raise UserError(
            f"{where}: {what} of “fingerprint” and “title”",
            hint="expected one of the two, as `ktrial console` and the results have them",
        )
    if expected.fingerprint and not _FINGERPRINT.fullmatch(expected.fingerprint):
        raise UserError(
            f"{where}: fingerprint: expected 16 hexadecimal digits, not {expected.fingerprint!r}"
        )
    try:
        re.compile(expected.title)
    except re.error as error:
        raise UserError(
            f"{where}: title: {expected.title!r} is no regular expression: {error}",
            hint=r"put a \ before ( ) [ ] + * ? . that stand for themselves",
        ) from error
    if expected.expires and _day(expected.expires) is None:
        raise UserError(f"{where}: expires: expected a day (YYYY-MM-DD), not {expected.expires!r}")
    if not expected.note.strip():
        raise UserError(f"{where}: note: expected why this is no news, or where it is discussed")
    return expected


def is_expired(expected: Expected, today: datetime.date) -> bool:
    """Whether its last day is past."""
    day = _day(expected.expires)
    return day is not None and today > day


def expired(expected: Iterable[Expected], today: datetime.date) -> tuple[str, ...]:
    """What is to be said of those that match nothing any more."""
    return tuple(
        f"{each.origin}: “{each.note}” has expired on {each.expires} and matches nothing any more"
        for each in expected
        if is_expired(each, today)
    )


def matches(expected: Expected, seen: Seen, today: datetime.date) -> bool:
    """Whether the finding is the one that is expected, there and on that day."""
    if is_expired(expected, today):
        return False
    if expected.workload not in ("", seen.workload):
        return False
    if expected.architecture not in ("", seen.architecture):
        return False
    if expected.fingerprint:
        return expected.fingerprint == seen.finding.fingerprint
    return bool(expected.title and re.fullmatch(expected.title, seen.finding.title))


def mark(
    findings: Iterable[Finding],
    expected: Sequence[Expected],
    *,
    workload: str,
    architecture: str,
    today: datetime.date,
) -> tuple[Finding, ...]:
    """The findings, with the note of the first that matches in `known`."""
    return tuple(
        replace(finding, known=_note(Seen(finding, workload, architecture), expected, today))
        for finding in findings
    )


def _note(seen: Seen, expected: Iterable[Expected], today: datetime.date) -> str:
    return next((each.note for each in expected if matches(each, seen, today)), "")


def _issue(table: Mapping[str, Any], *, where: str, origin: str) -> Expected:
    # TOML has days of its own, and most people will write one.
    plain = {
        key: value.isoformat() if type(value) is datetime.date else value
        for key, value in table.items()
    }
    return checked(schema.build(Expected, plain, where=where, filled={"origin": origin}), where)


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None
