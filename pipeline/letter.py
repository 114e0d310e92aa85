"""A mail judged: a patch, a cover letter, a reply, or none of these; and the patch in it."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pipeline import flowed, mail, patchtext, subject
from pipeline.mail import Mail, Part
from pipeline.patchtext import PatchText
from pipeline.subject import Subject


class Kind(enum.Enum):
    PATCH = "patch"
    COVER = "cover letter"
    REPLY = "reply"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A mail with its subject and text read. `reason`: why it is no patch, "" for one.

    `author`, `email`: of the commit. `sender`: the address that sent the mail.
    """

    mail: Mail
    subject: Subject
    text: PatchText
    kind: Kind
    reason: str = ""
    author: str = ""
    email: str = ""
    problems: tuple[str, ...] = ()

    @property
    def message_id(self) -> str:
        return self.mail.message_id

    @property
    def sender(self) -> str:
        return self.mail.email or self.email

    @property
    def title(self) -> str:
        return self.subject.title

    @cached_property
    def digest(self) -> str:
        """The same for two mails with the same diff."""
        return hashlib.sha256(self.text.diff.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def time(self) -> float:
        return self.mail.date.timestamp() if self.mail.date else 0.0


def letters(raw: bytes, *, trusted: bool = False) -> tuple[Letter, ...]:
    """What a mail is: one letter, or more where several patches are attached to it.

    `trusted`: whoever gave it says that it is a patch (a *.patch file).
    """
    outer, *enclosed = mail.read(raw)
    text, problems = _text(outer)
    inner = [(each, *_text(each)) for each in enclosed]
    inner = [each for each in inner if each[1].diffs]
    if not text.diffs and inner:
        return _attached(outer, inner, trusted)
    if text.damage:
        whole = [each for each in inner if not each[1].damage and each[1].files == text.files]
        if whole:
            text = replace(whole[0][1], own=whole[0][1].own if whole[0][1].own.form else text.own)
            problems = ("the patch is taken from the attachment: the mail's text is damaged",)
    return (judge(outer, text, problems, trusted=trusted),)


def _attached(
    outer: Mail, inner: Sequence[tuple[Mail, PatchText, tuple[str, ...]]], trusted: bool
) -> tuple[Letter, ...]:
    """Patches that are whole mails in attachments: in the place of the mail that brings them."""
    found = []
    for number, (each, text, problems) in enumerate(inner, 1):
        placed = replace(
            each,
            message_id=outer.message_id if len(inner) == 1 else f"{outer.message_id}#{number}",
            given_id=outer.given_id,
            author=each.author or outer.author,
            email=each.email or outer.email,
            date=each.date or outer.date,
            references=outer.references,
            from_git=True,
        )
        found.append(judge(placed, text, problems, trusted=trusted))
    return tuple(found)


# --------------------------------------------------------------------------- the text

SEVERAL = "several diffs are attached to the mail, and nothing says which is the patch"


def _text(found: Mail) -> tuple[PatchText, tuple[str, ...]]:
    """The text of the part that holds the patch, whole where there is a whole one."""
    inline = [part for part in found.parts if not part.attached]
    attached = [part for part in found.parts if part.attached and not _is_mail(part)]
    read = [_part(part) for part in inline]
    with_diff = [each for each in read if each[0].diffs]
    files = [_part(part) for part in attached]
    diffs = [each for each in files if each[0].diffs]
    for text, problems in with_diff:
        if not text.damage:
            others = [one for one, _ in (*with_diff, *diffs) if one.diff != text.diff]
            more = ("another diff in the mail, in a part of its own, is passed over",)
            return text, (*problems, *(more if others else ()))
    whole = [
        (part, each[0].diff)
        for part, each in zip(attached, files, strict=True)
        if each[0].diffs and not each[0].damage
    ]
    if whole:
        text, problems = _joined(inline, whole[0][0], damaged=bool(with_diff))
        if len({diff for _, diff in whole}) > 1:
            text = replace(text, damage=(*text.damage, SEVERAL))
        return text, problems
    if with_diff or diffs:
        return (with_diff or diffs)[0]
    return read[0] if read else (patchtext.parse(""), ())


def _joined(
    inline: Sequence[Part], part: Part, *, damaged: bool
) -> tuple[PatchText, tuple[str, ...]]:
    """The message of the mail's text over the diff of its attachment."""
    diff, problems = _part(part)
    if damaged:
        problems += ("the patch is taken from the attachment: the mail's text is damaged",)
    if diff.own.form or diff.signed_off:
        return diff, problems
    words = _lines(inline[0]) if inline else ""
    message = patchtext.parse(words)
    joined = patchtext.parse(f"{words.rstrip()}\n---\n{part.text}")
    if damaged:
        joined = replace(diff, own=message.own, message=message.message, claimed=message.claimed)
    return joined, problems


def _lines(part: Part) -> str:
    return flowed.unflow(part.text, delsp=part.delsp) if part.flowed else part.text


def _is_mail(part: Part) -> bool:
    return part.text.lstrip("\n").startswith(("From: ", "Subject: ")) or bool(
        patchtext.FROM_COMMIT.match(part.text.lstrip("\n").split("\n", 1)[0])
    )


def _part(part: Part) -> tuple[PatchText, tuple[str, ...]]:
    problems: tuple[str, ...] = ()
    if part.converted:
        problems = (f"the mail was in {part.converted}: it is converted to UTF-8",)
    if not part.flowed:
        return patchtext.parse(part.text), problems
    tries = (_lines(part), flowed.unstuff(part.text), part.text)
    read = [patchtext.parse(each) for each in tries]
    whole = [each for each in read if each.diffs and not each.damage]
    if whole or not any(each.diffs for each in read):
        return (whole or read)[0], problems
    worst = next(each for each in read if each.diffs)
    why = tuple(f"{words}; the mail was sent as format=flowed" for words in worst.damage)
    return replace(worst, damage=why), problems


# --------------------------------------------------------------------------- the judgement


def judge(found: Mail, text: PatchText, problems: tuple[str, ...], *, trusted: bool) -> Letter:
    """What this mail is, and who wrote the patch."""
    outer = subject.parse(found.subject)
    own = text.own
    stands_alone = own.form in {"commit", "show"} or bool(own.subject)
    answers = outer.reply or (found.has_parent and text.quotes)
    if answers and not (text.cut_at_scissors and stands_alone and text.diffs):
        why = "a reply: the diff in it is no patch" if text.diffs else "a reply"
        return Letter(mail=found, subject=outer, text=text, kind=Kind.REPLY, reason=why)
    title = _subject(outer, own.subject, answers=answers)
    author, address = mail.parse_address(own.sender) if own.sender else ("", "")
    letter = Letter(
        mail=found,
        subject=title,
        text=text,
        kind=Kind.PATCH,
        author=author if address else found.author,
        email=address or found.email,
        problems=(*problems, *text.problems, *_doubts(found, title, text, answers=answers)),
    )
    kind, reason = _kind(letter, stands_alone=stands_alone, trusted=trusted)
    return replace(letter, kind=kind, reason=reason)


def _subject(outer: Subject, own: str, *, answers: bool) -> Subject:
    if not own:
        return outer
    inner = subject.parse(own)
    if inner.marked or answers:
        return replace(inner, reply=False)
    return replace(outer, title=inner.title, reply=False)


def _doubts(found: Mail, title: Subject, text: PatchText, *, answers: bool) -> tuple[str, ...]:
    doubts = []
    if text.cut_at_scissors and not answers:
        doubts.append("what stands above the scissors in its text is left away")
    if title.unclosed:
        doubts.append("a bracket of its subject is missing")
    if other := text.inner_author:
        doubts.append(f"its message names an author further down ({other}): the sender is taken")
    if found.rewritten and not text.own.sender:
        doubts.append(
            f"the list put its own address ({found.rewritten}) into From; "
            + (f"{found.email} is taken" if found.email != found.rewritten else "who wrote it "
               "is not said")
        )  # fmt: skip
    return tuple(doubts)


def _kind(letter: Letter, *, stands_alone: bool, trusted: bool) -> tuple[Kind, str]:
    title, text = letter.subject, letter.text
    if title.total and not title.number:
        return Kind.COVER, "cover letter"
    if why := _bars(letter):
        return Kind.OTHER, why
    formed = text.separated and text.signed_off
    formed = formed or (title.hinted and (text.separated or text.signed_off))
    stands = stands_alone and (text.cut_at_scissors or text.own.form != "headers")
    if title.marked or letter.mail.from_git or stands or formed or trusted:
        return Kind.PATCH, ""
    return Kind.OTHER, "its subject does not say that it is a patch, and it has no form of one"


def _bars(letter: Letter) -> str:
    """Why it can be no patch, "" where it may be one."""
    if not letter.text.diffs:
        return "it is HTML only" if letter.mail.html_only else "there is no patch in it"
    if not letter.email:
        return "a bare diff, without an author"
    if letter.text.forwards and not letter.subject.marked:
        return "a notice that has somebody's patch in it: give that patch by itself"
    if letter.subject.barred and not letter.subject.marked:
        return "a report or a pull request: the diff in it is no patch"
    return ""
