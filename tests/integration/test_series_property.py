"""Any series that git format-patch exports comes back as it was, however its mails were mangled
in harmless ways; mangled in harmful ways it never becomes other commits in silence."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline import commits, faithful
from pipeline.model import Series
from pipeline.repository import Git
from pipeline.scope import Scope
from pipeline.series import NoSeries, read_series
from tests.minikernel_repo import git
from tests.unit import mails
from tests.unit.mails import Commit, Letter, mbox

EXAMPLES = 60
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    # No shrinking: each try starts git a dozen times.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
PATHS = ("mm/a.c", "mm/b.c", "doc/with space.txt", "doc/ü.rst", "new.c")
LINES = st.sampled_from(
    [
        *("", "int a;", "\treturn 1;", "}", " leading", "trailing ", "\t", "-- ", "---"),
        *("--- a/x.c", "+++ b/x.c", "@@ -1 +1 @@", "diff --git a/x b/x", "Index: x"),
        *("From 0123456789 Mon Sep 17 00:00:00 2001", "From what I know, 10:20 in 2024"),
        *("> quoted", ">From here", "ä “quoted” €", "\\ No newline", "-- >8 --", "=20"),
        *("=?utf-8?q?x?=", "Signed-off-by: Eve <eve@example.org>", "x" * 90),
        "a line with as many words in it as it takes to be broken by a program that breaks lines",
    ]
)
CONTENTS = st.tuples(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\n", "\n", "\r\n", ""]))
WORDS = st.sampled_from(
    [
        "It is needed.", "  indented", "> quoted", "From what I know, 10:20 in 2024", "Für alle €.",
        "From: nobody in particular", "* a list", "[PATCH] is a word", "#define X", "a = b",
        "Fixes: 123456789abc (\"x\")", "a\tb", "On Monday Bob wrote:",
        "now a -- >8 -- is a mark in it",
    ]
)  # fmt: skip
TITLES = st.sampled_from(
    [
        "mm: slub: fix it",
        "Für €",
        "net: 1/2 of it",
        "revert: “x”",
        "a" * 120,
        "v2 of it",
        "x: [y] z",
    ]
)
NAMES = st.sampled_from(
    ["Ada Author", "Jörg Example", "O'Neil, Ada", "Ada (at work)", 'Ada "A" Author', "李 明"]
)


@dataclass(frozen=True, kw_only=True)
class Change:
    title: str
    words: list[str]
    name: str
    path: str
    lines: list[str]
    end: str

    @property
    def content(self) -> bytes:
        if not self.end:
            return "\n".join(self.lines).encode()
        return "".join(f"{line}{self.end}" for line in self.lines).encode()

    @property
    def message(self) -> str:
        body = "\n".join(self.words)
        return f"{self.title}\n\n{body}\n\nSigned-off-by: Ada <ada@example.org>\n"


CHANGES = st.lists(
    st.builds(
        lambda title, words, name, path, content: Change(
            title=title, words=words, name=name, path=path, lines=content[0], end=content[1]
        ),
        TITLES, st.lists(WORDS, min_size=1, max_size=4, unique=True), NAMES,
        st.sampled_from(PATHS), CONTENTS,
    ),
    min_size=1, max_size=4, unique_by=lambda change: change.title,
)  # fmt: skip


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repo = tmp_path_factory.mktemp("property") / "tree"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "mm").mkdir()
    for path in ("mm/a.c", "mm/b.c"):
        (repo / path).write_text("int x;\n\nint f(void)\n{\n\treturn 0;\n}\n" * 3)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "start")
    git(repo, "branch", "start")
    git(repo, "checkout", "-q", "--detach")
    return repo


def make(repo: Path, changes: list[Change]) -> tuple[Commit, ...]:
    """These changes as commits on the branch "topic"; those that change nothing are no commits."""
    stream, parent = [], "refs/heads/start^0"
    for number, change in enumerate(changes, 1):
        message, content = change.message.encode(), change.content
        stream.append(
            f"commit refs/heads/topic\nmark :{number}\n"
            f"author {change.name} <ada@example.org> {1700000000 + number} +0100\n"
            f"committer C <c@example.org> {1700000000 + number} +0000\n"
            f"data {len(message)}\n".encode()
            + message
            + f'\nfrom {parent}\nM 100644 inline "{change.path}"\ndata {len(content)}\n'.encode()
            + content
            + b"\n"
        )
        parent = f":{number}"
    words = ("git", "-C", str(repo), "fast-import", "--quiet", "--force")
    subprocess.run(words, input=b"".join(stream), check=True, capture_output=True)
    return mails.commits(repo, "start..topic")


def apply(repo: Path, series: Series, folder: Path) -> tuple[Commit, ...] | None:
    """What git am makes of a series on the branch "start"; None where it refuses."""
    git(repo, "reset", "-q", "--hard", "start")
    files = []
    for patch in series.patches:
        files.append(folder / f"{patch.number}.eml")
        files[-1].write_bytes(patch.mail)
    am = ("git", "-C", str(repo), "am", "-q", "--patch-format=mbox")
    done = subprocess.run((*am, *map(str, files)), capture_output=True, check=False)
    if done.returncode:
        subprocess.run(("git", "-C", str(repo), "am", "--abort"), capture_output=True, check=False)
        return None
    return mails.commits(repo, "start..HEAD")


def sent(repo: Path, changes: list[Change]) -> tuple[tuple[Commit, ...], list[Letter]] | None:
    """The commits and their mails; None where the changes are none, or one is empty."""
    made = make(repo, changes)
    if any(not each.files for each in made):
        return None
    found = list(mails.letters(repo, "start..topic", "--numbered"))
    return made, [
        each.with_(
            message_id=f"{number}@example.org", answers="1@example.org" if number > 1 else ""
        )
        for number, each in enumerate(found, 1)
    ]


# --------------------------------------------------------------------------- harmless

Mangle = Callable[[Letter], Letter]


def _converted(letter: Letter) -> Letter:
    try:
        return mails.encoded(letter, "base64", "windows-1252", crlf=True)
    except UnicodeEncodeError:
        return letter


def _footer(letter: Letter) -> Letter:
    return letter.with_(body=f"{letter.body}\n____________\nlist mailing list\nlist@example.org\n")


def _flowed(letter: Letter) -> Letter:
    ends = [line.endswith(" ") and line not in {"-- ", " "} for line in letter.body.split("\n")]
    inner = "\n-- \n" in letter.body.rpartition("\n-- \n")[0] or "\r" in letter.body
    return letter if any(ends) or inner else mails.flowed(letter)


def _folded(letter: Letter) -> Letter:
    return letter.with_(subject=letter.subject.replace("] ", "]\n ", 1))


def _rewritten(letter: Letter) -> Letter:
    name = letter.sender.partition("<")[0].strip().strip('"')
    if (
        not name.isascii()
        or not name.replace(" ", "").isalpha()
        or letter.body.startswith("From: ")
    ):
        return letter
    body = f"From: {letter.sender}\n\n{letter.body}"
    return letter.with_(sender=f"{name} via list <list@example.org>", body=body)


def _multipart(letter: Letter) -> Letter:
    head = "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit"
    return mails.multipart(letter, (head, letter.body), (head, "____\na footer\n"))


HARMLESS: dict[str, Mangle] = {
    "as it is": lambda letter: letter,
    "quoted-printable": lambda letter: mails.encoded(letter, "quoted-printable"),
    "base64, CRLF": lambda letter: mails.encoded(letter, "base64", crlf=True),
    "another charset": _converted,
    "footer": _footer,
    "flowed": _flowed,
    "folded": _folded,
    "rewritten": _rewritten,
    "multipart": _multipart,
}


@SETTINGS
@given(
    changes=CHANGES,
    how=st.lists(st.sampled_from(sorted(HARMLESS)), min_size=4, max_size=4),
    order=st.randoms(use_true_random=False),
    crlf=st.booleans(),
    twice=st.booleans(),
)
def test_harmless_mangling(
    *, changes: list[Change], how: list[str], order: random.Random, crlf: bool, twice: bool,
    repo: Path, tmp_path: Path,
) -> None:  # fmt: skip
    ready = sent(repo, changes)
    if ready is None:
        return
    made, letters = ready
    mangled = [HARMLESS[name](each) for name, each in zip(how, letters, strict=False)]
    mangled.append(
        Letter(subject=f"Re: {letters[0].subject}", body="> It is\n\nIs it?\n",
               message_id="reply@example.org", answers="1@example.org", sender=mails.BOB)
    )  # fmt: skip
    if twice:
        again = mangled[0].with_(date="Tue, 2 Jan 2024 03:05:35 +0000")
        mangled += [mangled[0], again.with_(message_id="again@example.org")]
    order.shuffle(mangled)
    source = mbox(*mangled)
    if crlf:
        source = source.replace(b"\n", b"\r\n")
    series = read_series("-", stdin=source, scope=Scope(60))
    assert len(series.left_out) == (3 if twice else 1)
    came = apply(repo, series, tmp_path)
    assert came is not None
    assert came == made
    assert [each.tree for each in came] == [each.tree for each in made]


# --------------------------------------------------------------------------- harmful


def _wrapped(text: str, chance: random.Random) -> str:
    width = chance.choice((40, 60, 72))
    lines = []
    for line in text.split("\n"):
        while len(line) > width and " " in line[1:width]:
            cut = line.rindex(" ", 1, width)
            lines.append(line[:cut])
            line = line[cut + 1 :]  # noqa: PLW2901 - what is left of it
        lines.append(line)
    return "\n".join(lines)


def _lost(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    start = lines.index("---")
    del lines[chance.randrange(start, len(lines))]
    return "\n".join(lines)


def _cut(text: str, chance: random.Random) -> str:
    at = chance.randrange(text.index("\n---\n") + 5, len(text))
    return text[: text.rindex("\n", 0, at) + 1]


def _trimmed(text: str, _: random.Random) -> str:
    return "\n".join(line.lstrip(" ") for line in text.split("\n"))


def _untabbed(text: str, _: random.Random) -> str:
    return text.replace("\t", "        ")


def _edited(text: str, chance: random.Random) -> str:
    """Another letter in one of the lines of a hunk: nothing that git or a count would see."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if line.startswith("@@ -")), len(lines))
    hits = [at for at in range(first + 1, len(lines)) if re.match(r"[ +-].*\w", lines[at])]
    if hits:
        at = chance.choice(hits)
        lines[at] = lines[at][0] + re.sub(r"\w", "#", lines[at][1:], count=1)
    return "\n".join(lines)


