"""Mails for the tests of reading series: a small tree, three commits, and mails made of them."""

from __future__ import annotations

import base64
import quopri
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.minikernel_repo import commit, git, make_repository

ADA = "Ada Author <ada@example.org>"
BOB = "Bob Reviewer <bob@example.net>"
SEPARATOR = "From mboxrd@z Thu Jan  1 00:00:00 1970\n"

FILE = """\
#include <linux/mm.h>

int {name}_order(int objects)
{{
\tif (objects < 4)
\t\treturn 0;

\treturn objects;
}}

int {name}_last(void)
{{
\treturn 1;
}}
"""
TITLES = ("mm: a: return two at last", "mm: b: take one argument more", "doc: say what a does")


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What a commit is to be, and what git am made."""

    author: str
    email: str
    subject: str
    body: str
    files: tuple[str, ...]
    tree: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A mail as it is written; `body` ends in a newline."""

    subject: str
    body: str
    sender: str = ADA
    message_id: str = ""
    answers: str = ""
    date: str = "Tue, 2 Jan 2024 03:04:05 +0000"
    headers: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        head = {"From": self.sender, "Subject": self.subject, "Date": self.date}
        if self.message_id:
            head["Message-Id"] = f"<{self.message_id}>"
        if self.answers:
            head["In-Reply-To"] = f"<{self.answers}>"
        lines = [f"{key}: {value}\n" for key, value in {**head, **self.headers}.items() if value]
        return "".join(lines) + "\n" + self.body

    def raw(self) -> bytes:
        return self.text().encode("utf-8", "surrogateescape")

    def with_(self, **changes: object) -> Letter:
        return replace(self, **changes)  # type: ignore[arg-type]


def mbox(*letters: Letter) -> bytes:
    """As lore gives a thread: mboxrd, in which no line of a mail looks like a separator."""
    parts = []
    for each in letters:
        text = "\n".join(
            f">{line}" if line.lstrip(">").startswith("From ") else line
            for line in each.text().split("\n")
        )
        parts.append(f"{SEPARATOR}{text}\n")
    return "".join(parts).encode("utf-8", "surrogateescape")


def make_tree(path: Path) -> Path:
    """The miniature kernel with files to patch, and three commits on top, on the branch "topic"."""
    repo = make_repository(path)
    for name in ("a", "b"):
        (repo / f"mm/{name}.c").write_text(FILE.format(name=name))
    (repo / "tools").mkdir(exist_ok=True)
    (repo / "tools/run.sh").write_text("#!/bin/sh\necho run\n")
    (repo / "tools/with space.txt").write_text("one\ntwo\nthree\n")
    (repo / "tools/crlf.txt").write_bytes(b"one\r\ntwo\r\nthree\r\nfour\r\n")
    (repo / "tools/bare.txt").write_bytes(b"one\ntwo\nlast")
    (repo / "tools/data.bin").write_bytes(bytes(range(256)))
    commit(repo, "files")
    git(repo, "branch", "-f", "start")
    git(repo, "checkout", "-q", "-b", "topic")
    _edit(repo / "mm/a.c", "\treturn 1;", "\treturn 2;")
    _commit(repo, TITLES[0], 'One is too few.\n\nFixes: 123456789abc ("mm: a: begin")')
    _edit(repo / "mm/b.c", "(int objects)", "(int objects, int more)")
    _edit(repo / "mm/b.c", "return objects;", "return objects + more;")
    _commit(repo, TITLES[1], "It is needed.")
    (repo / "tools/a.rst").write_text("a\n=\n\nIt says “two”.\n")
    _commit(repo, TITLES[2], "Für alle, die fragen.")
    return repo


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _commit(repo: Path, title: str, words: str) -> str:
    return commit(repo, f"{title}\n\n{words}\n\nSigned-off-by: {ADA}")


def letters(repo: Path, revisions: str = "start..topic", *options: str) -> tuple[Letter, ...]:
    """The commits of a range as `git format-patch` writes their mails."""
    words = ("git", "-C", str(repo), "format-patch", "--stdout", "--encode-email-headers")
    done = subprocess.run((*words, *options, revisions), capture_output=True, check=True)
    text = done.stdout.decode("utf-8", "surrogateescape")
    found = []
    for mail in re.split(r"^From [0-9a-f]{40} Mon Sep 17 00:00:00 2001\n", text, flags=re.M)[1:]:
        head, _, body = mail.partition("\n\n")
        values: dict[str, str] = {}
        for line in head.replace("\n ", " ").split("\n"):
            key, _, value = line.partition(": ")
            values[key] = value
        found.append(
            Letter(
                subject=values["Subject"],
                body=body,
                sender=values["From"],
                headers={key: values[key] for key in values if key.startswith(("MIME", "Content"))},
            )
        )
    return tuple(found)


def commits(repo: Path, revisions: str) -> tuple[Commit, ...]:
    """The commits of a range, the first first; files as a listing without renames has them."""
    text = git(
        repo, "log", "--reverse", "--no-renames", "--name-only", "-z",
        "--format=%x01%an%x00%ae%x00%s%x00%b%x00%T%x00", revisions,
    )  # fmt: skip
    found = []
    for each in text.split("\x01")[1:]:
        author, email, subject, body, tree, *files = each.split("\0")
        found.append(
            Commit(
                author=author,
                email=email,
                subject=subject,
                body=body.strip("\n"),
                files=tuple(file for each in files if (file := each.strip("\n"))),
                tree=tree,
            )
        )
    return tuple(found)


# --------------------------------------------------------------------------- encodings


def encoded(letter: Letter, how: str, charset: str = "utf-8", *, crlf: bool = False) -> Letter:
    """The letter with its body in a transfer encoding and a charset."""
    text = letter.body.replace("\n", "\r\n") if crlf else letter.body
    raw = text.encode(charset)
    if how == "base64":
        body = base64.encodebytes(raw)
    else:  # quopri takes a CR before a newline for a part of the line's end
        body = quopri.encodestring(raw.replace(b"\r", b"\1")).replace(b"=01", b"=0D")
    return typed(
        letter.with_(body=body.decode("ascii")), f"text/plain; charset={charset}", encoding=how
    )


def typed(letter: Letter, content_type: str, *, encoding: str = "8bit") -> Letter:
    headers = {
        "MIME-Version": "1.0",
        "Content-Type": content_type,
        "Content-Transfer-Encoding": encoding,
    }
    return letter.with_(headers={**letter.headers, **headers})


def multipart(letter: Letter, *parts: tuple[str, str], kind: str = "mixed") -> Letter:
    """A mail of parts, each (headers, text)."""
    body = "".join(f"--=-cut\n{headers}\n\n{text}\n" for headers, text in parts)
    return typed(letter.with_(body=f"{body}--=-cut--\n"), f'multipart/{kind}; boundary="=-cut"')


def flowed(letter: Letter, *, width: int = 0) -> Letter:
    """As a client sends format=flowed: lines stuffed, and broken softly past `width`."""
    lines = []
    for line in letter.body.rstrip("\n").split("\n"):
        rest = line if line == "-- " else line.rstrip(" ")
        while width and len(rest) > width and " " in rest[1:width]:
            cut = rest.rindex(" ", 1, width) + 1
            lines.append(_stuffed(rest[:cut]))
            rest = rest[cut:]
        lines.append(_stuffed(rest))
    return typed(
        letter.with_(body="\n".join(lines) + "\n"), "text/plain; charset=utf-8; format=flowed"
    )


def _stuffed(line: str) -> str:
    return f" {line}" if line.startswith((" ", ">", "From ")) else line
