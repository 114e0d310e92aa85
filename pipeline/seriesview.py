"""What `ktrial series` shows of a series: as text for people, as JSON for programs. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.faithful import Commit
from pipeline.model import LeftOut, Patch
from pipeline.pathsafety import visible

SCHEMA = 1
MOST_FILES = 6  # named for one patch in the text
GITS_WORDS = re.compile(r"(?:error|fatal|warning|hint): ")


@dataclass(frozen=True, kw_only=True)
class SeriesView:
    """All that is known of a series; where there is none, `error` says why.

    `base` is a commit id, or what the mails say it is; `rule` and `base_words` tell how it was
    chosen. `applies`: None where it was not tried. `failure`: why it does not. `commits`: as
    they came out in the tree.
    """

    source: str
    name: str = ""
    version: int | None = None
    patches: tuple[Patch, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    missing: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    prerequisites: tuple[str, ...] = ()
    tree: str = ""
    base: str = ""
    rule: str = ""
    base_words: str = ""
    applies: bool | None = None
    failure: str = ""
    details: str = ""
    commits: tuple[Commit, ...] = ()
    problems: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""

    @property
    def exit_code(self) -> int:
        """0; 1 where it does not apply; 2 where there is no series to take."""
        if self.error:
            return 2
        return 1 if self.applies is False else 0


# --------------------------------------------------------------------------- JSON


def as_json(view: SeriesView) -> str:
    """One JSON object; all but ASCII is escaped, so that nothing in it acts on a terminal."""
    found = {
        "schema": SCHEMA,
        "source": view.source,
        "name": view.name,
        "version": view.version,
        "patches": [
            {
                "n": patch.number,
                "author": patch.author,
                "email": patch.email,
                "subject": patch.subject,
                "files": list(patch.files),
                "message_id": patch.message_id,
            }
            for patch in view.patches
        ],
        "left_out": [
            {
                "subject": mail.subject,
                "author": mail.author,
                "message_id": mail.message_id,
                "reason": mail.reason,
            }
            for mail in view.left_out
        ],
        "missing": list(view.missing),
        "prerequisites": list(view.prerequisites),
        "tree": view.tree or None,
        "base": view.base or None,
        "base_rule": view.rule or None,
        "base_reason": view.base_words or None,
        "applies": view.applies,
        "failure": visible(view.failure) or None,
        "details": view.details or None,
        "hint": view.hint or None,
        "commits": [
            {
                "id": commit.id,
                "author": commit.author,
                "email": commit.email,
                "subject": commit.subject,
                "files": list(commit.files),
            }
            for commit in view.commits
        ],
        "problems": _problems(view),
        "notes": [visible(each) for each in view.notes],
    }
    return json.dumps(_decoded(found), indent=2) + "\n"


def _problems(view: SeriesView) -> list[str]:
    more = [line for line in view.details.splitlines() if not GITS_WORDS.match(line)]
    told = (view.error, view.failure, *more, *view.problems)
    return list(dict.fromkeys(visible(each) for each in told if each))


def _decoded(value: object) -> object:
    """Bytes that are not UTF-8 shown as escapes: JSON has no place for them."""
    if isinstance(value, str):
        return "".join(visible(each) if "\ud800" <= each <= "\udfff" else each for each in value)
    if isinstance(value, dict):
        return {key: _decoded(each) for key, each in value.items()}
    return [_decoded(each) for each in value] if isinstance(value, list) else value


# --------------------------------------------------------------------------- text


def as_text(view: SeriesView) -> str:
    """The same for people; characters that do not show are escaped."""
    parts = (_head(view), _patches(view), _base(view), _commits(view), _rest(view))
    return "\n".join(visible(line) for part in parts for line in part) + "\n"


def _head(view: SeriesView) -> Iterator[str]:
    if view.error:
        yield f"{view.source}: no series to take"
        yield f"  {view.error}"
        if view.hint:
            yield f"  {view.hint}"
        return
    count = "1 patch" if len(view.patches) == 1 else f"{len(view.patches)} patches"
    yield f"{view.source}: v{view.version}, {count}"


def _patches(view: SeriesView) -> Iterator[str]:
    width = len(str(max((patch.number for patch in view.patches), default=0)))
    for patch in view.patches:
        yield f"  {patch.number:{width}}  {patch.subject}"
        who = _person(patch.author, patch.email)
        yield f"  {' ' * width}  {who}{_files(patch.files)}"
    if view.missing:
        yield f"missing: {', '.join(map(str, view.missing))}"


def _person(author: str, email: str) -> str:
    return f"{author} <{email}>"


def _files(files: Sequence[str]) -> str:
    if not files:
        return ""
    more = len(files) - MOST_FILES
    return f": {', '.join(files[:MOST_FILES])}{f' and {more} more' if more > 0 else ''}"


def _base(view: SeriesView) -> Iterator[str]:
    if view.tree:
        yield f"tree: {view.tree}"
    if view.base:
        yield f"base: {view.base_words or view.base}"
    for each in view.prerequisites:
        yield f"prerequisite: {each}"
    if view.applies is not None:
        yield f"applies: {'yes' if view.applies else 'no'}"
    if view.failure:
        yield f"  {view.failure}"
        for line in view.details.splitlines():
            yield f"  {line}"


def _commits(view: SeriesView) -> Iterator[str]:
    if view.commits:
        yield "commits:"
    for commit in view.commits:
        yield f"  {commit.id[:12]}  {commit.subject}"
        yield f"  {' ' * 12}  {_person(commit.author, commit.email)}{_files(commit.files)}"


def _rest(view: SeriesView) -> Iterator[str]:
    for mail in view.left_out:
        yield f"left out: “{mail.subject}” by {mail.author}: {mail.reason}"
    for note in view.notes:
        yield f"note: {note}"
    for problem in view.problems:
        if problem not in (view.failure, view.error):
            yield f"problem: {problem}"
