"""Patch series as people send them: an mbox, a mail, a maildir, a folder of patches, stdin.

The mails are read here, told apart from replies and cover letters, and checked; b4
does the mail work proper (the newest version, the order, trailers from replies,
transfer encodings), on local files and without a network.
"""

from __future__ import annotations

import email
import email.message
import hashlib
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from email.header import decode_header, make_header
from email.utils import parseaddr
from pathlib import Path

from pipeline import process
from pipeline.errors import InfraError, UserError
from pipeline.model import Patch, Series
from pipeline.scope import Scope

B4_SECONDS = 120
NO_DATE = "Sat, 01 Jan 2000 00:00:00 +0000"
"""For a mail without a date: git would take the time of day, and so a new commit id each time."""
FORMAT_HINT = "make the files with `git format-patch`, or save the mails as an mbox"

# As git's mailsplit has it (is_from_line()): a time and a year; prose with "From " has neither.
FROM_LINE = re.compile(rb"^From [^\n]*\d:\d\d(:\d\d)?[^\n]* (19[789]|2\d\d)\d?\b[^\n]*\n", re.M)
DIFF = re.compile(r"^(?:diff --git |--- \S.*\n\+\+\+ \S|GIT binary patch)", re.M)
DIFF_FILES = re.compile(r"^diff --git (?:a/(?P<old>.+?) b/(?P<new>.+))$", re.M)
PLAIN_FILES = re.compile(r"^\+\+\+ b/(\S+)", re.M)
TAG = re.compile(r"^\s*\[([^\]]*)\]\s*")
NUMBERED = re.compile(r"\b(\d+)/(\d+)\b")
VERSION = re.compile(r"\bv(\d+)\b", re.I)
REPLY = re.compile(r"^\s*(?:re|aw|fwd?|sv)\s*:", re.I)


@dataclass(frozen=True, kw_only=True)
class Mail:
    """A mail and what its headers say. `number` and `total` are 0 where it is not numbered."""

    raw: bytes
    subject: str
    author: str
    email: str
    message_id: str
    version: int
    number: int
    total: int
    reply: bool
    files: tuple[str, ...]
    has_diff: bool

    @property
    def is_patch(self) -> bool:
        return self.has_diff and not self.reply and bool(self.email or self.author)

    @property
    def is_cover(self) -> bool:
        return not self.has_diff and not self.reply and self.total > 0 and self.number == 0


def read_series(source: str, *, stdin: bytes | None, scratch: Path, scope: Scope) -> Series:
    """The newest version of the series in `source`: a file, a maildir, a folder, or "-" (`stdin`).

    `scratch` is an empty folder for b4.

    Raises:
        UserError: no such file; no mail; no patch; a patch missing; two series in one.
        InfraError: b4 failed.
    """
    mails = _read(source, stdin)
    patches = [mail for mail in mails if mail.is_patch]
    _check_some(source, mails, patches)
    name = _name(source)
    if len(patches) > 1 and not any(mail.total for mail in patches):
        # `git format-patch -N`: the order given is all there is, b4 would take one of them.
        return _series(name, source, patches, notes=())
    _check_one_series(source, patches)
    taken = max(mail.version for mail in mails if mail.is_patch or mail.is_cover)
    newest = [mail for mail in mails if mail.version == taken and not mail.reply]
    if not any(mail.is_patch for mail in newest):
        check_complete(source, newest)
    chosen = _with_b4(source, mails, taken, scratch=scratch, scope=scope)
    check_complete(source, chosen)
    older = sorted({mail.version for mail in patches} - {taken})
    notes = tuple(f"v{version} is there too; v{taken} is taken" for version in older)
    left_out = len([mail for mail in patches if mail.version == taken]) - len(chosen)
    if left_out > 0:
        notes += (f"{left_out} patch mails of the thread do not belong to the series",)
    return _series(name, source, chosen, notes=notes)


def read_files(paths: Sequence[Path], *, name: str) -> Series:
    """The patches in these files, in this order; cover letters are passed over.

    Raises:
        UserError: a file is missing or holds no patch.
    """
    patches: list[Mail] = []
    for path in paths:
        mails = [as_mail(raw) for raw in split(_bytes(path))]
        found = [mail for mail in mails if mail.is_patch]
        if not found and not any(mail.is_cover for mail in mails):
            _check_some(str(path), mails, found)
        patches += found
    if not patches:
        raise UserError(f"{name} has no patches", hint=FORMAT_HINT)
    return _series(name, ", ".join(str(path) for path in paths), patches, notes=())


