"""Patch series as people send them: mails in, patches ready for `git am` out, or a refusal.

Nothing is taken silently that the sender did not mean: what is left out, what is missing, what
was mended and what is doubtful is in the Series, or in the NoSeries that is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import amready, sources, versions
from pipeline.letter import Kind, Letter, letters
from pipeline.model import LeftOut, Patch, Series
from pipeline.noseries import NoSeries
from pipeline.scope import Scope
from pipeline.sendings import Sending, Threads, sendings
from pipeline.sources import FORMAT_HINT
from pipeline.trailers import collect
from pipeline.versions import Assembled, shown

__all__ = ["NoSeries", "read_files", "read_series"]

RESEND_HINT = (
    "ask for it again as `git send-email` sends it: no copy and paste, no mail program that "
    "wraps lines or makes spaces of tabs"
)


def read_series(
    source: str,
    *,
    stdin: bytes | None,
    scope: Scope,
    version: int | None = None,
    trailers: bool = False,
    pick: str | None = None,
    shown_as: str = "",
) -> Series:
    """The newest complete version of the series in `source`: a file, a maildir, a folder, or "-".

    `version` takes another. `pick` says which of several series: the message-id of a mail of its
    thread, or a part of a subject. `trailers`: add those that replies give. `shown_as`: what the
    user named, where that is not `source`.

    Raises:
        UserError: no such file.
        NoSeries: no patch, a patch missing or damaged, two series in one, no such version.
        Cancelled: the run was cancelled.
    """
    name = shown_as or ("standard input" if source == "-" else source)
    found: list[Letter] = []
    for raw in sources.mails(source, stdin):
        scope.check()
        found += letters(raw.content, trusted=raw.trusted)
    box = _Box.of(name, found)
    try:
        return box.series(_name(source), version=version, trailers=trailers, pick=pick)
    except NoSeries as error:
        if not error.left_out:
            error.left_out = box.left_out({}, box.threads.letters)
        raise


def read_files(paths: Sequence[Path], *, name: str) -> Series:
    """The patches in these files, in this order; cover letters are passed over.

    Raises:
        UserError: a file is missing.
        NoSeries: a file holds no patch, or a damaged one.
    """
    taken: list[Letter] = []
    everything: list[Letter] = []
    for path in paths:
        found = [
            each for raw in sources.of_file(path) for each in letters(raw.content, trusted=True)
        ]
        patches = [each for each in found if each.kind is Kind.PATCH]
        if not patches and not any(each.kind is Kind.COVER for each in found):
            raise _no_patch(str(path), found)
        taken += patches
        everything += found
    if not taken:
        raise NoSeries(f"{name} has no patches", hint=FORMAT_HINT)
    box = _Box.of(", ".join(map(str, paths)), everything)
    chosen = Assembled(
        sending=Sending(version=(1, 0), total=0, slots={}),
        version=max(each.subject.version for each in taken),
        patches=dict(enumerate(taken, 1)),
        covers=tuple(each for each in everything if each.kind is Kind.COVER),
    )
    return box.finished(name, chosen, everything, trailers=False)


@dataclass(frozen=True, kw_only=True)
class _Box:
    """All the mails of a source. `twice`: mails that came again under the same message-id."""

    source: str
    threads: Threads
    twice: tuple[Letter, ...] = ()

    @classmethod
    def of(cls, source: str, found: Iterable[Letter]) -> _Box:
        """Each message once: a whole copy rather than a damaged one."""
        unique: dict[str, Letter] = {}
        twice: list[Letter] = []
        for each in found:
            other = unique.setdefault(each.message_id, each)
            if other is each:
                continue
            whole = other.text.damage and not each.text.damage
            unique[each.message_id] = each if whole else other
            twice.append(other if whole else each)
        return cls(source=source, threads=Threads(list(unique.values())), twice=tuple(twice))

    def series(self, name: str, *, version: int | None, trailers: bool, pick: str | None) -> Series:
        if not {Kind.PATCH, Kind.COVER} & {each.kind for each in self.threads.letters}:
            raise _no_patch(self.source, self.threads.letters)
        sent = sendings(self.threads)
        given = versions.as_given(sent) if pick is None else None
        if given is not None:
            family: list[Sending] = [given]
            notes: tuple[str, ...] = ("the patches are not numbered: they are taken as given",)
        else:
            family, notes = self._family(sent, pick)
        chosen = versions.newest(self.threads, family, wanted=version, source=self.source)
        chosen = replace(chosen, notes=(*notes, *chosen.notes))
        near = self._near(family) if pick is not None else self.threads.letters
        return self.finished(name, chosen, near, trailers=trailers)

    def _family(
        self, sent: Sequence[Sending], pick: str | None
    ) -> tuple[list[Sending], tuple[str, ...]]:
        found = everything = versions.families(self.threads, sent)
        if pick is not None:
            found = self._picked(found, pick)
        family = versions.main_family(self.threads, found)
        if family is None:
            titles = [_title(each) for each in found if any(one.patches for one in each)]
            raise NoSeries(
                f"{self.source} holds {_count(len(titles))} series: “{titles[0]}” and "
                f"“{titles[1]}”{' and others' if len(titles) > 2 else ''}",
                hint="say which one by its message-id or subject, or give one series at a time",
            )
        beside = versions.beside(self.threads, family, everything)
        if beside and pick is None:
            raise NoSeries(
                f"{self.source} holds {_count(len(beside) + 1)} patches of one sender without "
                f"numbers: “{_title(family)}”, “{_title(beside[0])}”"
                f"{' and others' if len(beside) > 1 else ''}",
                hint="say which one by its message-id or subject, or number them",
            )
        others = [each for each in found if each is not family]
        others += [each for each in beside if each not in others]
        return family, tuple(f"“{_title(each)}” in the thread is another series" for each in others)

    def _picked(self, found: list[list[Sending]], pick: str) -> list[list[Sending]]:
        """The series that is meant by a message-id, a link to it, or a part of a subject."""
        by_id = self.threads.by_id.get(pick.strip().strip("<>").rstrip("/").rpartition("/")[2])
        if by_id is not None:
            own = [each for each in found if any(by_id in one.letters for one in each)]
            root = self.threads.root(by_id.message_id)
            near = own or [
                each
                for each in found
                if any(self.threads.root(one.letters[0].message_id) == root for one in each)
            ]
            if near:
                return near
            raise _not_there(self.source, pick)
        words = pick.lower()
        for matches in (str.__eq__, str.__contains__):
            hits = [
                family
                for family in found
                if any(
                    matches(text.lower(), words)
                    for one in family
                    for each in one.letters
                    for text in (each.title, each.mail.subject)
                )
            ]
            if hits:
                return hits
        raise _not_there(self.source, pick)

    def _near(self, family: Sequence[Sending]) -> tuple[Letter, ...]:
        """The mails of the threads in which a series is."""
        roots = {self.threads.root(each.message_id) for one in family for each in one.letters}
        return tuple(
            each for each in self.threads.letters if self.threads.root(each.message_id) in roots
        )

    # ----------------------------------------------------------------- the result

    def finished(
        self, name: str, chosen: Assembled, near: Sequence[Letter], *, trailers: bool
    ) -> Series:
        """The series; NoSeries where one of its patches is damaged."""
        patches = [chosen.patches[number] for number in sorted(chosen.patches)]
        problems = [*chosen.problems, *_problems(patches)]
        left_out = self.left_out(chosen.reasons, near, taken=patches, version=chosen.version)
        _check_whole(self.source, patches, problems, left_out, chosen)
        self._check_alike(patches, left_out, chosen)
        more: Mapping[str, tuple[str, ...]] = {}
        notes = list(chosen.notes)
        if trailers:
            more, passed = collect(self.threads, patches, chosen.covers)
            notes += passed
        if len(near) < len(self.threads.letters):
            notes.append(f"{len(self.threads.letters) - len(near)} other mails are passed over")
        base = [pair for each in (*chosen.covers, *patches) for pair in each.text.base]
        return Series(
            name=name,
            origin=self.source,
            version=chosen.version[0],
            patches=tuple(
                _patch(number, each, more.get(each.message_id, ()))
                for number, each in enumerate(patches, 1)
            ),
            notes=tuple(notes),
            left_out=left_out,
            base_commit=next((value for key, value in base if key == "base-commit"), ""),
            prerequisites=tuple(
                dict.fromkeys(
                    f"{key.removeprefix('prerequisite-')}: {value.strip('<>')}"
                    for key, value in base
                    if key != "base-commit"
                )
            ),
            problems=tuple(problems),
        )

    def _check_alike(
        self, patches: Sequence[Letter], left_out: tuple[LeftOut, ...], chosen: Assembled
    ) -> None:
        """Refuse a patch of which two copies with one message-id do not say the same."""
        for number, each in enumerate(patches, 1):
            copies = [one for one in self.twice if one.message_id == each.message_id]
            whole = [one for one in copies if one.text.diffs and not one.text.damage]
            if any(one.digest != each.digest for one in whole):
                raise NoSeries(
                    f"patch {number}/{len(patches)} “{each.title}” is there twice with one "
                    "message-id and different content, and nothing says which is meant",
                    hint="give the mails that are meant alone",
                    left_out=left_out,
                    version=chosen.version[0],
                )

    def left_out(
        self,
        reasons: Mapping[int, str],
        near: Sequence[Letter],
        *,
        taken: Sequence[Letter] = (),
        version: tuple[int, int] | None = None,
    ) -> tuple[LeftOut, ...]:
        """Every mail of `near` that is not taken, and why."""
        ids = {each.message_id for each in near}
        done = {id(each) for each in taken}
        rest = [
            _left_out(each, reasons.get(id(each)) or each.reason or _older(each, version))
            for each in near
            if id(each) not in done
        ]
        again = [_left_out(each, "the same mail once more") for each in self.twice
                 if each.message_id in ids]  # fmt: skip
        return (*rest, *again)


def _older(letter: Letter, taken: tuple[int, int] | None) -> str:
    if taken is None:
        return "there is no whole series to which it belongs"
    if letter.subject.version != taken:
        return f"it is of {shown(letter.subject.version)}; {shown(taken)} is taken"
    return "it does not belong to the series that is taken"


def _left_out(letter: Letter, reason: str) -> LeftOut:
    return LeftOut(
        subject=letter.mail.subject,
        author=letter.mail.author,
        message_id=letter.mail.message_id if letter.mail.given_id else "",
        reason=reason,
    )


def _check_whole(
    source: str,
    patches: Sequence[Letter],
    problems: Sequence[str],
    left_out: tuple[LeftOut, ...],
    chosen: Assembled,
) -> None:
    damaged = [
        f"patch {number}/{len(patches)} “{each.title}” is damaged: {'; '.join(each.text.damage)}"
        for number, each in enumerate(patches, 1)
        if each.text.damage
    ]
    if damaged:
        raise NoSeries(
            f"{source}: {damaged[0]}",
            hint=RESEND_HINT,
            left_out=left_out,
            problems=(*problems, *damaged, RESEND_HINT),
            version=chosen.version[0],
        )


def _problems(patches: Sequence[Letter]) -> list[str]:
    many = len(patches) > 1
    return [
        f"patch {number}/{len(patches)}: {problem}" if many else problem
        for number, each in enumerate(patches, 1)
        for problem in each.problems
    ]


def _patch(number: int, letter: Letter, trailers: tuple[str, ...]) -> Patch:
    return Patch(
        number=number,
        subject=letter.title,
        author=letter.author,
        email=letter.email,
        files=letter.text.files,
        message_id=letter.message_id,
        mail=amready.mail_of(letter, trailers=trailers),
        claimed=letter.text.claimed,
    )


def _no_patch(source: str, found: Sequence[Letter]) -> NoSeries:
    if not found:
        return NoSeries(f"{source} is empty", hint=FORMAT_HINT)
    if any(each.reason.startswith("a bare diff") for each in found):
        return NoSeries(f"{source} is a bare diff, without an author", hint=FORMAT_HINT)
    count = "1 mail" if len(found) == 1 else f"{len(found)} mails"
    why = f": {found[0].reason}" if len(found) == 1 and found[0].reason else ""
    return NoSeries(f"there is no patch in {source} ({count}{why})", hint=FORMAT_HINT)


def _not_there(source: str, pick: str) -> NoSeries:
    return NoSeries(
        f"{source} has no series “{pick}”", hint="name a message-id or a part of a subject"
    )


def _title(family: Sequence[Sending]) -> str:
    return family[0].letters[0].title


def _count(number: int) -> str:
    return "two" if number == 2 else str(number)


def _name(source: str) -> str:
    """A short name from the file's, fit for file names and the names of cases."""
    stem = "stdin" if source == "-" else Path(source).resolve().name
    stem = re.sub(r"\.(mbox|mbx|patch|diff|eml|maildir)$", "", stem)
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "series"
