"""A patch written as the mail that `git am` takes in one way only."""

from __future__ import annotations

import base64
import re
from email.utils import format_datetime

from pipeline.letter import Letter
from pipeline.mail import parse_date
from pipeline.patchtext import INBODY

NO_DATE = "Sat, 01 Jan 2000 00:00:00 +0000"
"""For a mail without a date: git would take the time of day, and so a new commit id each time."""


def mail_of(letter: Letter, *, trailers: tuple[str, ...] = ()) -> bytes:
    """Headers, message, "---" and diff in UTF-8; nothing else that was in the mail.

    As it does not start with a From line, git mailsplit cuts it nowhere.
    """
    sender = _mailbox(letter.author, letter.email)
    message = _with(letter.text.message, trailers)
    head = [
        f"From: {sender}",
        f"Date: {date_of(letter)}",
        f"Subject: [PATCH] {letter.title}",
        f"Message-Id: <{letter.message_id}>",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
    ]
    body = _guarded(_as_utf8(message), sender) + "\n---\n\n" + letter.text.diff
    raw = body.encode("utf-8", "surrogateescape")
    if "\r" in body:  # git mailsplit takes a CR away before a newline, but not out of base64
        head.append("Content-Transfer-Encoding: base64")
        raw = base64.encodebytes(raw)
    else:
        head.append("Content-Transfer-Encoding: 8bit")
    return "\n".join([*head, "", ""]).encode("utf-8", "replace") + raw


def date_of(letter: Letter) -> str:
    """The date of the commit as a mail has it."""
    date = parse_date(letter.text.own.date) or letter.mail.date
    return format_datetime(date) if date else NO_DATE


def _mailbox(name: str, address: str) -> str:
    plain = re.fullmatch(r"[\w .'-]*", name) and "=?" not in name
    quoted = name if plain else '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return f"{quoted} <{address}>"


def _guarded(message: str, sender: str) -> str:
    """A message whose first line git would read as a header, under a header that ends them."""
    first = message.lstrip("\n").split("\n", 1)[0]
    if INBODY.match(first) or first.startswith((">From", "From ", "[PATCH]")):
        return f"From: {sender}\n\n{message}"
    return message


def _as_utf8(message: str) -> str:
    """Bytes that are no UTF-8 as Latin-1, line by line, as git does."""
    return "\n".join(
        line
        if line.isprintable() or not re.search("[\udc80-\udcff]", line)
        else line.encode("utf-8", "surrogateescape").decode("latin-1")
        for line in message.split("\n")
    )


def _with(message: str, trailers: tuple[str, ...]) -> str:
    """The message with further trailers behind those that it has."""
    have = {line.strip().lower() for line in message.split("\n")}
    new = [trailer for trailer in trailers if trailer.lower() not in have]
    if not new:
        return message
    last = message.rstrip("\n").split("\n")[-1]
    gap = "\n" if re.match(r"^[A-Za-z-]+: \S", last) else "\n\n"
    return message.rstrip("\n") + gap + "\n".join(new)
