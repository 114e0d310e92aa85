"""The text of a mail taken apart: headers of its own, the message, and the patch that is meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline import diffstat, difftext, patchcut
from pipeline.difftext import FileDiff
from pipeline.mail import decode, parse_address
from pipeline.model import Diffstat
from pipeline.patchcut import Cut
from pipeline.scissors import is_scissors

INBODY = re.compile(r"^(From|Subject|Date):[ \t]*(.*)$", re.I)
ANY_HEADER = re.compile(r"^[A-Za-z][A-Za-z-]*:[ \t]")
FROM_COMMIT = re.compile(r"^>?From [0-9a-f]{7,64}(?: .*)?$")
SHOWN_COMMIT = re.compile(r"^commit [0-9a-f]{7,64}\b")
SHOWN_HEADER = re.compile(r"^(Author|AuthorDate|Date|Commit|CommitDate|Merge|Refs):\s*(.*)$")
SIGNED_OFF = re.compile(r"^\s*Signed-off-by: ", re.M)
BASE = re.compile(r"^(base-commit|prerequisite-(?:patch|change|message)-id):\s*(\S+)")
WROTE = re.compile(r"(?:wrote|writes|schrieb|a écrit|escribió|написал\S*|写道)\s*[::]\s*$", re.I)
OUTLOOK = re.compile(r"^(?:Sent: |-+ ?(?:Original|Forwarded) [Mm]essage)")
# The author below a preface, and what a notice has around a patch that is somebody else's.
INNER_AUTHOR = re.compile(r"(?:^|\n)(?:\n|-{5,}\n)From: ([^\n]*<[^<>\s]+@[^<>\s]+>)\n(?=\n)")
FORWARDED = re.compile(
    r"^(?:>?From [0-9a-f]{40} Mon Sep 17 00:00:00 2001|Commit-ID: +[0-9a-f]{12,64}"
    r"|From: .*@.*\n(?:[A-Z][A-Za-z-]*: .*\n)*Subject: .*)$",
    re.M,
)
STABLE_REVIEW = re.compile(r"^\S+-stable review patch\.")
PGP, PGP_END = "-----BEGIN PGP SIGNED MESSAGE-----", "-----BEGIN PGP SIGNATURE-----"


@dataclass(frozen=True, kw_only=True)
class Own:
    """What a text says itself of its author and subject; "" where it does not.

    `form`: "headers" (of a mail, in the body), "commit" (a From line with a commit and a mail
    behind it), "show" (the output of `git show`), or "" for none. `start`: where the message is.
    """

    sender: str = ""
    subject: str = ""
    date: str = ""
    form: str = ""
    start: int = 0


@dataclass(frozen=True, kw_only=True)
class PatchText:
    """`separated`: a "---" line stands between message and diff. `quotes`: it answers a mail.

    `cut_at_scissors`: only what is under them counts. `base`: the trailers of
    `format-patch --base` (key, value). `damage`: why the patch cannot be trusted.
    `inner_author`: whom the message names further down, "" for nobody.
    """

    own: Own
    message: str
    diffs: tuple[FileDiff, ...] = ()
    claimed: Diffstat | None = None
    cut_at_scissors: bool = False
    separated: bool = False
    quotes: bool = False
    base: tuple[tuple[str, str], ...] = ()
    damage: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def signed_off(self) -> bool:
        return bool(SIGNED_OFF.search(self.message))

    @property
    def inner_author(self) -> str:
        found = INNER_AUTHOR.search(f"\n{self.message}")
        return found[1] if found else ""

    @property
    def forwards(self) -> bool:
        """Whether the message goes on to another mail or commit: the patch is of that."""
        return bool(FORWARDED.search(self.message))

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(diff.path for diff in self.diffs))

    @property
    def diff(self) -> str:
        """The diff alone, each line ended; "" where there is none."""
        return "".join(f"{line}\n" for each in self.diffs for line in each.lines)


def parse(text: str) -> PatchText:
    """Take a mail's text apart. Whether it is meant as a patch is for others to say."""
    lines = _unsigned(text.removesuffix("\n").split("\n"))
    start, damage = _under_scissors(lines)
    below = lines[start:]
    found = patchcut.cut(below)
    own = _own(below[: found.end], scissors=start > 0)
    message = _message(below, own, found)
    signed = bool(SIGNED_OFF.search("\n".join(message)))
    problems = [*_hide_breaks(message, found), *_take_nuls(message)]
    if found.quoted and not problems:
        problems.append("its text quotes a diff beside the patch: that is passed over")
    problems += [why for diff in found.diffs for why in diff.doubts]
    if difftext.tabs_lost(found.diffs):
        problems.append(
            f"this looks like {difftext.WHITESPACE}: the diff has no tabs, or has odd spaces, "
            "where kernel code has tabs"
        )
    if any("\0" in line for diff in found.diffs for line in diff.lines):
        damage = (*damage, "there is a NUL byte in its diff")
    return PatchText(
        own=own,
        message="\n".join(message).strip("\n"),
        diffs=found.diffs,
        claimed=diffstat.parse(below[found.end : found.first]) if found.diffs else None,
        cut_at_scissors=start > 0,
        separated=found.separated,
        quotes=_quotes(below[: found.first], formed=found.separated and signed),
        base=_base(below, found.diffs),
        damage=(*damage, *(why for diff in found.diffs for why in diff.damage), *found.damage),
        problems=tuple(problems),
    )


