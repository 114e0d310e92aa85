"""What a mail's diff does to each file, read from its text. Pure.

Read as `git apply` reads it: a hunk's length is what its header says, so that a line of the
patch's own content is never taken for a header.
"""

from __future__ import annotations

import email
import email.message
import re
from collections.abc import Iterator
from dataclasses import dataclass

SYMLINK, GITLINK = "120000", "160000"
NULL = "/dev/null"
CONFIGURING = (".gitattributes",)
HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
INDEX = re.compile(r"^index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?\s*$")
QUOTED = re.compile(rb"\\([0-7]{3}|.)", re.S)
ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13}
NO_BLOB = re.compile(r"^0+$")


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a diff does to one file. Paths without their first component, as `-p1` has them.

    `old` is "" for a new file, `new` for one that goes. Blobs as the index line shortens them,
    "" where it has none or there is no such side. `content`: the added lines of a symbolic
    link, which are where it leads, and of .gitattributes. `exact`: the line counts say what a
    listing of the commit without renames must say too. `outside`: a name that starts at the
    root of the file system.
    """

    old: str
    new: str
    old_mode: str = ""
    new_mode: str = ""
    old_blob: str = ""
    new_blob: str = ""
    insertions: int = 0
    deletions: int = 0
    content: str = ""
    renamed: bool = False
    copied: bool = False
    binary: bool = False
    outside: bool = False

    @property
    def path(self) -> str:
        return self.new or self.old

    @property
    def paths(self) -> tuple[str, ...]:
        """Those that a listing without renames has, each once."""
        sides = (self.new,) if self.copied else (self.old, self.new)
        return tuple(dict.fromkeys(filter(None, sides)))

    @property
    def exact(self) -> bool:
        return not (self.renamed or self.copied or self.binary)


def of_mail(mail: bytes) -> tuple[Change, ...]:
    """The changes of all the text that a mail has."""
    message = email.message_from_bytes(mail)
    return tuple(change for text in _texts(message) for change in changes(text))


def body(mail: bytes) -> str:
    """The text of a mail, decoded; bytes that are not UTF-8 as surrogates."""
    return "\n".join(_texts(email.message_from_bytes(mail)))


def _texts(message: email.message.Message) -> Iterator[str]:
    for part in message.walk():
        if part.get_content_maintype() != "text":
            continue
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes):
            yield payload.decode("utf-8", errors="surrogateescape")


def changes(text: str) -> tuple[Change, ...]:
    """The changes of a diff; text around it is passed over."""
    return tuple(_Reader(text.split("\n")).read())


class _Reader:
    """Goes through the lines once."""

    def __init__(self, lines: list[str]) -> None:
        self._lines, self._at = lines, 0

    def read(self) -> Iterator[Change]:
        while self._at < len(self._lines):
            line = self._line()
            if line.startswith("diff --git "):
                yield self._git(line)
            elif self._traditional():
                yield self._hunks(_Draft())
            else:
                self._at += 1

    def _line(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._lines[at] if at < len(self._lines) else ""

    def _traditional(self) -> bool:
        return (
            self._line().startswith("--- ")
            and self._line(1).startswith("+++ ")
            and HUNK.match(self._line(2)) is not None
        )

    def _git(self, first: str) -> Change:
        draft = _Draft(header=first.removeprefix("diff --git ").rstrip("\r"))
        self._at += 1
        while self._at < len(self._lines):
            line = self._line()
            if not draft.take(line.rstrip("\r")):
                break
            self._at += 1
            if draft.binary:
                break
        return self._hunks(draft)

    def _hunks(self, draft: _Draft) -> Change:
        if self._line().startswith("--- ") and self._line(1).startswith("+++ "):
            draft.sides(self._line().rstrip("\r"), self._line(1).rstrip("\r"))
            self._at += 2
        while found := HUNK.match(self._line()):
            self._at += 1
            self._hunk(draft, int(found[1] or 1), int(found[2] or 1))
        return draft.change()

    def _hunk(self, draft: _Draft, old: int, new: int) -> None:
        while (old > 0 or new > 0) and self._at < len(self._lines):
            line = self._line()
            sign = line[:1]
            if sign not in ("", "\r", " ", "+", "-", "\\", "\t"):
                return
            self._at += 1
            if sign == "\\":
                continue
            old -= sign != "+"
            new -= sign != "-"
            draft.count(sign, line[1:])
        if self._line().startswith("\\"):  # no newline at the end of the file
            self._at += 1


class _Draft:
    """A change in the making."""

    def __init__(self, header: str = "") -> None:
        self._header = header
        self.binary = False
        self._old = self._new = ""
        self._named = self._renamed = self._copied = self._created = self._deleted = False
        self._modes = ["", ""]
        self._blobs = ["", ""]
        self._counts = [0, 0]
        self._content: list[str] = []
        self._outside = False

    def take(self, line: str) -> bool:
        """One of the extended headers; False where the line is none."""
        for words, side in (("old mode ", 0), ("deleted file mode ", 0), ("new mode ", 1),
                            ("new file mode ", 1)):  # fmt: skip
            if line.startswith(words):
                self._modes[side] = line.removeprefix(words).strip()
                self._created |= words.startswith("new file")
                self._deleted |= words.startswith("deleted")
                return True
        for words, side in (("rename from ", 0), ("rename to ", 1), ("copy from ", 0),
                            ("copy to ", 1)):  # fmt: skip
            if line.startswith(words):
                self._moved(words, side, unquoted(line.removeprefix(words)))
                return True
        if found := INDEX.match(line):
            self._index(found)
            return True
        self.binary = line.startswith(("GIT binary patch", "Binary files "))
        return self.binary or line.startswith(("similarity index", "dissimilarity index"))

    def _moved(self, words: str, side: int, name: str) -> None:
        self._renamed |= words.startswith("rename")
        self._copied |= words.startswith("copy")
        self._named = True
        self._outside |= name.startswith("/")
        if side:
            self._new = name
        else:
            self._old = name

    def _index(self, found: re.Match[str]) -> None:
        self._blobs = ["" if NO_BLOB.match(found[side]) else found[side] for side in (1, 2)]
        if found[3]:
            self._modes = [self._modes[0] or found[3], self._modes[1] or found[3]]

    def sides(self, old: str, new: str) -> None:
        """The lines `--- a/x` and `+++ b/x`."""
        raw = [unquoted(line[4:].split("\t")[0]) for line in (old, new)]
        self._created |= raw[0] == NULL
        self._deleted |= raw[1] == NULL
        self._outside |= any(name.startswith("/") and name != NULL for name in raw)
        if not self._named:
            self._old, self._new = ("" if name == NULL else stripped(name) for name in raw)
            self._named = True

    def count(self, sign: str, rest: str) -> None:
        self._counts[0] += sign == "+"
        self._counts[1] += sign == "-"
        if sign == "+" and (self._modes[1] == SYMLINK or self._configures()):
            self._content.append(rest)

    def _configures(self) -> bool:
        name = (self._new or self._header).rstrip('"').rpartition("/")[2]
        return name.lower() in CONFIGURING

    def change(self) -> Change:
        if not self._named:
            old, new = from_header(self._header)
            self._outside |= any(name.startswith("/") for name in (old, new))
            self._old, self._new = stripped(old), stripped(new)
        return Change(
            old="" if self._created else self._old,
            new="" if self._deleted else self._new,
            old_mode=self._modes[0],
            new_mode="" if self._deleted else self._modes[1],
            old_blob=self._blobs[0],
            new_blob=self._blobs[1],
            insertions=self._counts[0],
            deletions=self._counts[1],
            content="\n".join(self._content),
            renamed=self._renamed,
            copied=self._copied,
            binary=self.binary,
            outside=self._outside,
        )


def from_header(header: str) -> tuple[str, str]:
    """The two names of `diff --git a/x b/x`, which are one where no other line names them."""
    if header.startswith('"'):
        end = re.match(r'"(?:[^"\\]|\\.)*"', header)
        first = end[0] if end else header
        return unquoted(first), unquoted(header[len(first) :].strip() or first)
    # Both are of one length but for the prefixes, which git takes from anything before a slash.
    for at, letter in enumerate(header):
        old, new = header[:at], header[at + 1 :]
        if letter == " " and new and stripped(old) == stripped(new):
            return old, new
    old, _, new = header.partition(" ")
    return old, unquoted(new)


def stripped(name: str) -> str:
    """A name without its first component."""
    return name.partition("/")[2] if "/" in name else name


def unquoted(name: str) -> str:
    """A name as git writes it: in quotes, with escapes, where it has unusual bytes."""
    name = name.rstrip("\r")
    if not (len(name) > 1 and name.startswith('"') and name.endswith('"')):
        return name
    raw = name[1:-1].encode("utf-8", errors="surrogateescape")

    def plain(found: re.Match[bytes]) -> bytes:
        word = found[1]
        if len(word) == 3:
            return bytes((int(word, 8) & 0xFF,))
        return bytes((ESCAPES[word],)) if word in ESCAPES else word

    return QUOTED.sub(plain, raw).decode("utf-8", errors="surrogateescape")
