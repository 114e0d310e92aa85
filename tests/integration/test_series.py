"""Series from every place where people have them, from real format-patch output."""

from __future__ import annotations

import mailbox
import resource
import time
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.model import Series
from pipeline.scope import Scope
from pipeline.series import read_files, read_series
from tests.minikernel_repo import TAG, change, format_patches, git, make_repository
from tests.unit.mails import Letter
from tests.unit.mails import mbox as to_mbox


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repo = make_repository(tmp_path_factory.mktemp("tree") / "linux")
    for order in (3, 2, 1):
        change(repo, order=order)
    return repo


@pytest.fixture
def mbox(repo: Path, tmp_path: Path) -> Path:
    """A threaded v2 with a cover letter, as sent, and a reply with a trailer."""
    path = tmp_path / "slub.mbox"
    text = git(
        repo, "format-patch", "--stdout", "-v2", "--thread=shallow", "--cover-letter",
        "--cover-from-description=none", TAG,
    )  # fmt: skip
    first = next(line for line in text.splitlines() if line.startswith("Message-Id: "))
    reply = (
        "From nobody Mon Sep 17 00:00:00 2001\nMessage-Id: <reply@example.org>\n"
        f"In-Reply-To: {first.split()[1]}\nFrom: Bob Reviewer <bob@example.org>\n"
        "Date: Tue, 2 Jan 2024 10:00:00 +0000\nSubject: Re: [PATCH v2 0/3] *** SUBJECT HERE ***\n\n"
        "Reviewed-by: Bob Reviewer <bob@example.org>\n"
    )
    path.write_text(f"{text}\n\n{reply}")
    return path


def mails(mbox: Path) -> list[str]:
    return [f"From {part}" for part in f"\n{mbox.read_text()}".split("\nFrom ")[1:]]


def read(source: Path | str, scope: Scope, stdin: bytes | None = None) -> Series:
    return read_series(str(source), stdin=stdin, scope=scope)


def subjects(series: Series) -> list[str]:
    return [patch.subject for patch in series.patches]


IN_ORDER = ["mm: slub: set order 3", "mm: slub: set order 2", "mm: slub: set order 1"]


def test_an_mbox(mbox: Path, scope: Scope) -> None:
    series = read(mbox, scope)
    assert (series.name, series.version, subjects(series)) == ("slub", 2, IN_ORDER)
    assert [patch.number for patch in series.patches] == [1, 2, 3]
    assert series.patches[0].files == ("mm/slub.c",)
    assert series.patches[0].email == "ada@example.org"
    assert b"Reviewed-by: Bob Reviewer" not in series.patches[2].mail
    asked = read_series(str(mbox), stdin=None, scope=scope, trailers=True)
    assert all(b"Reviewed-by: Bob Reviewer" in patch.mail for patch in asked.patches)


def test_an_mbox_out_of_order(mbox: Path, scope: Scope) -> None:
    mbox.write_text("\n".join(reversed(mails(mbox))))
    assert subjects(read(mbox, scope)) == IN_ORDER


def test_standard_input(mbox: Path, scope: Scope) -> None:
    series = read("-", scope, stdin=mbox.read_bytes())
    assert (series.name, series.origin) == ("stdin", "standard input")
    assert subjects(series) == IN_ORDER


def test_a_maildir(mbox: Path, tmp_path: Path, scope: Scope) -> None:
    box = mailbox.Maildir(tmp_path / "box")
    for mail in mails(mbox):
        box.add(mail.split("\n", 1)[1].encode())
    assert subjects(read(tmp_path / "box", scope)) == IN_ORDER


@pytest.mark.parametrize("options", [(), ("-N",), ("-k",)])
def test_a_folder_of_patches(
    repo: Path, tmp_path: Path, scope: Scope, options: tuple[str, ...]
) -> None:
    folder = tmp_path / "patches"
    git(repo, "format-patch", *options, "-o", str(folder), TAG)
    assert subjects(read(folder, scope)) == IN_ORDER


def test_one_patch_file(repo: Path, tmp_path: Path, scope: Scope) -> None:
    (path,) = format_patches(repo, "HEAD^", tmp_path / "patches")
    assert subjects(read(path, scope)) == IN_ORDER[2:]


def test_the_newest_version_is_taken(repo: Path, mbox: Path, scope: Scope) -> None:
    newer = git(repo, "format-patch", "--stdout", "-v3", "HEAD^")
    mbox.write_text(f"{mbox.read_text()}\n{newer}\n")
    series = read(mbox, scope)
    assert (series.version, subjects(series)) == (3, IN_ORDER[2:])
    assert "v2 is there too" in series.notes[0]


