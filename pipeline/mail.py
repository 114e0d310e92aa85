"""One mail decoded: its headers, and the parts in which a patch may be."""

from __future__ import annotations

import base64
import binascii
import email
import email.message
import hashlib
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.header import decode_header
from email.utils import parsedate_to_datetime

from pipeline.mbox import FORMAT_PATCH

BASE64_LINE = re.compile(rb"^[A-Za-z0-9+/]*={0,2}\s*$")
ADDRESS = re.compile(r"<\s*([^<>\s]+@[^<>\s]+)\s*>")
BARE_ADDRESS = re.compile(r"[^\s<>()\",;]+@[^\s<>()\",;]+")
MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
VIA = re.compile(r"\s+via\s+\S.*$", re.I)
PATCH_NAME = re.compile(r"\.(?:patch|diff|mbox|eml|txt)$", re.I)
CRUD = ".,:;<>\"\\'"
LONGEST_NAME = 60


@dataclass(frozen=True, kw_only=True)
class Part:
    """A text of a mail: lines end in newlines, bytes that are no UTF-8 are surrogates.

    `attached`: not shown as the mail's text. `converted`: the charset, where it was not UTF-8.
    """

    text: str
    attached: bool = False
    filename: str = ""
    flowed: bool = False
    delsp: bool = False
    converted: str = ""


@dataclass(frozen=True, kw_only=True)
class Mail:
    """`given_id`: it had a Message-Id; otherwise one is made from its content.

    `author` and `email`: as git takes them from the From header, or what a list that rewrote
    the sender left of them (`rewritten`: by which address). `references`: the parent last.
    `from_git`: it starts with format-patch's own From line.
    """

    message_id: str
    given_id: bool
    subject: str
    author: str
    email: str
    rewritten: str = ""
    date: datetime | None = None
    references: tuple[str, ...] = ()
    has_parent: bool = False
    from_git: bool = False
    bare: bool = False
    parts: tuple[Part, ...] = ()
    html_only: bool = False


def read(raw: bytes) -> tuple[Mail, ...]:
    """The mail, and after it every mail attached to it as a file."""
    first, _, rest = raw.lstrip(b"\r\n").partition(b"\n")
    is_separator = first.startswith((b"From ", b">From "))
    content = _without_crs(rest if is_separator else raw.lstrip(b"\r\n"))
    message = email.message_from_bytes(content)
    parts = tuple(_parts(message))
    message_id = _ids(_header(message, "Message-Id"))
    own = message_id[0] if message_id else ""
    name, address = parse_address(_header(message, "From"))
    author, rewritten = _true_author(message, name, address)
    return Mail(
        message_id=own or f"{hashlib.sha256(content).hexdigest()[:32]}@ktrial.invalid",
        given_id=bool(own),
        subject=" ".join(_header(message, "Subject").split()),
        author=author[0],
        email=author[1],
        rewritten=rewritten,
        date=parse_date(_header(message, "Date")),
        references=_references(message),
        has_parent=bool(_header(message, "In-Reply-To").strip()),
        from_git=is_separator and bool(FORMAT_PATCH.match(first)),
        bare=not message.keys(),
        parts=parts,
        html_only=not parts
        and any(part.get_content_subtype() == "html" for part in message.walk()),
    ), *(mail for part in parts for mail in _enclosed(part))


def _enclosed(part: Part) -> tuple[Mail, ...]:
    """A whole mail in an attachment: the output of format-patch."""
    text = part.text.lstrip("\n")
    if not part.attached or not re.match(r"(?:From [0-9a-f]{7,64} |From: |Subject: )", text):
        return ()
    return read(text.encode("utf-8", "surrogateescape"))[:1]


def _without_crs(content: bytes) -> bytes:
    """Lines that end as on a wire, made to end as on disk: by the headers one can tell."""
    head = re.split(rb"\r?\n\r?\n", content, maxsplit=1)[0]
    return content.replace(b"\r\n", b"\n") if b"\r\n" in head else content


# --------------------------------------------------------------------------- headers


def _header(message: email.message.Message, name: str) -> str:
    for key, value in message.raw_items():
        if key.lower() == name.lower():
            return decode(str(value))
    return ""


def decode(value: str) -> str:
    """A header's value: encoded words (RFC 2047) and raw bytes alike; never fails."""
    value = _from_bytes(value.encode("utf-8", "surrogateescape"))
    if "=?" not in value:
        return value
    try:
        chunks = decode_header(value)
    except (ValueError, binascii.Error):
        return value
    return "".join(_chunk(text, charset) for text, charset in chunks)


def _chunk(text: bytes | str, charset: str | None) -> str:
    if isinstance(text, str):
        return text
    if charset is None:  # decode_header() gives what is not encoded as raw-unicode-escape
        return text.decode("raw-unicode-escape")
    try:
        return text.decode(charset, "replace")
    except LookupError:
        return text.decode("latin-1")