def _unsigned(lines: list[str]) -> list[str]:
    """Without the armour of an inline PGP signature and its escapes ("- " before a dash)."""
    if PGP not in (line.rstrip() for line in lines[:20]):
        return lines
    start = next(at for at, line in enumerate(lines) if line.rstrip() == PGP)
    while start < len(lines) and lines[start].strip():
        start += 1
    ends = [at for at, line in enumerate(lines) if line.rstrip() == PGP_END]
    return [line.removeprefix("- ") for line in lines[start + 1 : ends[0] if ends else None]]


# --------------------------------------------------------------------------- scissors


def _under_scissors(lines: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """The line after the scissors that count, 0 where none do, and what is wrong with them.

    Those count that stand before a patch; a message that has its sign-off above them only
    mentions them.
    """
    marks = [
        at for at, line in enumerate(lines) if line[:1] not in {">", "+"} and is_scissors(line)
    ]
    if not marks:
        return 0, ()
    diffs = difftext.scan(lines)
    inside = {at for diff in diffs if not diff.damage for at in range(diff.start, diff.end)}
    marks = [at for at in marks if at not in inside]
    after = [diff.start for diff in diffs if marks and diff.start > marks[0]]
    if not after:
        return 0, ()
    start = max(at for at in marks if at < after[0]) + 1
    above, below = "\n".join(lines[:start]), "\n".join(lines[start : after[0]])
    if SIGNED_OFF.search(above) and not SIGNED_OFF.search(below):
        return 0, ()
    again = [at for at in marks if at > after[0]]
    if again and after[-1] > again[0]:
        return start, ("there are several patches under scissors in one mail",)
    return start, ()


# --------------------------------------------------------------------------- own headers


def _own(lines: Sequence[str], *, scissors: bool) -> Own:
    at = 0
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at == len(lines):
        return Own()
    if STABLE_REVIEW.match(lines[at]):
        return _reviewed(lines, at, scissors=scissors)
    if SHOWN_COMMIT.match(lines[at]):
        return _shown(lines, at + 1)
    if FROM_COMMIT.match(lines[at]) and at + 1 < len(lines) and ANY_HEADER.match(lines[at + 1]):
        return _headers(lines, at + 1, form="commit", scissors=scissors)
    return _headers(lines, at, form="headers", scissors=scissors)


def _reviewed(lines: Sequence[str], at: int, *, scissors: bool) -> Own:
    """Behind the preface and the line of dashes of a review of a stable kernel."""
    rules = [n for n in range(at, min(at + 8, len(lines))) if re.match(r"^-{6,}\s*$", lines[n])]
    found = _own(lines[rules[0] + 1 :], scissors=scissors) if rules else Own(start=at)
    return replace(found, start=rules[0] + 1 + found.start) if found.sender else Own(start=at)


def _headers(lines: Sequence[str], at: int, *, form: str, scissors: bool) -> Own:
    """Headers of a mail at the start of a text, as check_inbody_header() of mailinfo.c has them.

    A From without an address is prose; so is a subject in brackets that is no header, but for
    one under scissors.
    """
    found: dict[str, str] = {}
    last = ""
    start = at
    while at < len(lines) and lines[at].strip():
        line = lines[at]
        if line[:1] in {" ", "\t"} and last:
            found[last] += f" {line.strip()}"
        elif match := INBODY.match(line):
            last = match[1].lower()
            found[last] = match[2]
        elif scissors and line.startswith("[PATCH") and "subject" not in found:
            last, found["subject"] = "subject", line
        elif form == "commit" and ANY_HEADER.match(line):
            last = "other"
            found[last] = line
        else:
            break
        at += 1
    found.pop("other", None)
    if "from" in found and not parse_address(found["from"])[1]:
        return Own(start=start)
    if not found:
        return Own(start=start)
    values = {key: decode(value).strip() for key, value in found.items()}
    return Own(
        sender=values.get("from", ""),
        subject=values.get("subject", ""),
        date=values.get("date", ""),
        form=form,
        start=at,
    )


def _shown(lines: Sequence[str], at: int) -> Own:
    """The headers of `git show` and `git log -p`; the message behind them is indented."""
    found: dict[str, str] = {}
    while at < len(lines) and (match := SHOWN_HEADER.match(lines[at])):
        found[match[1]] = match[2]
        at += 1
    first: list[str] = []
    while at < len(lines) and not lines[at].strip():
        at += 1
    while at < len(lines) and lines[at].startswith("    ") and lines[at].strip():
        first.append(lines[at].strip())
        at += 1
    return Own(
        sender=found.get("Author", ""),
        subject=" ".join(first),
        date=found.get("AuthorDate", found.get("Date", "")),
        form="show",
        start=at,
    )


# --------------------------------------------------------------------------- message


def _message(lines: Sequence[str], own: Own, found: Cut) -> list[str]:
    body = [line.rstrip("\r") for line in lines[own.start : found.end]]
    if own.form != "show":
        return body
    rest = [line for line in body if line.startswith("    ") or not line.strip()]
    return [line.removeprefix("    ") for line in rest]


def _hide_breaks(message: list[str], found: Cut) -> list[str]:
    """Indent what git am would take for the start of the patch, in place; what to say of it."""
    hits = [at for at, line in enumerate(message) if patchcut.breaks(line)]
    for at in hits:
        message[at] = f" {message[at]}"
    if not hits:
        return []
    what = "a diff" if found.quoted else f"a line like “{message[hits[0]].strip()[:40]}”"
    return [
        f"its message quotes {what}, which git am would take for the patch: "
        "it is kept, indented by one space"
    ]


def _take_nuls(message: list[str]) -> list[str]:
    if not any("\0" in line for line in message):
        return []
    message[:] = [line.replace("\0", "") for line in message]
    return ["there was a NUL byte in its message, which git does not take: it is left away"]


def _quotes(lines: Sequence[str], *, formed: bool) -> bool:
    """Whether it answers a mail: what Outlook puts there, or "… wrote:" above quoted lines.

    The message of a patch that is formed as one may quote a mail in the second way.
    """
    for at, line in enumerate(lines):
        if OUTLOOK.match(line):
            return True
        quoted = any(each.startswith(">") for each in lines[at + 1 : at + 4])
        if WROTE.search(line) and quoted and not formed:
            return True
    return False


def _base(lines: Sequence[str], diffs: Sequence[FileDiff]) -> tuple[tuple[str, str], ...]:
    inside = {at for diff in diffs for at in range(diff.start, diff.end)}
    found = [BASE.match(line) for at, line in enumerate(lines) if at not in inside]
    return tuple((match[1], match[2]) for match in found if match)