def test_a_newer_cover_letter_alone_is_said(mbox: Path, scope: Scope) -> None:
    cover = mails(mbox)[0].replace("PATCH v2 0/3", "PATCH v3 0/2").replace("<cover", "<newer")
    mbox.write_text(f"{mbox.read_text()}\n{cover}")
    series = read(mbox, scope)
    assert series.version == 2
    assert "v3 is newer and not complete (patches 1/2, 2/2 missing)" in series.notes[0]


def test_a_cover_letter_alone_is_no_series(mbox: Path, scope: Scope) -> None:
    mbox.write_text(mails(mbox)[0])
    with pytest.raises(UserError, match="patches 1/3–3/3 missing"):
        read(mbox, scope)


def test_a_busy_day_of_a_list(tmp_path: Path, scope: Scope) -> None:
    """2,000 mails in one mbox: the series asked for, in seconds and without much memory."""
    path = tmp_path / "day.mbox"
    path.write_bytes(busy_day(250))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    series = read_series(str(path), stdin=None, scope=scope, pick="<77-0@example.org>")
    seconds = time.process_time() - start
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"2,000 mails, {path.stat().st_size / 1e6:.1f} MB: {seconds:.1f} s, {megabytes:.0f} MB")
    assert [patch.subject for patch in series.patches] == [f"sub77: part {n}" for n in range(1, 6)]
    assert len(series.left_out) == 3
    assert series.notes[-1] == "1992 other mails are passed over"
    assert seconds < 30
    assert megabytes < 400


def busy_day(count: int) -> bytes:
    """`count` series of a cover letter, five patches and two replies."""
    diffs = "".join(
        f"diff --git a/mm/f{n}.c b/mm/f{n}.c\n--- a/mm/f{n}.c\n+++ b/mm/f{n}.c\n"
        "@@ -1,6 +1,7 @@\n a\n b\n c\n+\tnew line of code\n d\n e\n f\n"
        for n in range(25)
    )
    found = []
    for at in range(count):
        sender = f"Dev {at} <dev{at}@example.org>"
        words = ["cover\n", *[f"Words.\n---\n{diffs}-- \n2.39\n"] * 5]
        for number, body in enumerate(words):
            title = f"[PATCH v2 {number}/5] sub{at}: part {number}"
            found.append(
                Letter(
                    subject=title, body=body, sender=sender,
                    message_id=f"{at}-{number}@example.org",
                    answers=f"{at}-0@example.org" if number else "",
                )
            )  # fmt: skip
        for number in (1, 2):
            found.append(
                Letter(
                    subject=f"Re: [PATCH v2 {number}/5] sub{at}: part {number}",
                    body="> quoted\n" * 100, sender="Bob <bob@example.net>",
                    message_id=f"re-{at}-{number}@example.net",
                    answers=f"{at}-{number}@example.org",
                )
            )  # fmt: skip
    return to_mbox(*found)


def test_a_scenarios_own_files(repo: Path, tmp_path: Path) -> None:
    paths = format_patches(repo, TAG, tmp_path / "patches")
    series = read_files([paths[1], paths[0]], name="own")
    assert (series.name, subjects(series)) == ("own", [IN_ORDER[1], IN_ORDER[0]])


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("From: Ada <ada@example.org>\nSubject: hello\n\nno patch here\n", "no patch in"),
        ("diff --git a/x.c b/x.c\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n", "bare diff"),
        ("\0\1\2 junk", "no patch in"),
    ],
)
def test_what_is_no_series(content: str, message: str, tmp_path: Path, scope: Scope) -> None:
    path = tmp_path / "x.mbox"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        read(path, scope)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=message):
        read_files([path], name="x")


def test_no_such_file_and_an_empty_folder(tmp_path: Path, scope: Scope) -> None:
    with pytest.raises(UserError, match="there is no"):
        read(tmp_path / "none.mbox", scope)
    with pytest.raises(UserError, match="neither a maildir nor a folder"):
        read(tmp_path, scope)


def test_a_missing_patch_is_named(mbox: Path, scope: Scope) -> None:
    mbox.write_text("\n".join(mail for mail in mails(mbox) if "[PATCH v2 2/3]" not in mail))
    with pytest.raises(UserError, match="patch 2/3 missing"):
        read(mbox, scope)


def test_two_series_in_one_file(mbox: Path, scope: Scope) -> None:
    text = mbox.read_text()
    other = text.replace("slub: set", "slab: set").replace("Message-Id: <", "Message-Id: <other.")
    mbox.write_text(f"{text}\n{other}")
    with pytest.raises(UserError, match="two series"):
        read(mbox, scope)