def _unplussed(text: str, _: random.Random) -> str:
    return re.sub(r"^\+\+\+ .*\n", "", text, flags=re.M)


HARMFUL: dict[str, Callable[[str, random.Random], str]] = {
    "wrapped": _wrapped,
    "a line lost": _lost,
    "cut off": _cut,
    "spaces trimmed": _trimmed,
    "tabs lost": _untabbed,
    "+++ lost": _unplussed,
    "a letter changed": _edited,
}


@SETTINGS
@given(
    changes=CHANGES,
    how=st.sampled_from(sorted(HARMFUL)),
    chance=st.randoms(use_true_random=False),
)
def test_harmful_mangling(
    changes: list[Change], how: str, chance: random.Random, repo: Path, tmp_path: Path
) -> None:
    ready = sent(repo, changes)
    if ready is None:
        return
    made, letters = ready
    number = chance.randrange(len(letters))
    letters[number] = letters[number].with_(body=HARMFUL[how](letters[number].body, chance))
    try:
        series = read_series("-", stdin=mbox(*letters), scope=Scope(60))
    except NoSeries as error:
        assert error.message
        return
    came = apply(repo, series, tmp_path)
    at = Git(git_dir=repo / ".git", scope=Scope(60))
    done = commits.between(at, "start", "HEAD") if came is not None else ()
    said = series.problems or faithful.claims(series) or faithful.compare(series, done)
    same = came is not None and [each.tree for each in came] == [each.tree for each in made]
    assert came is None or same or said, (how, letters[number].body)