def _from_bytes(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def parse_address(value: str) -> tuple[str, str]:
    """Name and address as git am makes them of a From line (handle_from() in mailinfo.c)."""
    value = " ".join(value.split())
    found = ADDRESS.search(value) or BARE_ADDRESS.search(value)
    if not found:
        return "", ""
    address = found[1] if found.re is ADDRESS else found[0]
    rest = f"{value[: found.start()]} {value[found.end() :]}".replace("<>", " ")
    name = re.sub(r"\\(.)|\"", lambda match: match[1] or "", " ".join(rest.split()))
    if name.startswith("(") and name.endswith(")"):
        name = name[1:-1]
    return ident(name, address)


def ident(name: str, address: str) -> tuple[str, str]:
    """What git makes of it in a commit: no crud at the ends, no long or odd names."""
    if not name or len(name.encode()) > LONGEST_NAME or re.search(r"[@<>]", name):
        name = address
    strip = CRUD + "".join(map(chr, range(33)))
    return name.strip(strip), address.strip(strip)


def _true_author(
    message: email.message.Message, name: str, address: str
) -> tuple[tuple[str, str], str]:
    """Past a list that put itself into From ("Ada via list"), where it says who it was."""
    original = _header(message, "X-Original-From")
    if original and (found := parse_address(original))[1]:
        return found, address
    if VIA.search(name):
        person = VIA.sub("", name).strip("'\" ")
        reply_to = parse_address(_header(message, "Reply-To"))
        if reply_to[1] and reply_to[1] != address and reply_to[0] in {person, reply_to[1]}:
            return ident(person, reply_to[1]), address
        return (name, address), address
    return (name, address), ""


def parse_date(value: str) -> datetime | None:
    """None where git would not take it either."""
    try:
        date = parsedate_to_datetime(" ".join(value.split()))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return date if date.year > 1970 else None


def _ids(value: str) -> list[str]:
    return MESSAGE_ID.findall(value) or value.split()[:1]


def _references(message: email.message.Message) -> tuple[str, ...]:
    ids = MESSAGE_ID.findall(_header(message, "References"))
    parent = MESSAGE_ID.findall(_header(message, "In-Reply-To"))
    return tuple(dict.fromkeys([*(each for each in ids if each not in parent[:1]), *parent[:1]]))


# --------------------------------------------------------------------------- parts


def _parts(message: email.message.Message) -> Iterator[Part]:
    for part in message.walk():
        if part.is_multipart() or part.get_content_subtype() in {"html", "pgp-signature"}:
            continue
        filename = decode(part.get_filename("") or "")
        is_text = part.get_content_maintype() == "text"
        if not is_text and not PATCH_NAME.search(filename):
            continue
        text, converted = _text(part)
        yield Part(
            text=uncrlf(text),
            attached=not is_text
            or part.get_content_disposition() == "attachment"
            or part.get_content_subtype() != "plain"
            or bool(PATCH_NAME.search(filename)),
            filename=filename,
            flowed=str(part.get_param("format", "")).lower() == "flowed",
            delsp=str(part.get_param("delsp", "")).lower() == "yes",
            converted=converted,
        )


def _text(part: email.message.Message) -> tuple[str, str]:
    """Its text, and the charset from which it was converted.

    A mail program that sends a patch in another charset has converted it from UTF-8, which the
    kernel's files are in. What is no UTF-8 though it says so is kept byte for byte.
    """
    raw = _payload(part)
    charset = (part.get_content_charset() or "utf-8").lower()
    if charset not in {"utf-8", "utf8", "us-ascii", "ascii", "unknown-8bit"} and raw:
        try:
            text = raw.decode(charset)
        except (LookupError, UnicodeDecodeError):
            pass
        else:
            return text, "" if text.isascii() else charset
    return raw.decode("utf-8", "surrogateescape"), ""


def _payload(part: email.message.Message) -> bytes:
    encoding = str(part.get("Content-Transfer-Encoding", "")).split(";")[0].strip().lower()
    # Without it, the bytes come as they are; what is no ASCII would be replaced otherwise.
    del part["Content-Transfer-Encoding"]
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        return b""
    if encoding == "base64":
        return _base64(raw)
    if encoding == "quoted-printable":
        return quopri.decodestring(raw)
    return raw


def _base64(raw: bytes) -> bytes:
    """Base64 up to its end; a list's footer may follow as it is."""
    lines: list[bytes] = []
    for line in raw.split(b"\n"):
        if not BASE64_LINE.match(line):
            break
        lines.append(line.strip())
        if b"=" in line:
            break
    packed = b"".join(lines)
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4))
    except binascii.Error:
        return raw


def uncrlf(text: str) -> str:
    """Without the CR of every line, where the lines of the diff's own headers have one as well.

    A CR that only the lines of a file have belongs to that file.
    """
    if "\r" not in text:
        return text
    frame = re.findall(r"^(?:diff --git |--- \S|\+\+\+ \S).*$", text, re.M)
    lines = frame or text.rstrip("\n").split("\n")
    if all(line.endswith("\r") for line in lines):
        return re.sub(r"\r$", "", text, flags=re.M)
    return text