# --------------------------------------------------------------------------- input


def _read(source: str, stdin: bytes | None) -> tuple[Mail, ...]:
    """The mails of a source, each message once, all with a Message-Id and a date."""
    if source == "-":
        raws = split(stdin or b"")
    elif (path := Path(source)).is_dir():
        raws = _read_folder(path)
    else:
        raws = split(_bytes(path))
    mails = {mail.message_id: mail for mail in map(as_mail, raws)}
    return tuple(mails.values())


def _read_folder(path: Path) -> tuple[bytes, ...]:
    if (path / "cur").is_dir() or (path / "new").is_dir():
        files = [f for part in ("cur", "new") for f in sorted((path / part).glob("*"))]
    else:
        files = sorted(path.glob("*.patch"))
        if not files:
            raise UserError(
                f"{path} is neither a maildir nor a folder of *.patch files", hint=FORMAT_HINT
            )
    return tuple(raw for file in files if file.is_file() for raw in split(_bytes(file)))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UserError(
            f"there is no {path}", hint="a series is a file, a folder, - or a range A..B"
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def split(data: bytes) -> tuple[bytes, ...]:
    """The mails of an mbox, or the one mail that `data` is; none where it is blank.

    Only a line that looks like a separator to git is one: patches made by format-patch
    are not escaped, and their prose may have lines that start with "From ".
    """
    data = data.replace(b"\r\n", b"\n")
    if not data.strip():
        return ()
    starts = [found.start() for found in FROM_LINE.finditer(data)]
    if not starts or data[: starts[0]].strip():
        starts.insert(0, 0)
    ends = [*starts[1:], len(data)]
    return tuple(data[start:end] for start, end in zip(starts, ends, strict=True))


def as_mail(raw: bytes) -> Mail:
    """A mail by its bytes, given a Message-Id (from its content) and a date where it has none."""
    raw = FROM_LINE.sub(b"", raw, count=1) if raw.startswith(b"From ") else raw
    raw = raw.lstrip(b"\n")
    message = email.message_from_bytes(raw)
    added = b""
    if not message["Message-Id"] and message.keys():
        added += (
            b"Message-Id: <%s@ktrial.invalid>\n" % hashlib.sha256(raw).hexdigest()[:32].encode()
        )
    if not message["Date"] and message.keys():
        added += f"Date: {NO_DATE}\n".encode()
    message = email.message_from_bytes(added + raw)
    subject = " ".join(_header(message, "Subject").split())
    tag = TAG.match(REPLY.sub("", subject))
    numbered = NUMBERED.search(tag[1]) if tag else None
    versioned = VERSION.search(tag[1]) if tag else None
    author, address = parseaddr(_header(message, "From"))
    body = _text(message)
    return Mail(
        raw=added + raw,
        subject=TAG.sub("", subject),
        author=author or address,
        email=address,
        message_id=_header(message, "Message-Id").strip(" <>\n") or hashlib.sha256(raw).hexdigest(),
        version=int(versioned[1]) if versioned else 1,
        number=int(numbered[1]) if numbered else 0,
        total=int(numbered[2]) if numbered else 0,
        reply=bool(REPLY.match(subject)),
        files=changed_files(body),
        has_diff=bool(DIFF.search(body)),
    )


def _header(message: email.message.Message, name: str) -> str:
    value = message[name]
    if value is None:
        return ""
    try:
        return str(make_header(decode_header(str(value))))
    except (LookupError, ValueError):  # an encoding nobody knows, or bytes that are not in it
        return str(value)


def _text(message: email.message.Message) -> str:
    """The text parts of a mail, decoded."""
    parts = []
    for part in message.walk():
        if part.get_content_maintype() == "text":
            payload = part.get_payload(decode=True)
            parts.append(payload.decode("utf-8", "replace") if isinstance(payload, bytes) else "")
    return "\n".join(parts)


def changed_files(body: str) -> tuple[str, ...]:
    """The files that a patch changes, in its order."""
    found = [match["new"] for match in DIFF_FILES.finditer(body)]
    return tuple(dict.fromkeys(found or PLAIN_FILES.findall(body)))


# --------------------------------------------------------------------------- checks


def _check_some(source: str, mails: Sequence[Mail], patches: Sequence[Mail]) -> None:
    shown = "standard input" if source == "-" else source
    if not mails:
        raise UserError(f"{shown} is empty", hint=FORMAT_HINT)
    if patches:
        return
    if any(mail.has_diff and not mail.reply for mail in mails):
        raise UserError(f"{shown} is a bare diff, without an author", hint=FORMAT_HINT)
    count = "1 mail" if len(mails) == 1 else f"{len(mails)} mails"
    raise UserError(f"there is no patch in {shown} ({count})", hint=FORMAT_HINT)


def _check_one_series(source: str, patches: Sequence[Mail]) -> None:
    """Two series of one version would be mixed by their numbers."""
    seen: dict[tuple[int, int, int], Mail] = {}
    for mail in patches:
        other = seen.setdefault((mail.version, mail.number, mail.total), mail)
        if mail.total and other.subject != mail.subject:
            raise UserError(
                f"{source} holds two series: “{other.subject}” and “{mail.subject}” are both "
                f"{mail.number}/{mail.total}",
                hint="give one series at a time",
            )


def check_complete(source: str, patches: Sequence[Mail]) -> None:
    """UserError that names the numbers of the patches that are not there."""
    total = max((mail.total for mail in patches), default=0)
    missing = sorted(set(range(1, total + 1)) - {mail.number for mail in patches})
    if missing:
        shown = ", ".join(f"{number}/{total}" for number in missing)
        raise UserError(
            f"{source} is not complete: {'patch' if len(missing) == 1 else 'patches'} {shown} "
            f"missing",
            hint="save the whole thread, for instance with `b4 mbox MESSAGE-ID`",
        )


# --------------------------------------------------------------------------- b4


def _with_b4(
    source: str, mails: Iterable[Mail], version: int, *, scratch: Path, scope: Scope
) -> list[Mail]:
    """The patches of a version, as b4 makes them ready for git am.

    The version is named since b4 would go by the dates of the mails (0.16).
    """
    thread, out, home = scratch / "thread", scratch / "out", scratch / "home"
    for folder in (thread / "cur", thread / "new", thread / "tmp", out, home):
        folder.mkdir(parents=True)
    for number, mail in enumerate(mails):
        (thread / "new" / f"{number:04}.eml").write_bytes(mail.raw)
    done = process.run(
        # A maildir in and out (-M): an mbox has no sure way to tell mails apart.
        (sys.executable, "-P", "-m", "b4.command", "--offline-mode", "am", "-M",
         "-v", str(version), "-m", thread, "-o", out),
        scope=scope.child(B4_SECONDS),
        log=scratch / "b4.log",
        cwd=home,
        env=_environment(home),
    )  # fmt: skip
    ready = sorted(out.glob("*.maildir/new/*")) + sorted(out.glob("*.maildir/cur/*"))
    if not ready:
        process.check(done, "b4")
        raise InfraError(f"b4 found no series in {source}: {done.text.strip()[-300:]}")
    return [as_mail(path.read_bytes()) for path in ready]


def _environment(home: Path) -> dict[str, str]:
    """An environment in which b4 finds no configuration and asks nobody about signatures."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(home.parent),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "b4.attestation-policy",
        "GIT_CONFIG_VALUE_0": "off",
    }


# --------------------------------------------------------------------------- output


def _series(name: str, source: str, mails: Sequence[Mail], notes: tuple[str, ...]) -> Series:
    patches = tuple(replace(_patch(mail), number=n) for n, mail in enumerate(mails, start=1))
    return Series(
        name=name,
        origin="standard input" if source == "-" else source,
        version=max(mail.version for mail in mails),
        patches=patches,
        notes=notes,
    )


def _patch(mail: Mail) -> Patch:
    return Patch(
        number=mail.number,
        subject=mail.subject,
        author=mail.author,
        email=mail.email,
        files=mail.files,
        message_id=mail.message_id,
        mail=mail.raw,
    )


def _name(source: str) -> str:
    """A short name from the file's, fit for file names and the names of cases."""
    stem = "stdin" if source == "-" else Path(source).resolve().name
    stem = re.sub(r"\.(mbox|mbx|patch|eml|maildir)$", "", stem)
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "series"
